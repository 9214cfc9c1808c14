"""A small real cluster for end-to-end tests: a master, agents on this machine, and the muster
command.

All its files are in the current folder (each test program runs in its own folder). The kernel
chooses the ports. Use it as a context manager; on exit it ends every process that it started.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

BIN = pathlib.Path(os.environ["MUSTER_BIN"])
SOURCE = pathlib.Path(os.environ["MUSTER_SOURCE"])
PYTHON = "/usr/bin"  # Debian's packages belong to Debian's Python
PASSWORD = "correct horse battery staple"

# Lines of a shell script that ask once whether the program should leave.
POLL = """\
python3 - <<'END'
import os, urllib.request
path = f"/api/v1/allocations/{os.environ['DET_ALLOCATION_ID']}/signals/preemption?timeout_seconds=0"
headers = {"Grpc-Metadata-x-allocation-token": "Bearer " + os.environ["DET_SESSION_TOKEN"]}
urllib.request.urlopen(urllib.request.Request(os.environ["DET_MASTER"] + path, headers=headers)).read()
END
"""


def wait_for(what, condition, seconds=120.0, every=0.05):
    """Polls condition() until it is true and returns its value. On a timeout the failure names
    `what`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(every)
    raise AssertionError(f"timed out after {seconds:.0f} s waiting for {what}")


def outage_seconds(usual):
    """The length of an outage of the master: MUSTER_TEST_OUTAGE_S, such as 120, in place of the usual one."""
    return float(os.environ.get("MUSTER_TEST_OUTAGE_S", usual))


