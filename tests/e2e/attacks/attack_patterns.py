"""Regular expressions that take a backtracking matcher practically forever.

The attacker is an editor who searches logs with such patterns and submits experiments whose log
policies have such patterns and whose programs print long lines; an administrator of a workspace
does the same with a webhook. All others must be served meanwhile, the experiments can be killed,
the master stops quickly and starts again, and its memory stays small.
"""

import json
import pathlib
import re
import select
import signal
import socket
import sqlite3
import tempfile
import time
import unittest
import urllib.parse

from bystander import Bystander, log_in, request
from cluster import Cluster, wait_for

DEADLINE = 20.0  # seconds within which bystanders are answered on a machine that is busy with tests
MEMORY = 256 << 20  # bytes of memory that the master may use
LINE = "a" * 60000
COSTLY = ["(a+)+b", "(.*)(.*)(.*)(.*)(.*)[^a]c", "(a?){240}b", "(a|b)*a(a|b){120}c", "(x*a*)*(a|aa)*$b"]
CONFIG = """\
name: costly
entrypoint: "true"
max_restarts: 5
resources: {slots_per_trial: 1}
searcher: {name: single, metric: loss}
"""


def high_water(pid):
    """Returns the peak resident memory of the process, in bytes."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) << 10


class Patterns(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=".")
        self.cluster = Cluster(self.folder.name, slots=())
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(self.cluster.__exit__, None, None, None)
        self.cluster.start_master()
        self.token = log_in(self.cluster.port)
        self.agent_token = (self.cluster.folder / "master" / "agent.token").read_text().strip()

    def call(self, method, path, body=None, token=None, timeout=60):
        status, answer = request(self.cluster.port, method, "/api/v1" + path, body, token or self.token, timeout)
        return status, json.loads(answer) if answer.startswith(b"{") else answer

    def ok(self, *arguments, **more):
        status, answer = self.call(*arguments, **more)
        self.assertEqual(status, 200, answer)
        return answer

    def submit(self, more=""):
        """Returns (experiment, trial, task) of an experiment that waits for slots."""
        made = self.ok("POST", "/experiments", {"config": CONFIG + more, "activate": True})["experiment"]["id"]
        trial = wait_for("a trial", lambda: self.ok("GET", f"/experiments/{made}/trials")["trials"])[0]
        return made, trial["id"], trial["taskIds"][0]

    def print_lines(self, task, lines, first=0, agent="agent-0"):
        self.ok("POST", "/task/logs", {"taskId": task, "allocationId": task + ".1", "agentId": agent,
                                       "logs": [{"log": line, "sequence": first + n} for n, line in enumerate(lines)]},
                token=self.agent_token)

    def search(self, trial, pattern, more="", timeout=60):
        query = urllib.parse.urlencode({"enableRegex": "true", "searchText": pattern})
        status, answer = request(self.cluster.port, "GET", f"/api/v1/trials/{trial}/logs?{query}{more}",
                                 token=self.token, timeout=timeout)
        return status, [json.loads(line) for line in answer.splitlines()]

    def log_of(self, trial):
        _, text = request(self.cluster.port, "GET", f"/api/v1/trials/{trial}/logs", token=self.token)
        return [json.loads(line)["result"]["log"] for line in text.splitlines()]

    def test_searches(self):
        _, trial, task = self.submit()
        for post in range(5):
            self.print_lines(task, [LINE] * 20, post * 20)
        callers = [self.begin_search(trial, pattern) for pattern in COSTLY * 2]
        with Bystander(self.cluster) as others:
            time.sleep(3)
            others.assert_served(DEADLINE)
            status, found = self.search(trial, "^a+$")  # takes turns with the other expensive searches
            self.assertEqual((status, len(found)), (200, 100))
        others.assert_served(DEADLINE)
        for caller in callers:
            caller.close()
        self.assertLess(high_water(self.cluster.master.process.pid), MEMORY)

    def begin_search(self, trial, pattern):
        """Returns the connection of a search whose answer is never read."""
        query = urllib.parse.urlencode({"enableRegex": "true", "searchText": pattern})
        caller = socket.create_connection(("127.0.0.1", self.cluster.port))
        caller.sendall(f"GET /api/v1/trials/{trial}/logs?{query} HTTP/1.1\r\nHost: x\r\n"
                       f"Authorization: Bearer {self.token}\r\n\r\n".encode())
        return caller

    def test_search_ends_with_its_caller_and_with_the_master(self):
        _, trial, task = self.submit()
        for post in range(10):
            self.print_lines(task, [LINE] * 20, post * 20)
        callers = [self.begin_search(trial, COSTLY[2]) for _ in range(8)]
        time.sleep(0.5)
        for caller in callers[:4]:
            caller.close()
        begun = time.monotonic()
        self.cluster.master.process.send_signal(signal.SIGTERM)
        self.cluster.master.process.wait(DEADLINE)
        self.assertEqual(self.cluster.master.process.returncode, 0)
        self.assertLess(time.monotonic() - begun, DEADLINE)
        for caller in callers[4:]:
            caller.close()

    def test_log_policies_and_webhooks(self):
        hook = {"url": "http://127.0.0.1:9/", "workspaceId": 1, "triggers": [
            {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": COSTLY[2]}}]}
        admin = log_in(self.cluster.port, "admin")
        self.ok("POST", "/webhooks", hook, token=admin)
        rules = "".join(f"  - {{name: p{n}, pattern: '{pattern}', action: cancel_retries}}\n"
                        for n, pattern in enumerate(COSTLY * 3))
        experiment, trial, task = self.submit("log_policies:\n" + rules)
        with Bystander(self.cluster) as others:
            for post in range(10):
                self.print_lines(task, [LINE] * 50, post * 50)
            others.assert_served(DEADLINE)
            self.ok("POST", f"/experiments/{experiment}/kill")
        others.assert_served(DEADLINE)
        self.assertEqual(self.ok("GET", f"/experiments/{experiment}")["experiment"]["state"], "STATE_CANCELED")
        self.assertIn("have skipped", " ".join(self.log_of(trial)))
        self.assertLess(high_water(self.cluster.master.process.pid), MEMORY)

    def flood(self, task, posts):
        """Opens connections that post lines and have no answer yet; each costs half a second of
        matching."""
        flood = []
        for post in range(posts):
            body = json.dumps({"taskId": task, "allocationId": task + ".1", "agentId": "agent-0", "logs": [
                {"log": LINE, "sequence": 20 * post + n} for n in range(20)]}).encode()
            caller = socket.create_connection(("127.0.0.1", self.cluster.port))
            caller.settimeout(30)
            caller.sendall(b"POST /api/v1/task/logs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
                           b"Authorization: Bearer %s\r\n\r\n" % (len(body), self.agent_token.encode()) + body)
            flood.append(caller)
        return flood

    def test_a_flood_of_watched_lines(self):
        """The watched lines of another user take turns with them, and abandoned posts cost nothing.
        """
        rules = "".join(f"  - {{name: p{n}, pattern: '{pattern}', action: cancel_retries}}\n"
                        for n, pattern in enumerate(COSTLY * 3))
        _, _, task = self.submit("log_policies:\n" + rules)
        self.token = log_in(self.cluster.port, "admin")
        _, trial, other = self.submit("log_policies:\n  - {name: p, pattern: 'out of', action: cancel_retries}\n")
        flood = self.flood(task, 80)
        self.print_lines(other, ["out of memory"], agent="agent-1")
        self.assertLess(len(select.select(flood, [], [], 0)[0]), len(flood) / 2)  # these have been answered
        self.assertIn('log policy "p" matched', " ".join(self.log_of(trial)))
        for caller in flood:
            caller.close()
        begun = time.monotonic()
        self.print_lines(task, ["the next line"], 20 * 80)
        self.assertLess(time.monotonic() - begun, DEADLINE)

    def test_matches_of_a_policy_survive_a_restart(self):
        experiment, trial, task = self.submit("log_policies:\n  - {name: oom, pattern: 'out of mem.*',"
                                              " action: cancel_retries}\n")
        self.print_lines(task, ["fine", "CUDA: out of memory", "out of memory again"])
        said = [line for line in self.log_of(trial) if "log policy" in line]
        self.assertEqual(len(said), 1, said)
        self.cluster.master.kill9()
        self.cluster.start_master()
        self.print_lines(task, ["out of memory again"], 3)
        self.assertEqual([line for line in self.log_of(trial) if "log policy" in line], said)
        self.ok("POST", f"/experiments/{experiment}/kill")

    def test_invalid_pattern_is_refused_with_its_position(self):
        for pattern, said in ((r"a(?=b)", "column 2 of the pattern, at (?=: look-ahead is not supported"),
                              (r"(a)\1", r"column 4 of the pattern, at \1: back-references are not supported"),
                              ("(a", "column 1 of the pattern: this ( is not closed")):
            config = CONFIG + f"log_policies:\n  - {{name: x, pattern: '{pattern}', action: cancel_retries}}\n"
            status, answer = self.call("POST", "/experiments", {"config": config})
            self.assertEqual(status, 400)
            self.assertIn("config:7:24: log_policies.0.pattern: " + said, answer["error"]["error"])
            status, lines = self.search(1, pattern)
            self.assertEqual(status, 404)
        _, trial, _ = self.submit()
        status, lines = self.search(trial, r"(?!a)")
        self.assertEqual(status, 400)
        self.assertIn("searchText: column 1 of the pattern, at (?!: look-ahead", lines[0]["error"]["error"])
        admin = log_in(self.cluster.port, "admin")
        status, answer = self.call("POST", "/webhooks", {"url": "http://127.0.0.1:9/", "triggers": [
            {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "(?<=a)"}}]}, token=admin)
        self.assertEqual(status, 400)
        self.assertIn("triggers.0.condition.regex: column 1", answer["error"]["error"])

    def test_patterns_that_an_earlier_version_accepted(self):
        """They do not prevent a start; the policy stays and the log says that it cannot be used."""
        admin = log_in(self.cluster.port, "admin")
        self.ok("POST", "/webhooks", {"name": "old", "url": "http://127.0.0.1:9/", "triggers": [
            {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "AAAA"}}]}, token=admin)
        experiment, trial, task = self.submit(
            "log_policies:\n  - {name: old, pattern: AAAA, action: cancel_retries}\n"
            "  - {name: good, pattern: CUDA, action: cancel_retries}\n")
        self.cluster.master.stop()
        store = next(iter((self.cluster.folder / "master").glob("*.db")))
        with sqlite3.connect(store) as db:
            db.execute("UPDATE experiments SET config = replace(config, 'AAAA', 'a**[[.x.]]')")
            db.execute("UPDATE webhook_triggers SET condition = replace(condition, 'AAAA', 'a**[[.x.]]')")
        db.close()
        self.cluster.start_master()
        self.assertIn("a webhook never fires", self.cluster.master.tail(100))
        self.assertIn("a**[[.x.]]", json.dumps(self.ok("GET", "/webhooks", token=admin)))
        self.print_lines(task, ["axxx", "CUDA error"])
        said = " ".join(line for line in self.log_of(trial) if "log policy" in line)
        self.assertIn('log policy "old" cannot be used and is ignored: ', said)
        self.assertIn('log policy "good" matched', said)
        self.ok("POST", f"/experiments/{experiment}/kill")
