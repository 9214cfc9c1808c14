"""A signed-in user starts downloads without reading them, or sends very large requests at once.

The attacker is an editor. Downloads of checkpoints and followed logs that are never read, and
large uploads, must not delay other users' downloads or other calls. Each attack is a function
that takes a cluster and the objects that prepare() has made there, so that tests/bench/attacks
can run it, too.
"""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import threading
import time
import unittest
import uuid

from attack_connections import GENEROUS, may_open
from bystander import Bystander, log_in, request
from cluster import Cluster

USER_DOWNLOADS = 8  # concurrent downloads that one user may have
STALLED_S = 20  # seconds after which the master closes a download that is not read
CHECKPOINT_MB = 24
LOG_MB = 8
CONFIG = """\
name: attacked
entrypoint: "true"
resources: {slots_per_trial: 1}
searcher: {name: single, metric: loss}
"""


def call(cluster, token, method, path, body=None):
    status, answer = request(cluster.port, method, path, body, token, timeout=60)
    if status != 200:
        raise AssertionError(f"{method} {path}: {status} {answer[:300]!r}")
    return json.loads(answer) if answer else {}


class VictimTrial:
    """An unmanaged trial with a log and a checkpoint that compresses badly."""

    def __init__(self, cluster, checkpoint_mb=CHECKPOINT_MB, log_mb=LOG_MB):
        self.token = log_in(cluster.port)
        created = call(cluster, self.token, "POST", "/api/v1/experiments",
                       {"config": CONFIG, "unmanaged": True, "activate": None, "modelDefinition": None})
        self.experiment = created["experiment"]["id"]
        self.trial = call(cluster, self.token, "POST", "/api/v1/trials", {
            "experimentId": self.experiment, "hparams": {}, "unmanaged": True})["trial"]["id"]
        trial = call(cluster, self.token, "GET", f"/api/v1/trials/{self.trial}")["trial"]
        task, line = trial["taskIds"][0], "x" * 1000 + "\n"
        for _ in range(log_mb):
            call(cluster, self.token, "POST", "/task-logs", [
                {"task_id": task, "timestamp": "2026-11-21T09:00:00Z", "log": line, "level": "INFO"}
                for _ in range(1000)])
        self.uuid = str(uuid.uuid4())
        folder = cluster.folder / "master" / "checkpoints" / self.uuid
        folder.mkdir(parents=True)
        (folder / "weights").write_bytes(os.urandom(checkpoint_mb << 20))
        call(cluster, self.token, "POST", "/api/v1/checkpoints", {
            "uuid": self.uuid, "taskId": task, "allocationId": "", "metadata": {"steps_completed": 1},
            "state": "STATE_COMPLETED", "resources": {"weights": str(checkpoint_mb << 20)},
            "reportTime": "2026-11-21T09:00:02Z", "training": {}})


class SilentClient:
    """A caller that sends a request and reads only the first line of the answer."""

    def __init__(self, port, path, token, source="127.0.0.1"):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.bind((source, 0))
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: attacked\r\nAuthorization: Bearer {token}\r\n\r\n"
                            .encode())

    def status(self):
        return int(self.socket.recv(16).split()[1])

    def close(self):
        self.socket.close()


@contextlib.contextmanager
def silent(cluster, count, path, token):
    callers = []
    try:
        for _ in range(may_open(count)):
            callers.append(SilentClient(cluster.port, path, token))
        yield callers
    finally:
        for one in callers:
            one.close()


def silent_downloads(cluster, victim, seconds=3.0, count=12):
    with silent(cluster, count, f"/checkpoints/{victim.uuid}", victim.token):
        time.sleep(seconds)


def silent_followers(cluster, victim, seconds=3.0, count=300):
    with silent(cluster, count, f"/api/v1/trials/{victim.trial}/logs?follow=true", victim.token):
        time.sleep(seconds)


