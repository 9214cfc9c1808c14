"""A task makes the master read and remove files that the task may not access.

The attacker is an editor. The attacker's task writes to the checkpoint folder and reports any
checkpoint; the attacker submits any configuration. With symbolic links in place of checkpoints,
folders and files, swapped as fast as possible, with pipes, with invalid ids and with other
storage paths, the attacker tries to download the master's data directory and to have it deleted.
The master must neither send nor remove any of it, and must still serve valid checkpoints.
"""

import ctypes
import gzip
import io
import json
import os
import pathlib
import shutil
import tarfile
import threading
import time
import unittest
import uuid

from cluster import PASSWORD, Cluster, wait_for
from det import Det, SimulatedAgent

DOWNLOADS, SECONDS = 150, 12  # limits of the race; the first one reached ends it
AT_FDCWD, RENAME_EXCHANGE = -100, 2
CONFIG = """\
name: innocent
entrypoint: sleep 1000
searcher: {{name: single, metric: loss}}
{more}
"""


def exchange(libc, one, other):
    return libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)


class Swapper(threading.Thread):
    """Swaps names and links without a pause."""

    def __init__(self, *pairs):
        super().__init__(daemon=True)
        self.pairs, self.over, self.swaps = pairs, False, 0
        self.libc = ctypes.CDLL(None)

    def run(self):
        while not self.over:
            for pair in self.pairs:
                self.swaps += exchange(self.libc, *pair) == 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.join()


