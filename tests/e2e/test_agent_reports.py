"""How the agent sends the reports of programs: to a small fake master that refuses some of them, and to a real one whose
answers are lost."""

import json
import pathlib
import re
import socket
import threading
import unittest

from cluster import Cluster, wait_for
from agent_fixture import TOKEN, AgentTest, FakeMaster, task
from test_reports import CONFIG, PROGRAM

# Reports 1000 steps at once.
REPORTER = """\
import json, os, socket
folder = os.open(os.environ["MUSTER_RUN_DIR"], os.O_PATH)
reports = socket.socket(socket.AF_UNIX)
reports.connect(f"/proc/self/fd/{folder}/report.sock")
reports.sendall(b"".join(json.dumps({"kind": "metrics", "group": "training", "steps": [step], "times": [step],
                                     "metrics": {"loss": [step]}}).encode() + b"\\n" for step in range(1, 1001)))
answers = reports.makefile()
assert all("sequence" in json.loads(answers.readline()) for _ in range(1000))
"""


# Five reports that the master refuses, and one that it takes.
REFUSED = """\
import json, os, socket
folder = os.open(os.environ["MUSTER_RUN_DIR"], os.O_PATH)
reports = socket.socket(socket.AF_UNIX)
reports.connect(f"/proc/self/fd/{folder}/report.sock")
lines = [{"kind": "checkpoint", "uuid": f"2fd2d2e8-6d4e-4c2c-9c5f-3c1b9d0a7e1{i}", "steps": i, "resources": {}, "time": 1}
         for i in range(3)]
metrics = {"kind": "metrics", "group": "training", "steps": [500], "times": [1], "metrics": {"loss": [1]}}
lines[1:1] = [metrics, dict(metrics, steps=[501])]
lines.append({"kind": "exited", "reason": "INVALID_HP"})
reports.sendall(b"".join(json.dumps(line).encode() + b"\\n" for line in lines))
answers = reports.makefile()
assert all("sequence" in json.loads(answers.readline()) for _ in lines)
"""


class Refusing(FakeMaster):
    """Refuses checkpoints, early exits, and every call with metrics that has step 500."""

    def __init__(self):
        super().__init__()
        self.calls, self.steps, self.refusals = 0, [], []

    def call(self, path, body):
        if path.endswith(("/checkpoints", "/early_exit")):
            return 409, {"error": {"error": f"{path.rsplit('/', 1)[1]}: not now"}}
        if not path.endswith("/metrics/columns"):
            return super().call(path, body)
        self.calls += 1
        if 500 in body["steps"]:
            return 400, {"error": {"error": "step 500 is not wanted"}}
        self.steps += body["steps"]
        return 200, {}

    def take_logs(self, lines):
        self.refusals += [line["log"] for line in lines if "sequence" not in line]  # the agent's own
        return super().take_logs([line for line in lines if "sequence" in line])


class Refusals(AgentTest):
    def setUp(self):
        super().setUp()
        self.master.close()
        self.master = Refusing()
        self.agent = self.make_agent()

    def run_program(self, text):
        program = self.folder / "reporter.py"
        program.write_text(text)
        env = {"DET_ALLOCATION_ID": "a", "WORLD_SIZE": "1", "DET_TRIAL_ID": "1", "DET_TRIAL_RUN_ID": "1",
               "DET_SESSION_TOKEN": TOKEN}
        self.start(a=task("a", f"python3 {program}", env=env))
        self.assertEqual(self.master.wait_state("a", "EXITED")["reason"], "")

    def test_one_line_among_a_thousand(self):
        """The agent finds it with few calls, and all others arrive in their order."""
        self.run_program(REPORTER)
        self.assertEqual(self.master.steps, [step for step in range(1, 1001) if step != 500])
        self.assertLess(self.master.calls, 50)
        refusal, = self.master.refusals
        self.assertIn("step 500 is not wanted", refusal)

    def test_refused_checkpoints_and_exits_are_named(self):
        """However many reports were refused before; the last line of the log has their number."""
        self.run_program(REFUSED)
        self.assertEqual(self.master.steps, [501])
        self.assertEqual([text.split(" (")[0].split(" of this program")[0] for text in self.master.refusals], [
            "the master refuses a checkpoint", "the master refuses a checkpoint", "the master refuses a checkpoint",
            "the master refuses an early exit", "the master has refused 5 reports"])


class LosingProxy:
    """Between agent and master: breaks the connection in place of the first answer to each kind of report."""

    REPORT = re.compile(rb"^POST (/api/v1/\S+?/(?:checkpoints|columns|progress|metadata|early_exit)|/api/v1/checkpoints) ")

    def __init__(self, port):
        self.port_there, self.lost = port, set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                here = self.listener.accept()[0]
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self.port_there))
            pending = []  # the report of this connection whose answer is to be lost
            threading.Thread(target=self._send, args=(here, there, pending), daemon=True).start()
            threading.Thread(target=self._answer, args=(here, there, pending), daemon=True).start()

    def _send(self, here, there, pending):
        while data := self._receive(here):
            found = self.REPORT.match(data)
            if found and found[1].rpartition(b"/")[2] not in self.lost:
                pending.append(found[1].rpartition(b"/")[2])
            there.sendall(data)
        self._end(there)

    def _answer(self, here, there, pending):
        while data := self._receive(there):
            if pending and data.startswith(b"HTTP/1.1 200"):
                self.lost.add(pending[0])
                break
            here.sendall(data)
        self._end(here)
        self._end(there)

    def _receive(self, connection):
        try:
            return connection.recv(1 << 16)
        except OSError:
            return b""

    def _end(self, connection):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class LostAnswers(unittest.TestCase):
    """The master commits a report, its answer is lost, and the agent sends the report again."""

    def test_each_report_counts_once(self):
        storage, files = pathlib.Path("storage").resolve(), pathlib.Path("files").resolve()
        storage.mkdir()
        files.mkdir()
        (files / "program.py").write_text(PROGRAM)
        cluster = self.enterContext(Cluster("cluster", slots=(), master_flags=("--storage-allow", storage)))
        proxy, url = LosingProxy(cluster.port), cluster.url
        self.addCleanup(proxy.listener.close)
        cluster.url = proxy.url
        cluster.add_agent("agent-0", 1)
        cluster.url = url
        config = pathlib.Path("experiment.yaml")
        config.write_text(CONFIG % ("python3 program.py", 120, storage))
        experiment = cluster.create(config, files)
        cluster.wait(experiment)
        self.assertEqual(proxy.lost, {b"checkpoints", b"columns", b"progress", b"metadata"})
        trial = cluster.trial(experiment)["id"]
        curve = [(row["steps"], row["metrics"]["loss"])
                 for row in cluster.rows("trial", "metrics", trial, "--group", "training")]
        self.assertEqual(curve, [(step, 1 / step) for step in range(1, 121)])
        rows = cluster.rows("checkpoint", "list", "--experiment", experiment)
        kept = [row for row in rows if row["state"] == "COMPLETED"]
        self.assertEqual([row["steps"] for row in kept], [100], rows)
        self.assertEqual(len({row["uuid"] for row in rows}), len(rows))
        self.assertEqual(sorted(row["steps"] for row in rows), [50, 100])
        self.assertNotIn("refuses", cluster.muster("experiment", "logs", experiment))
        metadata = json.loads(cluster.muster("trial", "describe", trial, "-o", "json"))["metadata"]
        self.assertIn("reached", str(metadata))


if __name__ == "__main__":
    unittest.main(verbosity=2)
