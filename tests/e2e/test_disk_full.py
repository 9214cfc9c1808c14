"""A full disk: which calls are refused, what continues, and that no data is lost.

The master's data and the checkpoints are on small file systems in memory, mounted in a namespace
of this process.
"""

import ctypes
import json
import os
import pathlib
import re
import sys
import time
import unittest
import urllib.error
import urllib.request

from cluster import Cluster, wait_for

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
SKIPPED = 77
LINES = 300
TASK = """\
import time
for i in range(%d):
    print("line", i, flush=True)
    time.sleep(0.03)
""" % LINES
CONFIG = """\
name: talker
entrypoint: python3 task.py
max_restarts: 0
searcher: {name: single, metric: loss}
"""
TRAINED = """\
name: trained
max_restarts: 0
resources: {slots_per_trial: 1}
searcher: {name: single, metric: validation_loss}
reproducibility: {experiment_seed: 1}
trainer:
  model: {family: gpt, layers: 1, heads: 1, width: 16, context: 16}
  data: {format: bytes, path: input.txt}
  global_batch_size: 4
  micro_batch_size: 2
  steps: 400
  report_every: 1
  validate_every: 0
  optimizer: {name: adamw, learning_rate: 1.0e-3}
"""


def private_mounts():
    """Returns whether this process may mount; afterwards no other process sees its mounts."""
    libc = ctypes.CDLL(None, use_errno=True)
    return (libc.unshare(CLONE_NEWNS) == 0
            and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0) and libc


def mount_small(libc, folder, size):
    folder.mkdir(parents=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=%d" % size):
        print("a file system in memory cannot be mounted: skipped")
        sys.exit(SKIPPED)


def fill(folder, leave):
    """Fills the file system except for `leave` bytes."""
    here = os.statvfs(folder)
    with open(folder / "ballast", "wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, here.f_bavail * here.f_frsize - leave)


class DiskFull(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        libc = private_mounts()
        if not libc:
            print("a private mount namespace is not permitted: skipped")
            sys.exit(SKIPPED)
        root = pathlib.Path("disk").resolve()
        mount_small(libc, root / "master", 96 << 20)
        mount_small(libc, root / "checkpoints", 64 << 20)
        cls.data, cls.checkpoints = root / "master", root / "checkpoints"
        cls.cluster = Cluster(root, slots=(1,), master_flags=(
            "--checkpoint-dir", cls.checkpoints, "--disk-floor", "20MiB", "--log-level", "info"))
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        for name, text in (("talk.yaml", CONFIG), ("train.yaml", TRAINED)):
            (root / name).write_text(text)
        (root / "talk").mkdir()
        (root / "talk" / "task.py").write_text(TASK)
        (root / "train").mkdir()
        (root / "train" / "input.txt").write_text("the muster roll is called " * 400)

    def notice(self):
        return json.loads(self.cluster.muster("master", "info", "-o", "json")).get("notice", "")

    def create(self, name, *more):
        return self.cluster.create(self.cluster.folder / f"{name}.yaml", self.cluster.folder / name, *more)

    def post(self, path, body):
        """Returns (status, Retry-After, answer) of a call by an agent."""
        token = (self.data / "agent.token").read_text().strip()
        request = urllib.request.Request(f"{self.cluster.url}{path}", json.dumps(body).encode(),
                                         {"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, None, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.headers["Retry-After"], json.load(refusal)

    def refused(self, name):
        done = self.cluster.run("experiment", "create", self.cluster.folder / f"{name}.yaml",
                                self.cluster.folder / name)
        return done.returncode != 0 and done.stderr

    def test_low_space_for_the_store(self):
        talker = self.create("talk")
        wait_for("its first lines", lambda: "line 3" in self.cluster.muster("experiment", "logs", talker))
        fill(self.data, 10 << 20)
        wait_for("the notice", lambda: "is nearly full" in self.notice(), 30)
        stranger = urllib.request.urlopen(f"{self.cluster.url}/api/v1/master", timeout=30).read().decode()
        self.assertIn("nearly full", stranger)
        self.assertNotIn(str(self.data), stranger)
        self.assertNotIn("MiB", stranger)
        text = self.refused("talk")
        self.assertRegex(text, re.escape(str(self.data)) + r"\) is nearly full: .* of 96.0 MiB are free")
        status, after, answer = self.post("/api/v1/task/logs", {"logs": []})
        self.assertEqual((status, after, answer["error"]["reason"]), (503, "10", "Unavailable"))
        self.cluster.muster("login", "admin", "--password-file", self.cluster.folder / "password")
        wait_for("lines that wait in the agent's spool", lambda: "do not take" in (log := (self.cluster.folder / "agent-0.log").read_text())
                 or "does not accept log lines" in log, 30)
        self.cluster.muster("experiment", "pause", talker)
        self.cluster.muster("experiment", "activate", talker)
        (self.data / "ballast").unlink()
        wait_for("room", lambda: not self.notice(), 30)
        self.cluster.wait(talker)
        said = self.cluster.muster("experiment", "logs", talker)
        self.assertIn(f"line {LINES - 1}\n", said)
        lines = {int(n) for n in re.findall(r"line (\d+)$", said, re.M)}
        self.assertEqual(lines, set(range(LINES)))
        self.assertIn("the disk has space again", (self.cluster.folder / "master.log").read_text())

    def test_reports_of_a_training_wait(self):
        """Steps that are reported while the disk is full arrive when there is space."""
        trained = self.create("train", "--paused")
        fill(self.data, 10 << 20)
        wait_for("the notice", self.notice, 30)
        self.cluster.muster("experiment", "activate", trained)
        wait_for("the trial to run", lambda: self.cluster.rows("experiment", "describe", trained)["state"] == "RUNNING", 30)
        time.sleep(3)
        self.assertEqual(self.cluster.rows("experiment", "describe", trained)["state"], "RUNNING")
        self.assertEqual(self.steps(trained), [])
        (self.data / "ballast").unlink()
        self.cluster.wait(trained)
        self.assertEqual(self.steps(trained), list(range(1, 401)))

    def steps(self, experiment):
        trial = self.cluster.trial(experiment)["id"]
        return [row["steps"] for row in self.cluster.rows("trial", "metrics", trial, "--group", "training")]

    def test_low_space_for_checkpoints(self):
        fill(self.checkpoints, 5 << 20)
        wait_for("the notice", lambda: "the checkpoint storage" in self.notice(), 30)
        waits = self.create("talk")
        reason = wait_for("the reason", lambda: self.cluster.rows("experiment", "describe", waits).get("reason"), 30)
        self.assertIn("the checkpoint storage", reason)
        self.assertEqual(self.cluster.rows("experiment", "describe", waits)["state"], "QUEUED")
        (self.checkpoints / "ballast").unlink()
        wait_for("the trial to run", lambda: self.cluster.rows("experiment", "describe", waits)["state"] != "QUEUED", 30)
        self.cluster.muster("experiment", "kill", waits)


if __name__ == "__main__":
    unittest.main(verbosity=2)
