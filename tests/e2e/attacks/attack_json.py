"""Bodies with very many tiny JSON values, which take a hundred times their length in memory.

The attacker has no account, or is an editor, and may open a few connections at once. The master
must refuse such bodies before it parses them into values, its memory must stay small, and all
others must be served. A large upload of large files must still work.
"""

import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import tempfile
import time
import unittest

from bystander import Bystander, log_in, request
from cluster import Cluster, wait_for

DEADLINE = 20.0  # seconds within which bystanders are answered on a machine that is busy with tests
MEMORY = 256 << 20  # bytes of memory that the master may use
CONFIG = "name: large\nentrypoint: 'true'\nsearcher: {name: single, metric: loss}\n"


def status_of(pid, name):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(name + r":\s+(\d+) kB", text)[1]) << 10


def tiny_values(length, of=b"{},"):
    return b'{"modelDefinition":[' + of * (length // len(of)) + of.rstrip(b",") + b'],"config":"x: 1"}'


class Json(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=".")
        self.cluster = Cluster(self.folder.name, slots=())
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(self.cluster.__exit__, None, None, None)
        self.cluster.start_master()
        self.pid = self.cluster.master.process.pid
        self.token = log_in(self.cluster.port)

    def send(self, path, body, token=None, method="POST", timeout=60):
        """Returns the status, or None if the connection was cut because the refusal did not wait
        for the whole body."""
        try:
            return request(self.cluster.port, method, "/api/v1" + path, body, token, timeout)[0]
        except (ConnectionError, http.client.HTTPException):
            return None

    def attack(self, calls):
        """Sends calls at once while others are served; returns their statuses."""
        with Bystander(self.cluster) as others, concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            statuses = list(pool.map(lambda call: self.send(*call), calls))
            others.assert_served(DEADLINE)
        self.assertLess(status_of(self.pid, "VmHWM"), MEMORY)
        return statuses

    def test_before_login(self):
        body = b'{"username":[' + b"{}," * 2_600_000 + b"{}]}"
        self.assertEqual(set(self.attack([("/auth/login", body)] * 8)) - {413, None}, set())
        self.assertLess(status_of(self.pid, "VmHWM"), MEMORY // 2)
        fits = b'{"username":"determined","password":"' + b"x" * 3900 + b'"}'
        self.assertEqual(self.send("/auth/login", fits), 401)
        self.assertEqual(self.send("/auth/login", fits + b" " * (4097 - len(fits))), 413)

    def test_two_submissions(self):
        body = tiny_values(45 << 20)
        statuses = self.attack([("/experiments", body, self.token)] * 2)
        self.assertIn(413, statuses)
        self.assertEqual(set(statuses) - {413, 503}, set(), statuses)

    def test_six_submissions_of_every_kind(self):
        kinds = [b"{},", b"[],", b'"",', b"0,", b'{"":0},', b"[[[]]],"]
        statuses = self.attack([("/experiments", tiny_values(45 << 20, kind), self.token) for kind in kinds])
        self.assertEqual(set(statuses) - {413, 503, None}, set(), statuses)

    def test_other_calls(self):
        agent = (self.cluster.folder / "master" / "agent.token").read_text().strip()
        body = b'{"tasks":[' + b"{}," * 2_600_000 + b"{}]}"
        statuses = self.attack([("/agents/a/sync", body, agent)] * 4 + [("/checkpoints", body, self.token)] * 4 +
                               [("/trials/1/metrics", body, self.token)] * 4)
        self.assertEqual(set(statuses) - {413, 503, 404}, set(), statuses)

    def test_a_configuration(self):
        """YAML is parsed into JSON values, too."""
        config = "data: [" + "{}," * 340_000 + "{}]\n"
        statuses = self.attack([("/experiments", {"config": config}, self.token)] * 4)
        self.assertEqual(set(statuses), {400})

    def test_large_files_are_still_accepted(self):
        """Uploads 45 MB of files; concurrent uploads are told to retry, and succeed then."""
        content = base64.b64encode(os.urandom(34 << 20)).decode()
        body = {"config": CONFIG, "activate": False, "modelDefinition": [
            {"path": "data.bin", "type": 48, "content": content, "mode": 420, "mtime": "0", "uid": 0, "gid": 0}]}
        data = json.dumps(body).encode()

        def submit(_):
            for _ in range(60):
                status = self.send("/experiments", data, self.token)
                if status != 503:
                    return status
                time.sleep(0.5)
            return status
        with Bystander(self.cluster) as others, concurrent.futures.ThreadPoolExecutor(3) as pool:
            self.assertEqual(list(pool.map(submit, range(3))), [200] * 3)
            others.assert_served(DEADLINE)
        self.assertLess(status_of(self.pid, "VmHWM"), MEMORY)
        wait_for("memory to return to the system", lambda: status_of(self.pid, "VmRSS") < 96 << 20, 60)
