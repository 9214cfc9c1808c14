"""The agent alone, with a small fake master: tasks, logs, and the loss of processes and
connections."""

import base64
import collections
import contextlib
import http.server
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
import unittest

from cluster import BIN, Daemon, wait_for

TOKEN = "agent-token-of-the-test"
SECONDS = 120.0  # longest wait in seconds; builds with sanitizers are slow


class FakeMaster:
    """Serves the agent's three calls: `desired` holds the tasks that should run, `reports` the
    states that the agent reported."""

    def __init__(self, port=0):
        self.changed = threading.Condition()
        self.desired, self.forget, self.version = {}, set(), 1
        self.reports = {}  # allocation -> last reported task
        self.history = collections.defaultdict(list)  # allocation -> states in order
        self.request = None  # the last sync request
        self.parked = 0  # sync calls that are parked
        self.dropped = 0  # parked calls that the agent closed to send a new one
        self.logs = collections.defaultdict(dict)  # allocation -> sequence -> line
        self.repeated = 0  # lines that arrived more than once
        self.contexts = {}
        self.sync_status, self.logs_status = 200, 200  # an answer to send instead of the normal one
        self.closing = False
        self.connections = []
        master = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                master.connections.append(self.connection)

            def log_message(self, *_):
                pass

            def answer(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def handle_call(self, body):
                try:
                    token = self.headers["Authorization"] or self.headers["Grpc-Metadata-x-allocation-token"]
                    if token != f"Bearer {TOKEN}":
                        self.answer(401, {"error": {"error": "unknown token"}})
                    else:
                        self.answer(*master.call(self.path, body))
                except OSError:  # the agent closed the connection
                    self.close_connection = True

            def do_GET(self):
                self.handle_call(None)

            def do_POST(self):
                self.handle_call(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass  # connections that are closed in the middle of a request

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        """Stops like a master after kill -9: open connections break, parked calls get no answer."""
        self.server.shutdown()
        self.server.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the task has ended
        with self.changed:
            self.closing = True
            self.changed.notify_all()

    def call(self, path, body):
        if path.endswith("/sync"):
            return self.sync(body)
        if path == "/api/v1/task/logs":
            shared = {name: value for name, value in body.items() if name != "logs"}
            return self.take_logs([{**shared, **line} for line in body["logs"]])
        context = self.contexts.get(path.split("/")[4])
        return (200, {"b64Tgz": context}) if context else (503, {"error": {"error": "not yet"}})

    def sync(self, body):
        with self.changed:
            if self.sync_status != 200:
                return self.sync_status, {"error": {"error": "as the test wants it"}}
            self.request = body
            self.dropped += self.parked
            self.reports = {}
            for task in body["tasks"]:
                name = task["allocationId"]
                self.reports[name] = task
                if self.history[name][-1:] != [task["state"]]:
                    self.history[name].append(task["state"])
            self.changed.notify_all()
            deadline = time.monotonic() + 4
            self.parked += 1
            while self.version == body["seen"] and not self.closing and time.monotonic() < deadline:
                self.changed.wait(deadline - time.monotonic())
            self.parked -= 1
            return 200, {"version": self.version, "tasks": list(self.desired.values()),
                         "forget": sorted(self.forget)}

    def take_logs(self, lines):
        with self.changed:
            if self.logs_status != 200:
                return self.logs_status, {"error": {"error": "as the test wants it"}}
            for line in lines:
                known = self.logs[line["allocationId"]]
                before = known.setdefault(line["sequence"], line)
                self.repeated += before is not line
                assert before == line, (before, line)
            self.changed.notify_all()
            return 200, {}

    def change(self, **wishes):
        """Sets desired tasks (None removes the task) and notifies the agent."""
        with self.changed:
            for name, task in wishes.items():
                if task is None:
                    self.desired.pop(name, None)
                else:
                    self.desired[name] = task
            self.version += 1
            self.changed.notify_all()

    def wait(self, what, condition, seconds=SECONDS):
        """Waits for condition(), which is evaluated after every message of the agent."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"timed out after {seconds:.0f} s waiting for {what}\n"
                                         f"reports: {json.dumps(self.reports)}")
                self.changed.wait(left)

    def state(self, name):
        return self.reports.get(name, {}).get("state")

    def wait_state(self, name, state):
        self.wait(f"{name} to be {state}", lambda: self.state(name) == state)
        return self.reports[name]

    def lines(self, name, source="task"):
        """Returns the lines in the order of their sequence numbers, which must have no gap."""
        numbers = sorted(self.logs[name])
        assert numbers == list(range(1, len(numbers) + 1)), numbers
        return [self.logs[name][n] for n in numbers if self.logs[name][n]["source"] == source]

    def texts(self, name, source="task"):
        return [line["log"] for line in self.lines(name, source)]


def task(name, script, ranks=1, action="RUN", grace=10, **more):
    """Returns a desired task that runs a shell script in each rank."""
    return {"allocationId": name, "taskId": f"task-{name}", "trialId": 1, "experimentId": 1,
            "epoch": 1, "action": action, "graceSeconds": grace, "contextUrl": None,
            "argv": ["sh", "-c", script], "native": False,
            "env": {"DET_ALLOCATION_ID": name, "WORLD_SIZE": str(ranks)},
            "ranks": [{"rank": r, "localRank": r, "slots": [r], "env": {}} for r in range(ranks)],
            **more}


def tgz(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, text in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(text), 0o755
            archive.addfile(info, io.BytesIO(text.encode()))
    return base64.b64encode(data.getvalue()).decode()


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_below(folder):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            cwd = pathlib.Path(os.readlink(entry / "cwd"))
            if entry.name.isdigit() and cwd.is_relative_to(folder):
                found.append(int(entry.name))
        except OSError:
            pass
    return [pid for pid in found if pid != os.getpid()]


class AgentTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=".")).resolve()
        self.work = self.folder / "work"
        (self.folder / "token").write_text(TOKEN + "\n")
        self.master = FakeMaster()
        self.agent = self.make_agent()

    def tearDown(self):
        if self.agent.process and self.agent.process.poll() is None:
            self.agent.kill9()
        self.master.close()
        for pid in processes_below(self.folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        log = self.agent.tail(200) if (self.folder / "agent.log").exists() else ""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.assertNotIn("ERROR: AddressSanitizer", log)
        self.assertNotIn("WARNING: ThreadSanitizer", log)
        self.assertNotIn("runtime error:", log)

    def make_agent(self, **flags):
        flags = {"master": self.master.url, "token-file": self.folder / "token",
                 "work-dir": self.work, "id": "agent-0", "slots": 4, **flags}
        arguments = [word for name, value in flags.items() for word in (f"--{name}", value)]
        if "task-account" not in flags:
            arguments.append("--tasks-as-root")
        return Daemon("muster-agent", arguments, self.folder / "agent.log")

    def run_agent(self, **flags):
        """Runs an agent that exits by itself; returns (exit code, output)."""
        agent = self.make_agent(**flags)
        done = subprocess.run(agent.arguments, capture_output=True, text=True, timeout=SECONDS)
        return done.returncode, done.stderr

    def start(self, **tasks):
        self.agent.start()
        self.master.change(**tasks)

    def wait_line(self, name, text):
        lines = self.master.logs[name]
        self.master.wait(f"{name} to say {text!r}",
                         lambda: any(line["log"] == text for line in lines.values()))

    def wait_seen(self):
        version = self.master.version
        self.master.wait("the agent to process the last change",
                         lambda: self.master.request["seen"] == version)

    def supervisor(self, name):
        """Returns the process id of the task's supervisor: the parent of its ranks."""
        pid = self.master.reports[name]["ranks"][0]["pid"]
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

    def processes_of(self, name):
        """Returns the live processes with the mark of a task."""
        mark = f"MUSTER_RUN_DIR={self.work}/tasks/{name}".encode()
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def inside(self, task, path):
        """Returns a path in the working folder of a task."""
        return self.work / "tasks" / task / "work" / path

    def forget(self, name):
        with self.master.changed:
            self.master.forget.add(name)
        self.master.change(**{name: None})
        self.master.wait(f"{name} to be forgotten", lambda: name not in self.master.reports)
        wait_for("its folder to be removed, after the last line",
                 lambda: not (self.work / "tasks" / name).exists(), SECONDS)


class RunningTasks(AgentTest):
    def test_two_ranks_and_their_log_lines(self):
        script = ('echo "INFO: hello from $RANK"; echo "[rank=7] WARNING: odd"; echo plain; '
                  'echo "ERROR: bad" >&2; printf "bar 1\\rbar 2\\r\\nno end"')
        self.start(a=task("a", script, ranks=2))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([(r["rank"], r["exitCode"], r["signal"]) for r in report["ranks"]],
                         [(0, 0, None), (1, 0, None)])
        self.assertEqual(report["reason"], "")
        order = ["STARTING", "RUNNING", "EXITED"]
        seen = self.master.history["a"]
        self.assertEqual(seen, [state for state in order if state in seen])
        self.forget("a")
        wait_for("the rest of the files to be removed", lambda: not list((self.work / "trash").iterdir()), SECONDS)
        lines = self.master.lines("a")
        self.assertEqual(len(lines), 14)
        for rank in (0, 1):
            mine = [(l["level"], l["log"]) for l in lines if l.get("rankId") == rank and
                    l["stdtype"] == "stdout"]
            self.assertEqual(mine, [("LOG_LEVEL_INFO", f"hello from {rank}"),
                                    ("LOG_LEVEL_INFO", "plain"), ("LOG_LEVEL_INFO", "bar 1"),
                                    ("LOG_LEVEL_INFO", "bar 2"), ("LOG_LEVEL_INFO", "no end")])
        self.assertEqual([l["level"] for l in lines if l.get("rankId") == 7],
                         ["LOG_LEVEL_WARNING"] * 2)
        errors = [l for l in lines if l["stdtype"] == "stderr"]
        self.assertEqual([(l["level"], l["log"]) for l in errors], [("LOG_LEVEL_ERROR", "bad")] * 2)
        self.assertTrue(all(l["taskId"] == "task-a" and l["agentId"] == "agent-0" and
                            l["allocationId"] == "a" and l["timestamp"] for l in lines))
        self.assertEqual(self.master.repeated, 0)

    def test_output_that_another_task_holds(self):
        """A task ends although a program of another task has a descriptor of its output and writes for ever."""
        name = f"muster-test-{os.getpid()}"
        other = ("import array, os, socket, threading\n"
                 f"s = socket.socket(socket.AF_UNIX)\ns.bind('\\0{name}')\ns.listen(1)\nprint('up', flush=True)\n"
                 "c, _ = s.accept()\nfd = array.array('i', c.recvmsg(1, 1024)[1][0][2])[0]\nos.set_blocking(fd, True)\n"
                 "def fill():\n    while True:\n        os.write(fd, b'x' * 65536)\n"
                 "for _ in range(3): threading.Thread(target=fill).start()\nc.send(b'k')\n")
        lends = ("import array, socket, time\n"
                 f"c = socket.socket(socket.AF_UNIX)\nc.connect('\\0{name}')\n"
                 "c.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])\nc.recv(1)\n"
                 "print('lent', flush=True)\ntime.sleep(1000)\n")
        python = ["/usr/bin/python3", "-c"]
        self.start(other=task("other", "", argv=[*python, other]))
        self.wait_line("other", "up")
        one = task("a", "", argv=[*python, lends])
        self.master.change(a=one)
        self.master.wait("a descriptor that is lent", lambda: self.master.logs["a"])
        self.master.change(a={**one, "action": "KILL", "graceSeconds": 0})
        self.master.wait("a to end", lambda: self.master.state("a") == "EXITED", 20)

    def test_machine_properties_reported_to_the_master(self):
        self.agent = self.make_agent(rack="r7")
        self.start()
        self.master.wait("a request", lambda: self.master.request)
        request = self.master.request
        self.assertEqual([s["id"] for s in request["slots"]], [0, 1, 2, 3])
        for slot in request["slots"]:
            self.assertEqual(slot["type"], "CPU")
            self.assertTrue(slot["name"] and slot["uuid"])
            self.assertGreater(slot["memory"], 1 << 20)
        self.assertEqual(request["address"], "127.0.0.1")
        self.assertEqual(request["pool"], "default")
        self.assertEqual(request["rack"], "r7")
        self.assertEqual(request["masterUrl"], self.master.url)
        self.assertTrue(request["hostname"] and request["session"] and request["version"])

    def test_environment_and_files(self):
        os.environ["NOT_FOR_TASKS"] = "1"
        self.master.contexts["task-a"] = tgz({"run.sh": "#!/bin/sh\necho \"in $(pwd)\"; env\n",
                                              "deep/file": "x"})
        one = task("a", "", ranks=2, argv=["./run.sh"],
                   contextUrl="/api/v1/tasks/task-a/context_directory")
        one["env"].update(COMMON="all", BOTH="all")
        for rank in one["ranks"]:
            rank["env"] = {"BOTH": f"only {rank['rank']}"}
        one["ranks"][0]["slots"], one["ranks"][1]["slots"] = [2], [3]
        self.start(a=one)
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([r["exitCode"] for r in report["ranks"]], [0, 0])
        self.assertEqual(self.inside("a", "deep/file").read_text(), "x")
        self.forget("a")
        for rank in "01":
            said = {l["log"] for l in self.master.lines("a") if l["rankId"] == int(rank)}
            for word in (f"in {self.work}/tasks/a/work", f"RANK={rank}", f"LOCAL_RANK={rank}",
                         "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "COMMON=all", f"BOTH=only {rank}",
                         "DET_AGENT_ID=agent-0", "DET_SLOT_IDS=[2,3]", "OMP_NUM_THREADS=1",
                         f"MUSTER_RUN_DIR={self.work}/tasks/a", f"HOME={os.environ['HOME']}"):
                self.assertIn(word, said)
            self.assertFalse([w for w in said if w.startswith("NOT_FOR_TASKS")])

    def hook(self, name, script, **more):
        """A task with the startup hook `script`."""
        self.master.contexts[f"task-{name}"] = tgz({"startup-hook.sh": script})
        return task(name, more.pop("run", 'echo "the program: $HOOKED $RANK"'),
                    contextUrl=f"/api/v1/tasks/task-{name}/context_directory", **more)

    def test_startup_hook_runs_once_before_the_ranks(self):
        one = self.hook("a", 'echo "the hook: $COMMON in $(pwd)"\nread word || echo nothing to read\n'
                             'export HOOKED="it is\nhooked" COMMON=changed RANK=7\n(sleep 1000 &)\n',
                        run='echo "$HOOKED|$COMMON|$RANK"', ranks=2)
        one["env"]["COMMON"] = "all"
        self.start(a=one)
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([r["exitCode"] for r in report["ranks"]], [0, 0])
        self.forget("a")
        said = self.master.texts("a")
        self.assertEqual(said[:2], [f"the hook: all in {self.work}/tasks/a/work", "nothing to read"])
        self.assertEqual(sorted(said[2:]), ["hooked|changed|0", "hooked|changed|1", "it is", "it is"])
        self.assertIn("startup-hook.sh runs before the program", self.master.texts("a", "agent"))

    def test_startup_hook_that_ends_its_shell_starts_the_program(self):
        self.start(a=self.hook("a", "export HOOKED=no\nexit 0\n"))
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.wait_line("a", "the program:  0")

    def test_failing_startup_hook_fails_the_start(self):
        self.agent.start()
        for name, script, how in (("a", "echo begins; echo no such package >&2; exit 3\n", "exit 3: no such package"),
                                  ("b", "false\necho goes on\n", "exit 1; it printed nothing"),
                                  ("c", "kill -9 $$\n", "killed by SIGKILL, and not by Muster")):
            self.master.change(**{name: self.hook(name, script)})
            report = self.master.wait_state(name, "EXITED")
            self.assertEqual(report["reason"], f"startup-hook.sh: {how}")
            self.assertEqual([(r["pid"], r["exitCode"]) for r in report["ranks"]], [(0, None)])
            self.forget(name)
            self.assertNotIn("goes on", self.master.texts(name))
            self.assertFalse([text for text in self.master.texts(name) if "the program" in text])
            self.assertIn("non-zero exit code: ", self.master.texts(name, "agent")[-1])

    def test_startup_hook_is_killed(self):
        slow = self.hook("a", "echo up\nsleep 1000\n")
        self.start(a=slow)
        self.wait_line("a", "up")
        self.assertEqual(self.master.reports["a"]["state"], "STARTING")
        self.master.change(a={**slow, "action": "KILL", "graceSeconds": 5})
        self.assertEqual(self.master.wait_state("a", "EXITED")["reason"], "told to end")

    def test_each_task_has_its_own_run_determined(self):
        script = 'cat /run/determined/info/cluster.json; echo; ls /run/determined/train; echo done'
        settings = {"DET_MASTER": "http://m:1", "DET_CLUSTER_ID": "c", "DET_SESSION_TOKEN": "s",
                    "DET_TASK_TYPE": "TRIAL"}
        tasks = {}
        for name in ("a", "b"):
            tasks[name] = task(name, script)
            tasks[name]["env"].update(settings, DET_TASK_ID=f"task-{name}")
        self.start(**tasks)
        for name in tasks:
            self.master.wait_state(name, "EXITED")
            self.forget(name)
            if any("/run/determined" in text for text in self.master.texts(name, "agent")):
                self.skipTest("no mount namespaces here: " + self.master.texts(name, "agent")[0])
            said = self.master.texts(name)
            self.assertEqual(json.loads(said[0]), {
                "master_url": "http://m:1", "cluster_id": "c", "agent_id": "agent-0",
                "slot_ids": [0], "task_id": f"task-{name}", "allocation_id": name,
                "session_token": "s", "task_type": "TRIAL", "master_cert_name": None,
                "master_cert_file": None, "latest_checkpoint": None})
            self.assertEqual([text for text in said if text][1:], ["logs", "model", "done"])
        self.assertFalse(pathlib.Path("/run/determined/info").exists())

    def mounts(self, *pairs, required=False, **more):
        for source, _ in pairs:
            pathlib.Path(source).mkdir(parents=True, exist_ok=True)
        return [{"source": str(source), "target": str(target), "readOnly": False, "propagation": "",
                 "required": required, **more} for source, target in pairs]

    def test_task_sees_folders_under_other_names(self):
        here = self.folder
        (here / "at").mkdir()
        one = task("a", 'echo data >../../../../at/file; echo more >inside/file; ls /proc/self/status; echo end',
                   mounts=self.mounts((here / "from", here / "at"), (here / "other", "inside")))
        self.start(a=one)
        self.assertEqual(self.master.wait_state("a", "EXITED")["reason"], "")
        self.forget("a")
        if any("no effect" in text for text in self.master.texts("a", "agent")):
            self.skipTest("no mount namespaces here")
        self.assertEqual((here / "from" / "file").read_text(), "data\n")
        self.assertEqual((here / "other" / "file").read_text(), "more\n")
        self.assertEqual(list((here / "at").iterdir()), [])
        self.assertEqual(self.master.request["mountFault"], "")

    def test_mounts_uncover_nothing(self):
        self.start(a=task("a", "echo secret; sleep 1000"))
        self.wait_line("a", "secret")
        (self.folder / "at").mkdir()
        script = f'cd {self.folder}/at; ls work/tasks; cat token; cat work/tasks/a/task.json; echo end'
        self.master.change(b=task("b", script, mounts=self.mounts((self.folder, self.folder / "at"))))
        self.master.wait_state("b", "EXITED")
        self.forget("b")
        warned = [text for text in self.master.texts("b", "agent") if "not hidden" in text or "no effect" in text]
        if warned:
            self.skipTest("no mount namespaces here: " + warned[0])
        self.assertEqual([text for text in self.master.texts("b") if not text.startswith("cat: ")], ["b", "end"])

    def test_mount_that_cannot_be_made_fails_the_task(self):
        self.agent.start()
        for name, pair, words in (("a", (self.folder / "from", "/proc/1"), "it would cover /proc"),
                                  ("b", (self.folder / "from", self.work / "tasks"), "it would cover a folder of the agent"),
                                  ("c", (self.folder / "from", self.folder), "it would cover a folder of the agent")):
            self.master.change(**{name: task(name, "echo runs", mounts=self.mounts(pair))})
            report = self.master.wait_state(name, "EXITED")
            self.forget(name)
            if any("no effect" in text for text in self.master.texts(name, "agent")):
                self.skipTest("no mount namespaces here")
            self.assertIn(f"cannot show {pair[0]} as {pair[1]}: {words}", report["reason"])
            self.assertEqual(self.master.texts(name), [])
        gone = [{**self.mounts((self.folder / "from", self.folder / "to"))[0], "source": str(self.folder / "none")}]
        self.master.change(d=task("d", "echo runs", mounts=gone))
        self.assertIn(f"this machine has no {self.folder}/none", self.master.wait_state("d", "EXITED")["reason"])

    def test_machine_without_mounts(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("only root can drop the capability")
        self.agent = Daemon("muster-agent", self.agent.arguments[1:], self.folder / "agent.log",
                            prefix=("setpriv", "--bounding-set=-sys_admin"))
        pair = (self.folder / "from", self.folder / "to")
        self.start(a=task("a", "echo runs", mounts=self.mounts(pair)),
                   b=task("b", "echo runs", mounts=self.mounts(pair, required=True)))
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.assertIn("this machine cannot show checkpoint_storage of type shared_fs to the program (cannot enter a mount "
                      "namespace: Operation not permitted); use type directory", self.master.wait_state("b", "EXITED")["reason"])
        self.assertIn("cannot enter a mount namespace", self.master.request["mountFault"])
        self.forget("a")
        self.forget("b")
        self.assertEqual([self.master.texts(name) for name in "ab"], [["runs"], []])
        self.assertTrue([text for text in self.master.texts("a", "agent") if "bind_mounts have no effect" in text])

    def test_task_cannot_see_other_tasks(self):
        self.start(a=task("a", "touch ready; echo secret; sleep 1000"))
        self.wait_line("a", "secret")
        script = ('ls ../..; cat ../../a/task.json; ls ../../../trash; cat "$TOKEN_FILE"; ls ../../../tasks; '
                  'pwd; echo mine >file; cat ../${PWD##*/}/file; touch ../../x; mkdir ../../y; echo end')
        look = task("b", script)
        look["env"].update(DET_SESSION_TOKEN="other", TOKEN_FILE=str(self.folder / "token"))
        self.master.change(b=look)
        self.master.wait_state("b", "EXITED")
        self.forget("b")
        warned = [text for text in self.master.texts("b", "agent") if "not hidden" in text or "/run/determined" in text]
        if warned:
            self.skipTest("no mount namespaces here: " + warned[0])
        said = [text for text in self.master.texts("b") if text and ": cannot" not in text and "cat:" not in text]
        self.assertEqual(said, ["b", "b", f"{self.work}/tasks/b/work", "mine", "end"])
        self.assertEqual(sorted(p.name for p in (self.work / "tasks").iterdir()), ["a"])
        self.assertEqual((self.folder / "token").read_text(), TOKEN + "\n")

    def test_programs_of_muster_are_found_beside_the_agent(self):
        self.start(a=task("a", "", native=True, argv=["muster-agent", "--version"]))
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.wait_line("a", self.agent_version())

    def agent_version(self):
        return subprocess.run([BIN / "muster-agent", "--version"], capture_output=True, text=True,
                              check=True).stdout.strip()

    def test_long_line_is_cut_and_large_output_arrives_once(self):
        script = "head -c 200000 /dev/zero | tr '\\0' x; echo; seq 1 20000"
        self.start(a=task("a", script))
        self.master.wait_state("a", "EXITED")
        self.forget("a")
        first, *rest = self.master.texts("a")
        self.assertTrue(first.startswith("xxxx"))
        self.assertTrue(first.endswith("x [cut: the line has 200000 bytes]"))
        self.assertLessEqual(len(first), 65536)
        self.assertEqual(rest, [str(n) for n in range(1, 20001)])

    def test_line_with_control_bytes_is_kept(self):
        self.start(a=task("a", r"printf 'one\000two\n\000\n\001bell\007\n\033[1mbold\tend\n'"))
        self.master.wait_state("a", "EXITED")
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["one\ufffdtwo", "\ufffd", "\ufffdbell\ufffd", "\x1b[1mbold\tend"])

    def test_logs_wait_while_the_master_does_not_accept_them(self):
        self.master.logs_status = 503
        self.start(a=task("a", "seq 1 3000"))
        self.master.wait_state("a", "EXITED")
        self.assertEqual(self.master.logs["a"], {})
        with self.master.changed:
            self.master.logs_status = 429
        time.sleep(0.5)
        with self.master.changed:
            self.master.logs_status = 200
        self.forget("a")
        self.assertEqual(self.master.texts("a"), [str(n) for n in range(1, 3001)])


class EndingTasks(AgentTest):
    def test_failing_rank_ends_the_other_rank(self):
        self.start(a=task("a", 'echo up; if [ $RANK = 1 ]; then exit 3; fi; sleep 1000', ranks=2))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([(r["exitCode"], r["signal"]) for r in report["ranks"]],
                         [(None, signal.SIGTERM), (3, None)])
        self.assertIn("rank 1: exit 3", report["reason"])
        self.wait_line("a", "rank 1: exit 3; ending the other ranks")

    def test_rank_that_ignores_sigterm_is_killed(self):
        script = ('if [ $RANK = 1 ]; then while [ ! -e ready ]; do sleep 0.05; done; '
                  'kill -SEGV $$; fi; trap "" TERM; touch ready; while :; do sleep 0.05; done')
        self.start(a=task("a", script, ranks=2))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([r["signal"] for r in report["ranks"]], [signal.SIGKILL, signal.SIGSEGV])

    def test_kill_order(self):
        polite = 'trap "echo bye; exit 5" TERM; echo up; while :; do sleep 0.05; done'
        rude = 'trap "" TERM; echo up; while :; do sleep 0.05; done'
        self.start(a=task("a", polite), b=task("b", rude))
        self.wait_line("a", "up")
        self.wait_line("b", "up")
        self.master.change(a=task("a", polite, action="KILL", grace=60),
                           b=task("b", rude, action="KILL", grace=1))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual(report["ranks"][0]["exitCode"], 5)
        self.wait_line("a", "bye")
        report = self.master.wait_state("b", "EXITED")
        self.assertEqual(report["ranks"][0]["signal"], signal.SIGKILL)

    def test_tasks_not_named_by_the_master_are_ended(self):
        self.start(a=task("a", "echo up; sleep 1000", grace=20))
        self.wait_line("a", "up")
        self.master.change(a=None)
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual(report["ranks"][0]["signal"], signal.SIGTERM)

    def test_end_is_reported_without_waiting_for_the_parked_call(self):
        self.start(a=task("a", "echo up; while [ ! -e stop ]; do sleep 0.01; done"))
        self.master.wait_state("a", "RUNNING")
        self.wait_line("a", "up")
        with self.master.changed:
            dropped = self.master.dropped
        self.inside("a", "stop").touch()
        self.master.wait_state("a", "EXITED")
        self.assertGreater(self.master.dropped, dropped)

    def test_task_killed_while_waiting_for_its_files(self):
        context = "/api/v1/tasks/task-a/context_directory"
        self.start(a=task("a", "echo", contextUrl=context))
        self.master.wait_state("a", "STARTING")
        wait_for("the message", lambda: "waits for its files" in self.agent.tail(), SECONDS)
        self.master.change(a=task("a", "echo", contextUrl=context, action="KILL"))
        self.assertIn("before it was started", self.master.wait_state("a", "EXITED")["reason"])
        self.forget("a")

    def test_files_that_arrive_late(self):
        self.start(a=task("a", "cat file", contextUrl="/api/v1/tasks/task-a/context_directory"))
        wait_for("the message", lambda: "waits for its files" in self.agent.tail(), SECONDS)
        self.master.contexts["task-a"] = tgz({"file": "late"})
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["late"])

    def test_orphaned_processes_are_ended(self):
        script = ('setsid sh -c "echo \\$\\$ >left; trap \\"\\" TERM; '
                  'while :; do sleep 0.05; done" & while [ ! -s left ]; do sleep 0.05; done')
        self.start(a=task("a", script))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual(report["ranks"][0]["exitCode"], 0)
        self.assertTrue(self.inside("a", "left").read_text())
        self.assertEqual(self.processes_of("a"), [])

    def test_missing_programs_and_files(self):
        self.master.contexts.update({"task-b": base64.b64encode(b"no archive").decode(),
                                     "task-c": "?"})
        context = "/api/v1/tasks/task-{}/context_directory"
        self.start(a=task("a", "", argv=["no-such-program", "x"]),
                   b=task("b", "echo", contextUrl=context.format("b")),
                   c=task("c", "echo", contextUrl=context.format("c")),
                   d=task("d", "echo", ranks=9))
        for name, reason in {"a": "no-such-program", "b": "cannot fetch the files of the experiment",
                             "c": "holds no archive", "d": "slot 4 is not on this machine"}.items():
            report = self.master.wait_state(name, "EXITED")
            self.assertIn(reason, report["reason"])
            self.assertTrue(all(r["exitCode"] is None for r in report["ranks"]))
        for name in "abcd":
            self.forget(name)
        self.assertIn("no-such-program", " ".join(self.master.texts("a", "agent")))
        self.assertIn("cannot fetch the files", " ".join(self.master.texts("b", "agent")))

    def test_supervisor_that_cannot_start_reports_the_reason(self):
        self.start()
        self.master.wait("a request", lambda: self.master.request)
        (self.work / "tasks/a/log.spool").mkdir(parents=True)
        self.master.change(a=task("a", "echo"))
        reason = self.master.wait_state("a", "EXITED")["reason"]
        self.assertIn("supervisor did not start: ", reason)
        self.assertIn("log.spool", reason)
        self.forget("a")

    def test_nothing_is_started_twice(self):
        count = self.folder / "count"
        script = f"echo started >>{count}; exit 0"
        self.start(a=task("a", script))
        self.master.wait_state("a", "EXITED")
        # The end is delivered again: once more, as a late kill order and a late run order, and to
        # another agent.
        for again in (task("a", script), task("a", script, action="KILL"), task("a", script)):
            self.master.change(a=again)
            self.wait_seen()
        self.agent.kill9()
        self.master.change()
        self.agent.start()
        self.wait_seen()
        # A task that is first named in a kill order is not started by a late run order.
        self.master.change(b=task("b", script, action="KILL"))
        self.assertIn("never started", self.master.wait_state("b", "EXITED")["reason"])
        self.master.change(b=task("b", script))
        self.wait_seen()
        self.assertEqual(self.master.state("a"), "EXITED")
        self.assertEqual(self.master.state("b"), "EXITED")
        self.assertEqual(count.read_text(), "started\n")


class Restarts(AgentTest):
    COUNT = ('i=0; while [ ! -e stop ]; do i=$((i+1)); echo "line $i"; sleep 0.01; done; '
             'echo "end $i"')
    COUNT_7 = COUNT + "; exit 7"

    def check_all_lines(self, name, ranks):
        for rank in range(ranks):
            said = [l["log"] for l in self.master.lines(name) if l.get("rankId") == rank]
            *lines, end = said
            self.assertEqual(end, f"end {len(lines)}")
            self.assertEqual(lines, [f"line {n}" for n in range(1, len(lines) + 1)])

    def stop_counting(self, name):
        self.inside(name, "stop").touch()
        return self.master.wait_state(name, "EXITED")

    def test_kill_the_agent_again_and_again(self):
        self.start(a=task("a", self.COUNT, ranks=2))
        self.wait_line("a", "line 20")
        pids = [r["pid"] for r in self.master.wait_state("a", "RUNNING")["ranks"]]
        for _ in range(4):
            self.agent.kill9()
            self.assertTrue(all(map(alive, pids)))
            with self.master.changed:
                before, self.master.reports = len(self.master.logs["a"]), {}
            self.agent.start()
            report = self.master.wait_state("a", "RUNNING")
            self.assertEqual([r["pid"] for r in report["ranks"]], pids)
            self.master.wait("new lines", lambda: len(self.master.logs["a"]) > before + 20)
        report = self.stop_counting("a")
        self.assertEqual([r["exitCode"] for r in report["ranks"]], [0, 0])
        self.forget("a")
        self.check_all_lines("a", 2)

    def test_task_ends_while_the_agent_is_down(self):
        self.start(a=task("a", self.COUNT_7))
        self.wait_line("a", "line 5")
        self.master.wait_state("a", "RUNNING")
        self.agent.kill9()
        self.inside("a", "stop").touch()
        wait_for("the supervisor to exit", lambda: not processes_below(self.work), SECONDS)
        self.agent.start()
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual(report["ranks"][0]["exitCode"], 7)
        self.forget("a")
        self.check_all_lines("a", 1)

    def test_stopping_the_agent_leaves_the_task(self):
        self.start(a=task("a", self.COUNT))
        self.wait_line("a", "line 5")
        pid = self.master.wait_state("a", "RUNNING")["ranks"][0]["pid"]
        self.agent.stop()
        self.assertEqual(self.agent.process.returncode, 0)
        self.assertTrue(alive(pid))
        self.agent.start()
        self.stop_counting("a")
        self.forget("a")
        self.check_all_lines("a", 1)

    def test_kill_the_master(self):
        self.start(a=task("a", self.COUNT))
        self.wait_line("a", "line 5")
        old = self.master
        old.close()
        time.sleep(1)
        self.master = FakeMaster(old.port)
        self.master.logs, self.master.version = old.logs, 1  # the restarted master kept its store
        self.master.change(a=old.desired["a"])
        self.master.wait_state("a", "RUNNING")
        self.stop_counting("a")
        self.forget("a")
        self.check_all_lines("a", 1)
        log = self.agent.tail(1000)
        self.assertEqual(log.count("no connection to the master"), 1)
        self.assertEqual(log.count("connected to the master"), 2)

    def test_kill_the_supervisor(self):
        script = 'setsid sleep 1000 & echo $! >child; echo up; sleep 1000'
        self.start(a=task("a", script, ranks=2))
        report = self.master.wait_state("a", "RUNNING")
        self.master.wait("both ranks", lambda: len(self.master.logs["a"]) == 2)
        pids = [r["pid"] for r in report["ranks"]]
        self.assertEqual(len(self.processes_of("a")), 6)  # with two children that have left their session
        os.kill(self.supervisor("a"), signal.SIGKILL)
        report = self.master.wait_state("a", "EXITED")
        self.assertIn("supervisor lost", report["reason"])
        self.assertFalse([pid for pid in pids if alive(pid)])
        self.assertEqual(self.processes_of("a"), [])
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["up", "up"])
        self.assertIn("supervisor lost", self.master.texts("a", "agent")[-1])

    def gone(self, pids):
        wait_for("all processes to be gone", lambda: not [pid for pid in pids if alive(pid)], SECONDS)

    def test_the_folder_of_a_task_is_deleted(self):
        self.start(a=task("a", "trap '' TERM; echo up; while :; do sleep 0.1; done", ranks=2))
        pids = [r["pid"] for r in self.master.wait_state("a", "RUNNING")["ranks"]]
        pids.append(self.supervisor("a"))
        shutil.rmtree(self.work / "tasks" / "a")
        self.assertEqual(self.master.wait_state("a", "EXITED")["reason"],
                         "supervisor lost: its folder was deleted")
        self.gone(pids)
        self.forget("a")
        self.assertIn("the folder of a task was deleted", self.agent.tail(100))
        self.master.change(b=task("b", "echo started"))
        self.assertEqual(self.master.wait_state("b", "EXITED")["ranks"][0]["exitCode"], 0)

    def test_the_work_folder_is_deleted(self):
        self.start(a=task("a", "echo up; sleep 1000", ranks=2))
        pids = [r["pid"] for r in self.master.wait_state("a", "RUNNING")["ranks"]]
        pids.append(self.supervisor("a"))
        shutil.rmtree(self.work)
        self.gone(pids)
        self.assertNotEqual(self.agent.process.wait(SECONDS), 0)
        self.assertIn(f"{self.work} was deleted", self.agent.tail(100))

    def test_the_work_folder_is_deleted_while_there_is_no_agent(self):
        self.start(a=task("a", "setsid sleep 1000 & echo up; sleep 1000"))
        pids = [self.master.wait_state("a", "RUNNING")["ranks"][0]["pid"], self.supervisor("a")]
        self.wait_line("a", "up")
        pids += processes_below(self.work)
        self.agent.kill9()
        shutil.rmtree(self.work)
        self.gone(pids)

    def test_unsupervised_processes_are_ended_at_start(self):
        def stranger(folder):
            process = subprocess.Popen(["sleep", "1000"], cwd=self.folder,
                                       env={"MUSTER_RUN_DIR": str(folder), "PATH": os.environ["PATH"]})
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            return process
        (self.work / "tasks").mkdir(parents=True)
        ghost = stranger(self.work / "tasks" / "ghost")
        others = [stranger(self.folder / "elsewhere" / "tasks" / "ghost"),
                  stranger(f"{self.work}/tasks2/ghost"), stranger(self.work)]
        self.agent.start()
        self.assertEqual(ghost.wait(SECONDS), -signal.SIGKILL)
        self.master.wait("the agent", lambda: self.master.request)
        self.assertEqual([process.poll() for process in others], [None] * 3)
        self.assertIn("folders were deleted", self.agent.tail(100))

    def test_agent_keeps_its_identity_with_its_folder(self):
        def instance():
            with self.master.changed:
                self.master.request = None
            self.agent.start()
            self.master.wait("the agent", lambda: self.master.request)
            self.agent.kill9()
            return self.master.request["instance"]
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        first = instance()
        self.assertRegex(first, r"^[0-9a-f-]{36}\." + boot + "$")
        self.assertEqual(instance(), first)
        shutil.rmtree(self.work)
        self.assertNotEqual(instance(), first)

    def test_kill_the_supervisor_launcher(self):
        self.start(a=task("a", self.COUNT))
        self.wait_line("a", "line 5")
        parent = int(pathlib.Path(f"/proc/{self.supervisor('a')}/stat").read_text().rsplit(")", 1)[1].split()[1])
        self.assertEqual(os.readlink(f"/proc/{parent}/exe"), str(BIN / "muster-supervisor"))
        os.kill(parent, signal.SIGKILL)
        wait_for("its end", lambda: not alive(parent), SECONDS)
        self.master.change(b=task("b", "echo started"))
        self.assertEqual(self.master.wait_state("b", "EXITED")["ranks"][0]["exitCode"], 0)
        self.assertEqual(self.stop_counting("a")["ranks"][0]["exitCode"], 0)
        self.forget("a")
        self.check_all_lines("a", 1)

    def test_kill_the_agent_and_the_supervisor(self):
        self.start(a=task("a", "echo up; sleep 1000"))
        self.wait_line("a", "up")
        self.master.wait_state("a", "RUNNING")
        supervisor = self.supervisor("a")
        self.agent.kill9()
        os.kill(supervisor, signal.SIGKILL)
        with self.master.changed:
            self.master.reports = {}
        self.agent.start()
        self.assertIn("supervisor lost", self.master.wait_state("a", "EXITED")["reason"])
        self.assertEqual(processes_below(self.work), [])
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["up"])

    def test_kill_the_agent_before_the_files_arrive(self):
        fetching = threading.Event()
        go_on = threading.Event()
        archive = tgz({"file": "x"})

        class Slow(dict):
            def get(self, _):
                fetching.set()
                go_on.wait(SECONDS)
                return archive

        self.master.contexts = Slow()
        self.start(a=task("a", "echo up; cat file", contextUrl="/api/v1/tasks/a/context_directory"))
        self.assertTrue(fetching.wait(SECONDS))
        self.assertEqual(self.master.wait_state("a", "STARTING")["ranks"], [])
        self.agent.kill9()
        self.assertTrue(self.work.joinpath("tasks/a/task.json").exists())
        with self.master.changed:
            self.master.reports = {}
            del self.master.desired["a"]["env"]  # as for a task that the agent already knows
        self.agent.start()
        self.master.wait_state("a", "STARTING")
        go_on.set()
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["up", "x"])

    def test_task_that_an_older_release_has_prepared(self):
        """It names no protections, so it must not start without them."""
        self.start(a=task("a", "echo up", contextUrl="/api/v1/tasks/a/context_directory"))
        self.master.wait_state("a", "STARTING")
        wait_for("the message", lambda: "waits for its files" in self.agent.tail(), SECONDS)
        self.agent.kill9()
        path = self.work / "tasks/a/task.json"
        spec, *rest = path.read_bytes().split(b"\n")
        old = json.loads(spec)
        del old["protections"]
        path.write_bytes(b"\n".join([json.dumps(old).encode(), *rest]))
        self.agent.start()
        self.assertIn("older release", self.master.wait_state("a", "EXITED")["reason"])


