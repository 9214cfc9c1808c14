"""An agent alone, under a small fake master that gives it tasks and keeps what it reports."""

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

from cluster import Daemon, wait_for

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