class Storage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("storage", slots=())
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        cls.data = cls.cluster.folder / "master"
        cls.folder = cls.data / "checkpoints"
        cls.secret = (cls.data / "agent.token").read_text().strip()
        nobody = Det(cls.cluster.port)
        answer = nobody.post("/auth/login", {"username": "determined", "password": PASSWORD, "isHashed": False})
        cls.user = nobody.caller(answer["token"])
        cls.live = SimulatedAgent(cls.cluster.port, cls.secret)
        cls.live.start()
        cls.addClassCleanup(cls.live.stop)
        wait_for("the agent", lambda: cls.user.get("/agents")["agents"], 30)

    def submit(self, more=""):
        url = "/api/v1/experiments"
        return self.user.request("POST", url, {"activate": True, "config": CONFIG.format(more=more)})

    def task(self, more=""):
        status, answer = self.submit(more)
        self.assertEqual(status, 200, answer)
        experiment = answer["experiment"]["id"]
        self.addCleanup(self.user.request, "POST", f"/api/v1/experiments/{experiment}/kill")
        task = self.live.task_of(experiment)
        return experiment, task, self.user.caller(task["env"]["DET_SESSION_TOKEN"], task=True)

    def report(self, task, caller, name):
        return caller.request("POST", "/api/v1/checkpoints", {
            "uuid": name, "taskId": task["taskId"], "allocationId": task["allocationId"],
            "metadata": {"steps_completed": 1}, "state": "STATE_COMPLETED", "resources": {"a": "1"},
            "reportTime": "2026-11-21T09:00:02Z", "training": {}})[0]

    def make(self, task, caller):
        """Creates and reports a checkpoint with a folder and files."""
        name = str(uuid.uuid4())
        (self.folder / name / "sub").mkdir(parents=True)
        (self.folder / name / "sub" / "agent.token").write_text("harmless")
        (self.folder / name / "file").write_text("harmless")
        self.assertEqual(self.report(task, caller, name), 200)
        return name, self.folder / name

    def download(self, name):
        """Returns (status, bytes of the archive, unpacked as far as it arrived)."""
        connection, response = self.user.open("GET", f"/checkpoints/{name}")
        try:
            data = response.read()
        except Exception as failure:  # cut off where the master noticed a swap
            data = getattr(failure, "partial", b"")
        connection.close()
        plain = data
        if response.status == 200 and data:
            try:
                plain = gzip.GzipFile(fileobj=io.BytesIO(data)).read(1 << 24)
            except EOFError:
                pass
        for word in (self.secret.encode(), b"SQLite format"):
            self.assertFalse(word in plain, f"{word} of the master's data was sent")
        return response.status, plain

    def assert_whole(self):
        self.assertEqual((self.data / "agent.token").read_text().strip(), self.secret)
        for name in ("muster.db", "webhook.key"):
            self.assertTrue((self.data / name).exists(), name)
        self.assertEqual(self.user.request("GET", "/api/v1/me")[0], 200)

    def test_links_instead_of_checkpoints(self):
        _, task, caller = self.task()
        for target in (self.data, "../..", "/etc", self.data / "agent.token"):
            name = str(uuid.uuid4())
            (self.folder / name).symlink_to(target)
            self.assertEqual(self.report(task, caller, name), 200)
            self.assertEqual(self.download(name)[0], 404, target)
        name, folder = self.make(task, caller)
        (folder / "all").symlink_to(self.data)
        (folder / "token").symlink_to("../../agent.token")
        os.mkfifo(folder / "pipe")
        status, plain = self.download(name)
        self.assertEqual(status, 200)
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            self.assertEqual(sorted(archive.getnames()), ["file", "sub", "sub/agent.token"])

    def test_swaps_during_downloads(self):
        _, task, caller = self.task()
        name, folder = self.make(task, caller)
        aside = self.cluster.folder / "aside"
        aside.mkdir()
        (aside / "root").symlink_to(self.data)
        (aside / "sub").symlink_to(self.data)
        (aside / "file").symlink_to(self.data / "agent.token")
        deadline, served = time.monotonic() + SECONDS, 0
        with Swapper((folder / "sub", aside / "sub"), (folder / "file", aside / "file"), (folder, aside / "root")) as s:
            for _ in range(DOWNLOADS):
                served += self.download(name)[0] == 200
                if time.monotonic() > deadline:
                    break
        self.assertGreater(s.swaps, 100)
        self.assertGreater(served, 0)
        self.assert_whole()

    def test_swaps_during_deletions(self):
        experiment, task, caller = self.task()
        aside = self.cluster.folder / "gone"
        aside.mkdir()
        pairs, names = [], []
        for i in range(20):
            name, folder = self.make(task, caller)
            names.append(name)
            for part in ("", "sub"):
                (aside / f"{i}{part}").symlink_to(self.data)
                pairs.append((folder / part, aside / f"{i}{part}"))
        self.user.post(f"/experiments/{experiment}/kill")
        wait_for("the end", lambda: self.user.get(f"/experiments/{experiment}")["experiment"]["state"]
                 == "STATE_CANCELED", 30)
        with Swapper(*pairs):
            self.user.request("POST", "/api/v1/checkpoints/rm", {
                "checkpointGlobs": ["sub/*", "**/agent.token"], "checkpointUuids": names[:10]})
            self.user.request("DELETE", "/api/v1/checkpoints", {"checkpointUuids": names[10:]})
            wait_for("the first checkpoint to be deleted", lambda: not os.path.lexists(self.folder / names[19]), 60)
            self.assertEqual(self.user.request("DELETE", f"/api/v1/experiments/{experiment}")[0], 200)
            time.sleep(1)
        self.assert_whole()
        self.assertTrue(self.folder.is_dir())

    def test_invalid_ids(self):
        _, task, caller = self.task()
        for name in ("..", ".", "../master", "", "a/b", str(uuid.uuid4()) + "/..", "\u0000"):
            self.assertIn(self.report(task, caller, name), (400, 404), name)
        for path in ("..", "%2e%2e", "..%2fmaster", "%2e%2e%2fmaster", "../../agent.token"):
            status, data = self.user.request("GET", f"/checkpoints/{path}")
            self.assertIn(status, (400, 404), path)
            self.assertNotIn(self.secret, str(data))

    def test_storage_paths_of_the_attacker(self):
        (self.folder / "team").symlink_to(self.data)
        for where in (self.data, "/", "/etc", f"{self.folder}/..", f"{self.folder}x", f"{self.folder}/a/../.."):
            for more in ("{type: directory, container_path: %s}" % where,
                         "{type: shared_fs, host_path: %s}" % where,
                         "{type: shared_fs, host_path: %s, storage_path: sub}" % where):
                status, answer = self.submit(f"checkpoint_storage: {more}")
                self.assertEqual(status, 403, (more, answer))
                self.assertIn("--storage-allow", json.dumps(answer))
        # Inside the allowed folder, by a link that the task creates there.
        name = str(uuid.uuid4())
        (self.data / name).mkdir()
        (self.data / name / "precious").write_text("of the master")
        _, task, caller = self.task("checkpoint_storage: {type: directory, container_path: %s/team}" % self.folder)
        self.assertEqual(self.report(task, caller, name), 200)
        self.assertEqual(self.download(name)[0], 400)
        self.user.post(f"/experiments/{task['experimentId']}/kill")
        wait_for("the end", lambda: self.user.get(f"/experiments/{task['experimentId']}")["experiment"]["state"]
                 == "STATE_CANCELED", 30)
        self.user.request("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [name]})
        self.user.request("DELETE", f"/api/v1/experiments/{task['experimentId']}")
        # Files that may not be removed are an error, until somebody reports them as gone.
        wait_for("the deletion to fail", lambda: self.user.get(f"/experiments/{task['experimentId']}")["experiment"]["state"]
                 == "STATE_DELETE_FAILED", 30)
        self.assertEqual(self.user.get(f"/checkpoints/{name}")["checkpoint"]["state"], "STATE_ERROR")
        self.assertTrue((self.data / name / "precious").exists())
        self.user.request("PATCH", "/api/v1/checkpoints", {"checkpoints": [{"uuid": name, "resources": {"resources": {}}}]})
        self.user.request("DELETE", f"/api/v1/experiments/{task['experimentId']}")
        wait_for("the experiment to be deleted", lambda: self.user.request(
            "GET", f"/api/v1/experiments/{task['experimentId']}")[0] == 404, 30)
        self.assertTrue((self.data / name / "precious").exists())
        self.assert_whole()
        (self.folder / "team").unlink()
        shutil.rmtree(self.data / name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