def large_uploads(cluster, victim, count=6, size_mb=95, file_mb=1):
    """Sends so many submissions at once and returns their statuses. The master accepts most of them
    or refuses them as too many at once."""
    content = base64.b64encode(os.urandom(file_mb << 20)).decode()
    files = [{"path": f"part-{n}", "type": 48, "content": content, "mode": 420, "mtime": "1700000000",
              "uid": 0, "gid": 0} for n in range(size_mb // file_mb)]
    body = json.dumps({"config": CONFIG, "activate": False, "modelDefinition": files}).encode()
    statuses = []

    def submit():
        try:
            statuses.append(request(cluster.port, "POST", "/api/v1/experiments", body, victim.token,
                                    timeout=120)[0])
        except (OSError, http.client.HTTPException) as failure:
            statuses.append(type(failure).__name__)

    threads = [threading.Thread(target=submit, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(150)
    return statuses


ATTACKS = (silent_downloads, silent_followers, large_uploads)


class Downloads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("downloads", slots=())
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.cluster.__enter__()
        cls.victim = VictimTrial(cls.cluster)
        cls.path = f"/checkpoints/{cls.victim.uuid}"
        cls.other = log_in(cls.cluster.port, "admin")

    def download(self):
        begun = time.monotonic()
        status, data = request(self.cluster.port, "GET", self.path, token=self.other, timeout=60)
        self.assertEqual(status, 200, data[:200])
        self.assertGreater(len(data), CHECKPOINT_MB << 20)
        return time.monotonic() - begun

    def is_refused(self):
        with silent(self.cluster, 1, self.path, self.victim.token) as callers:
            return callers[0].status() == 429

    def test_downloads_that_are_not_read(self):
        with Bystander(self.cluster) as others, \
                silent(self.cluster, 12, self.path, self.victim.token) as callers:
            since = time.monotonic()
            statuses = [one.status() for one in callers]
            self.assertEqual(statuses.count(200), USER_DOWNLOADS, statuses)
            self.assertEqual(statuses.count(429), len(callers) - USER_DOWNLOADS, statuses)
            self.assertLess(self.download(), GENEROUS)  # another user's download
            self.assertLess(time.monotonic() - since, STALLED_S, "this machine is too slow for the test")
            others.assert_served(GENEROUS)
            # The places are released although no client has disconnected.
            while self.is_refused():
                self.assertLess(time.monotonic() - since, 3 * STALLED_S, "downloads that are never read are kept")
                time.sleep(0.5)
            self.assertGreater(time.monotonic() - since, STALLED_S - 3)

    def test_followers_that_do_not_read(self):
        with Bystander(self.cluster) as others:
            others.assert_served(GENEROUS)
            others.forget()
            silent_followers(self.cluster, self.victim)
            others.assert_served(GENEROUS)
        with silent(self.cluster, 300, f"/api/v1/trials/{self.victim.trial}/logs?follow=true", self.victim.token):
            begun = time.monotonic()
            status, data = request(self.cluster.port, "GET", f"/api/v1/trials/{self.victim.trial}/logs",
                                   token=self.other, timeout=60)
            self.assertEqual((status, data.count(b"\n")), (200, 1000 * LOG_MB))
            self.assertLess(time.monotonic() - begun, GENEROUS)

    def test_large_uploads(self):
        with Bystander(self.cluster) as others:
            others.assert_served(GENEROUS)
            others.forget()
            statuses = large_uploads(self.cluster, self.victim, size_mb=16)
            others.assert_served(GENEROUS)
        # Uploads without room are told to retry, or are cut when they continue to send.
        self.assertLessEqual(set(statuses), {200, 429, 503, "BrokenPipeError", "ConnectionResetError"})
        self.assertIn(200, statuses)

    def test_memory_of_the_largest_uploads(self):
        text = pathlib.Path(f"/proc/{self.cluster.master.process.pid}/status")
        for count, file_mb in ((6, 96), (1, 1)):
            statuses = large_uploads(self.cluster, self.victim, count, size_mb=96, file_mb=file_mb)
            self.assertIn(200, statuses)
            self.assertLess(int(re.search(r"VmHWM:\s+(\d+) kB", text.read_text())[1]) >> 10, 256)
        newest = call(self.cluster, self.victim.token, "GET", "/api/v1/experiments?sortBy=SORT_BY_ID&orderBy=ORDER_BY_DESC"
                      "&limit=1")["experiments"][0]["id"]
        tree = call(self.cluster, self.victim.token, "GET", f"/api/v1/experiments/{newest}/file_tree")["files"]
        self.assertEqual([one["contentLength"] for one in tree], [1 << 20] * 96)


if __name__ == "__main__":
    unittest.main(verbosity=2)
