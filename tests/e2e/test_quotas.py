"""What a task may use of its machine: programs that make too many files, take too much disk or memory,
or fill the disk are ended with a reason that says so, a fork bomb stays small, and neighbours go on.

The work folders are on small file systems in memory, mounted in a namespace of this process.
"""

import ctypes
import os
import pathlib
import sys
import tempfile
import time
import unittest

from cluster import Cluster, wait_for

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
SKIPPED = 77
MIB = 1 << 20
CONFIG = """\
name: {name}
entrypoint: python3 {name}.py
max_restarts: 0
resources: {{resource_pool: {pool}}}
searcher: {{name: single, metric: loss}}
"""
NEIGHBOUR = """\
import pathlib, time
while not pathlib.Path("end").exists():
    pathlib.Path("diary").write_text("I can still write")
    time.sleep(0.05)
print("the neighbour has seen nothing", flush=True)
"""
PROGRAMS = {
    "files": """\
import os, time
os.mkdir("many")
for i in range(3000):
    os.close(os.open(f"many/{i}", os.O_CREAT))
time.sleep(3600)
""",
    "bytes": """\
import time
with open("large", "wb") as out:
    while out.tell() < 30 << 20:
        out.write(bytes(1 << 20))
        out.flush()
time.sleep(3600)
""",
    "hog": """\
import os, time
with open("large", "wb") as out:
    while os.statvfs(".").f_bavail * os.statvfs(".").f_frsize > 8 << 20:
        out.write(bytes(1 << 20))
        out.flush()
time.sleep(3600)
""",
    "forks": """\
import os, sys, time
refused = 0
for i in range(300):
    try:
        if os.fork() == 0:
            time.sleep(3600)
    except BlockingIOError:
        refused += 1
print("refused:", refused, flush=True)
time.sleep(10)
sys.exit(7)
""",
    "eater": """\
some = []
while True:
    some.append(bytearray(b"x") * (1 << 20))
""",
    "patient": """\
import pathlib, time
pathlib.Path("begun").write_bytes(bytes(4 << 20))
pathlib.Path("begun").rename("small")
time.sleep(3600)
""",
}
# The flags of the agents, each in a pool of its own, with the size of their disks.
AGENTS = {
    "files": (64 * MIB, ("--task-files", 1500, "--disk-floor", 0)),
    "bytes": (64 * MIB, ("--task-disk", "20MiB", "--disk-floor", 0)),
    "full": (64 * MIB, ("--task-disk", 0, "--disk-floor", "16MiB")),
    "groups": (64 * MIB, ("--task-processes", 60, "--task-memory", "200MiB")),
}


def mount_disk(libc, folder, size):
    folder.mkdir(parents=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=%d" % size):
        print("a file system in memory cannot be mounted: skipped")
        sys.exit(SKIPPED)


class Quotas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
            print("a private mount namespace is not permitted: skipped")
            sys.exit(SKIPPED)
        root = pathlib.Path("quotas").resolve()
        cls.cluster = Cluster(root, slots=())
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        for name, (size, flags) in AGENTS.items():
            mount_disk(libc, root / name, size)
            cls.cluster.add_agent(name, 2, flags=("--tasks-as-root", "--pool", name, *flags))
        wait_for("the agents", lambda: len(cls.cluster.rows("agent", "list")) == len(AGENTS))

    def create(self, name, pool, program):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.folder))
        (folder / f"{name}.py").write_text(program)
        config = folder.with_suffix(".yaml")
        config.write_text(CONFIG.format(name=name, pool=pool))
        return self.cluster.create(config, folder)

    def task_folders(self, pool):
        return sorted((self.cluster.folder / pool / "tasks").iterdir())

    def offend(self, name, pool):
        """Runs the program besides a neighbour until it is ended; returns the reason in its log."""
        neighbour = self.create("neighbour", pool, NEIGHBOUR)
        wait_for("the neighbour", lambda: self.cluster.rows("experiment", "describe", neighbour)["state"] == "RUNNING")
        diary = wait_for("its file", lambda: self.cluster.files_of_tasks(pool, "diary"))[0]
        offender = self.create(name, pool, PROGRAMS[name])
        self.cluster.wait(offender, "ERROR")
        self.assertEqual(self.cluster.rows("experiment", "describe", neighbour)["state"], "RUNNING")
        wait_for("the offender's folder to go", lambda: len(self.task_folders(pool)) == 1)
        (diary.parent / "end").touch()
        self.cluster.wait(neighbour)
        self.assertIn("the neighbour has seen nothing", self.cluster.muster("experiment", "logs", neighbour))
        reason = self.cluster.rows("trial", "describe", self.cluster.trial(offender)["id"])
        log = self.cluster.muster("experiment", "logs", offender)
        return str(reason) + log, (self.cluster.folder / f"{pool}.log").read_text()

    def test_too_many_files(self):
        reason, log = self.offend("files", "files")
        self.assertIn("the task has more than 1500 files on this machine", reason)
        self.assertIn("--task-files", reason)
        self.assertIn("ending a task because of the files that it has made", log)

    def test_too_much_disk(self):
        reason, _ = self.offend("bytes", "bytes")
        self.assertIn("more than its quota of 20.0 MiB", reason)
        self.assertIn("--task-disk", reason)

    def test_a_full_disk_ends_the_task_that_has_filled_it(self):
        reason, _ = self.offend("hog", "full")
        self.assertRegex(reason, r"nearly full \([0-9.]+ MiB of 64.0 MiB are free\), and this task has used most of it")
        disk = os.statvfs(self.cluster.folder / "full")
        self.assertGreater(disk.f_bavail * disk.f_frsize, 48 * MIB)

    def need(self, protection):
        rows = self.cluster.rows("agent", "describe", "groups")["protections"]
        found = next(row for row in rows if row["name"] == protection)
        if not found["active"]:
            self.skipTest(found["reason"])

    def test_a_fork_bomb_has_few_processes(self):
        self.need("process_limit")
        reason, _ = self.offend("forks", "groups")
        self.assertIn("may not have more than 60 processes and threads", reason)
        self.assertRegex(reason, r"refused: 2[0-9][0-9]")

    def test_a_task_that_eats_memory_ends_alone(self):
        self.need("memory_limit")
        reason, log = self.offend("eater", "groups")
        self.assertIn("out of memory: the kernel killed it (SIGKILL); the task may use 200 MiB", reason)
        self.assertNotIn("supervisor lost", log)

    def test_a_disk_that_others_fill_slowly_ends_no_task(self):
        patient = self.create("patient", "full", PROGRAMS["patient"])
        wait_for("its file", lambda: self.cluster.files_of_tasks("full", "small"))
        ballast = self.cluster.folder / "full" / "ballast"
        self.addCleanup(ballast.unlink, missing_ok=True)
        with open(ballast, "wb", buffering=0) as file:
            for _ in range(52):  # the agent sees a disk of which little is missing
                file.write(bytes(MIB))
                time.sleep(0.1)
        log = self.cluster.folder / "full.log"
        wait_for("the warning", lambda: "nearly full, and no task has filled it" in log.read_text())
        time.sleep(1)
        self.assertEqual(self.cluster.rows("experiment", "describe", patient)["state"], "RUNNING")
        ballast.unlink()
        self.cluster.muster("experiment", "kill", patient)


if __name__ == "__main__":
    unittest.main(verbosity=2)