class Daemon:
    def __init__(self, name, arguments, log, prefix=()):
        self.name, self.log_path = name, log
        self.arguments = [*prefix, str(BIN / name), *map(str, arguments)]
        self.process = None

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)

    def kill9(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill9()
                raise AssertionError(f"{self.name} did not stop on SIGTERM within 30 s")

    def tail(self, lines=30):
        return "\n".join(pathlib.Path(self.log_path).read_text(errors="replace").splitlines()[-lines:])


class Cluster:
    def __init__(self, folder=".", slots=(4,), master_flags=(), bind="127.0.0.1", prefixes=()):
        """`prefixes` holds one command prefix for each agent, for example to start it in another
        namespace."""
        self.folder = pathlib.Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "password").write_text(PASSWORD + "\n")
        self.port = 0
        self.master_flags = master_flags
        self.master = None
        self.agents = []
        self.slots, self.prefixes = slots, prefixes or [()] * len(slots)
        self.bind = bind
        self.env = {**os.environ, "HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / "config")}

    def __enter__(self):
        try:
            self.start_master()
            for number, slots in enumerate(self.slots):
                self.add_agent(f"agent-{number}", slots, self.prefixes[number])
            self.muster("login", "determined", "--password-file", self.folder / "password")
            wait_for("all agents to connect",
                     lambda: len(self.rows("agent", "list")) == len(self.slots))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        for daemon in [*self.agents, self.master]:
            if daemon and daemon.process and daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()
        for pid in self.processes_below():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def start_master(self):
        """Starts the master, or restarts it on its previous port."""
        data = self.folder / "master"
        url_file = data / "master.url"
        url_file.unlink(missing_ok=True)
        self.master = Daemon("muster-master", ["--data-dir", data, "--bind", self.bind,
                                               "--port", self.port,
                                               "--initial-password-file", self.folder / "password",
                                               "--restart-backoff", 0,  # test_failures waits for this time
                                               *([] if self.bind.startswith("127.") else ["--insecure"]),
                                               *self.master_flags], self.folder / "master.log")
        self.master.start()
        wait_for("the master's address", lambda: url_file.exists() or self.master.process.poll() is not None)
        if self.master.process.poll() is not None:
            raise AssertionError("the master did not start:\n" + self.master.tail())
        self.url = url_file.read_text().strip()
        self.port = int(self.url.rsplit(":", 1)[1])
        self.env["MUSTER_MASTER"] = self.url

    @contextlib.contextmanager
    def master_outage(self, seconds=None):
        """Kills the master, and starts it again after the block, at the earliest after so many seconds."""
        end = time.monotonic() + (outage_seconds(5) if seconds is None else seconds)
        self.master.kill9()
        yield
        time.sleep(max(0, end - time.monotonic()))
        self.start_master()

    def add_agent(self, name, slots, prefix=(), flags=()):
        """With `slots` 0 the agent detects the slots of its machine. An agent that runs as root starts tasks as root,
        unless the flags name another account."""
        if "--task-account" not in flags:
            flags = ("--tasks-as-root", *flags)
        agent = Daemon("muster-agent", ["--master", self.url,
                                        "--token-file", self.folder / "master" / "agent.token",
                                        "--work-dir", self.folder / name, "--id", name,
                                        *(["--slots", slots] if slots else []), *flags], self.folder / f"{name}.log", prefix)
        agent.start()
        self.agents.append(agent)
        return agent

    # the muster command

    def run(self, *arguments, timeout=300):
        """Returns the finished process, whatever its exit code is."""
        return subprocess.run([str(BIN / "muster"), *map(str, arguments)], env=self.env, text=True,
                              capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)

    def muster(self, *arguments, timeout=300):
        """Returns the standard output of a command that must succeed."""
        done = self.run(*arguments, timeout=timeout)
        if done.returncode != 0:
            raise AssertionError(f"muster {' '.join(map(str, arguments))}: exit {done.returncode}\n"
                                 f"{done.stdout}{done.stderr}\nmaster:\n{self.master.tail()}")
        return done.stdout

    def rows(self, *arguments):
        return json.loads(self.muster(*arguments, "-o", "json"))

    def create(self, config, folder, *arguments):
        """Submits an experiment and returns its id."""
        id_file = self.folder / "experiment.id"
        id_file.unlink(missing_ok=True)
        self.muster("experiment", "create", config, folder, "--id-file", id_file, *arguments)
        return int(id_file.read_text())

    def wait(self, experiment, expect="COMPLETED"):
        done = self.run("experiment", "wait", experiment, timeout=560)
        state = self.rows("experiment", "describe", experiment)["state"]
        if state != expect:
            raise AssertionError(f"experiment {experiment} is {state}, not {expect}\n{done.stderr}\n"
                                 + self.muster("experiment", "logs", experiment)[-4000:])

    def trial(self, experiment):
        return self.rows("trial", "list", experiment)[0]

    def digest(self, experiment):
        """Returns the digests (weights, state) of the newest checkpoint."""
        newest = self.rows("checkpoint", "list", "--experiment", experiment, "--latest")[0]
        digest = self.rows("checkpoint", "digest", newest["uuid"])
        return digest["weights"], digest["state"]

    def wait_for_checkpoint(self, experiment):
        return wait_for("a checkpoint", lambda: self.rows("checkpoint", "list", "--experiment", experiment))

    def last_step(self, experiment):
        """Returns the last step that the experiment's first trial has reported in the group training; 0: none."""
        trials = self.rows("trial", "list", experiment)
        if not trials or self.run("trial", "metrics", trials[0]["id"], "--group", "training").returncode:
            return 0
        rows = self.rows("trial", "metrics", trials[0]["id"], "--group", "training")
        return max((row["steps"] for row in rows), default=0)

    # processes

    def files_of_tasks(self, agent, name):
        """Returns the files of this name in the working folders of the agent's tasks."""
        tasks = (self.folder / agent / "tasks").glob("*")
        return [path for task in tasks if (path := task / "work" / name).exists()]

    def processes_below(self, program=None):
        """Returns the processes whose working folder is below this cluster's folder; `program`
        selects one program."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                inside = pathlib.Path(os.readlink(entry / "cwd")).is_relative_to(self.folder)
                name = pathlib.Path(os.readlink(entry / "exe")).name
            except OSError:
                continue
            if inside and (program is None or name == program):
                found.append(int(entry.name))
        return sorted(found)

    def command_lines(self):
        """Yields (process, words) for the processes below this cluster's folder."""
        for pid in self.processes_below():
            with contextlib.suppress(OSError):  # it has ended
                yield pid, pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")

    def processes_of(self, text):
        """Returns the processes with the text in a word of their command line."""
        return [pid for pid, words in self.command_lines() if any(text in word for word in words)]

    def ranks(self):
        return [pid for pid in self.processes_below("muster-trainer")]

    def ranks_of(self, script):
        """Returns the Python processes of trials that run this script."""
        return [pid for pid, words in self.command_lines() if script in words[-2:] and words[0].endswith("python3")]


def has_torch():
    """Whether the Python of the tests' programs has PyTorch."""
    done = subprocess.run([f"{PYTHON}/python3", "-c", "import torch.distributed"], capture_output=True)
    return done.returncode == 0


def write_corpus(path, size=60000):
    """Writes deterministic text with a structure that a small model can learn."""
    words = ["muster", "rank", "slot", "agent", "gang", "trial", "step", "loss", "bits", "same"]
    state, text = 12345, []
    length = 0
    while length < size:
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        word = words[(state >> 16) % len(words)]
        text.append(word)
        length += len(word) + 1
    path.write_text(" ".join(text)[:size])