class Refusals(AgentTest):
    def test_wrong_token(self):
        (self.folder / "wrong").write_text("wrong\n")
        code, said = self.run_agent(**{"token-file": self.folder / "wrong"})
        self.assertEqual(code, 4)
        self.assertIn("does not accept the token", said)
        (self.folder / "wrong").write_text("\n")
        code, said = self.run_agent(**{"token-file": self.folder / "wrong"})
        self.assertEqual(code, 2)
        code, said = self.run_agent(**{"token-file": self.folder / "nowhere"})
        self.assertEqual(code, 3)

    def test_work_folder_of_another_agent(self):
        self.start()
        self.master.wait("the first agent", lambda: self.master.request)
        code, said = self.run_agent(id="agent-1")
        self.assertEqual(code, 5)
        self.assertIn("another agent works in", said)

    def test_unusable_work_folder(self):
        (self.folder / "file").write_text("")
        code, said = self.run_agent(**{"work-dir": self.folder / "file" / "work"})
        self.assertNotEqual(code, 0)
        self.assertIn("--work-dir", said)

    def test_flags(self):
        for flags, word in (({"slots": 0}, "slots"), ({"slots": 1025}, "slots"),
                            ({"master": "ftp://x"}, "--master"), ({"gpus": "some"}, "--gpus"),
                            ({"log-level": "loud"}, "--log-level"), ({"id": "a/b"}, "--id"),
                            ({"slot": 1}, "--slots")):
            code, said = self.run_agent(**flags)
            self.assertEqual(code, 2, flags)
            self.assertIn(word, said)
        help_text = subprocess.run([BIN / "muster-agent", "--help"], capture_output=True, text=True,
                                   check=True).stdout
        for word in ("--master", "--token-file", "--work-dir", "--id", "--slots", "--gpus", "--rack"):
            self.assertIn(word, help_text)

    def test_another_agent_with_the_same_id(self):
        self.master.sync_status = 409
        self.agent.start()
        wait_for("the message", lambda: "give each agent its own --id" in self.agent.tail(), SECONDS)
        with self.master.changed:
            self.master.sync_status = 200
        self.master.wait("the agent, after the other agent stopped", lambda: self.master.request)

    def test_master_starts_after_the_agent(self):
        port = self.master.port
        self.master.close()
        self.agent.start()
        wait_for("the message", lambda: "no connection" in self.agent.tail(), SECONDS)
        time.sleep(0.5)
        self.assertEqual(self.agent.tail(100).count("no connection"), 1)
        self.master = FakeMaster(port)
        self.master.wait("the agent", lambda: self.master.request)

    def test_malformed_answer_changes_nothing(self):
        self.start(a=task("a", "echo up; sleep 1000"))
        self.wait_line("a", "up")
        pid = self.master.wait_state("a", "RUNNING")["ranks"][0]["pid"]
        self.master.change(a=None, b=task("../b", "echo"))
        wait_for("the message", lambda: "tasks.0.allocationId" in self.agent.tail(), SECONDS)
        self.assertTrue(alive(pid))


if __name__ == "__main__":
    unittest.main(verbosity=2)
