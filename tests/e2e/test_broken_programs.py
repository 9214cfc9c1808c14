"""Twenty broken programs: the first screen that `muster experiment create --follow` prints states the
cause of each. Also: searches summarize the reasons of their trials."""

import concurrent.futures
import os
import pathlib
import subprocess
import threading
import unittest

from cluster import BIN, Cluster

SCREEN = 24  # lines of a terminal

CONFIG = """\
name: {name}
entrypoint: {entrypoint}
launch: per_slot
searcher: {{name: single, metric: loss}}
resources: {{slots_per_trial: {slots}}}
max_restarts: {restarts}
{more}
"""

WAITS = """\
import os, socket
if os.environ["RANK"] == "1":
    raise SystemExit(0)
s = socket.create_server(("127.0.0.1", 0))
print("rank 0 waits for rank 1", flush=True)
s.accept()
"""

PEER_FAILS = """\
import os, sys, time
if os.environ["RANK"] == "1":
    time.sleep(0.5)
    table = {}
    table["gamma"]
time.sleep(600)
"""

# A launcher that prints a long traceback of its own after that of its worker.
LAUNCHER = """\
import subprocess, sys
def start(depth):
    if depth:
        start(depth - 1)
    else:
        subprocess.run([sys.executable, "worker.py"], check=True)
def a(): start(30)
a()
"""

POOL = """\
import multiprocessing
def load(index):
    raise ValueError(f"sample {index} has 2 channels")
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(load, [7])
"""

GPU = """\
class OutOfMemoryError(RuntimeError): pass
OutOfMemoryError.__module__ = "torch.cuda"
def forward(batch):
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; 79.15 GiB total capacity)")
forward(512)
"""

MEMORY = """\
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
cache = bytearray(1 << 34)
"""

# It reports its exception as the package muster does, and prints only that it ends.
REPORTS = """\
import json, os, socket, sys
s = socket.socket(socket.AF_UNIX)
os.chdir(os.environ["MUSTER_RUN_DIR"])
s.connect("report.sock")
failure = {"kind": "failure", "rank": 0, "text": "ShapeError: 3 channels, not 1", "place": "model.py:12", "traceback": ""}
s.sendall(json.dumps(failure).encode() + b"\\n")
s.recv(100)
sys.exit("cannot go on")
"""

SDK = """\
import muster
with muster.init() as run:
    for step in run.steps(0, 10):
        run.report(step, loss=1.0)
        if step == 3:
            raise ArithmeticError("the loss is not finite")
"""

# As torchrun: the launcher is the rank of this machine, and its workers have ranks of their own.
# The worker reports its exception, but its output is lost.
TRACE = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    fit(model)
  File "model.py", line 12, in forward
    raise ShapeError("3 channels, not 1")
ShapeError: 3 channels, not 1
"""
WORKERS = f"""\
import subprocess, sys
worker = {REPORTS.replace('"rank": 0', '"rank": 1').replace('"traceback": ""', f'"traceback": {TRACE!r}')!r}
done = subprocess.run([sys.executable, "-c", worker], stderr=subprocess.DEVNULL, start_new_session=True)
for i in range(30):
    print("launcher: a worker has failed, see its own output", file=sys.stderr)
sys.exit(done.returncode)
"""

# Each rank waits for a pipe with a long name.
LONG = """\
import os
name = "pipe-" + "x" * 200 + os.environ["RANK"]
os.mkfifo(name)
print("waits", flush=True)
os.read(os.open(name, os.O_RDWR), 1)
"""

# The kernel kills it once limit_memory() has put it into a memory cgroup with room for 64 MiB.
CGROUP = pathlib.Path("/sys/fs/cgroup/memory")
GROUP = CGROUP / f"muster-test-{os.getpid()}"
KERNEL_FILE = f"eats-memory-{os.getpid()}.py"
KERNEL = f"""\
import pathlib, time
while "{GROUP.name}" not in pathlib.Path("/proc/self/cgroup").read_text():
    time.sleep(0.05)
cache = b"x" * (256 << 20)
"""


def limit_memory(stop):
    """Finds the program from outside, because a task can change no control groups."""
    words = f"python3\0{KERNEL_FILE}\0".encode()
    while not stop.wait(0.1):
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if path.read_bytes() == words:
                    (GROUP / "cgroup.procs").write_text(path.parent.name)
            except OSError:
                pass  # it has ended


# Name: files, entrypoint, words that the first screen must have, keys of the configuration.
PROGRAMS = {
    "syntax-error": ({"train.py": "for step in range(3)\n    print(step)\n"}, "python3 train.py",
                     ["exit 1: SyntaxError: ", "(train.py:1)"]),
    "missing-module": ({"train.py": "import torchvisionx\n"}, "python3 train.py",
                       ["ModuleNotFoundError: No module named 'torchvisionx' (train.py:1)"]),
    "missing-file": ({"train.py": "import json\nprint(1)\nopen('data/train.csv')\n"}, "python3 train.py",
                     ["FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv' (train.py:3)"]),
    "missing-script": ({}, "python3 trian.py", ["exit 2: ", "can't open file 'trian.py'"]),
    "missing-command": ({"run.sh": "pytohn3 train.py\n"}, "sh run.sh", ["exit 127: run.sh: 1: pytohn3: not found"]),
    "missing-program": ({}, '["./trainer"]', ["rank 0 could not be started", "./trainer", "No such file"]),
    "not-executable": ({"run.sh": "echo data > prog; ./prog\n"}, "sh run.sh", ["exit 126: ", "./prog: Permission denied"]),
    "relative-paths": ({"train.py": "def build(c):\n    return c['rl']\nbuild({})\n"}, "python3 train.py",
                       ['  File "train.py", line 2, in build']),
    "reported": ({"train.py": REPORTS}, "python3 train.py", ["rank 0: exit 1: ShapeError: 3 channels, not 1 (model.py:12)"]),
    "workers": ({"train.py": WORKERS}, "python3 train.py",
                ["rank 0: exit 1: ShapeError: 3 channels, not 1 (model.py:12)",
                 '  File "model.py", line 12, in forward']),
    "sdk": ({"train.py": SDK}, "python3 train.py",
            ["rank 0: exit 1: ArithmeticError: the loss is not finite (train.py:6)"]),
    "key-error": ({"train.py": "def build(c):\n    return c['lr']\nbuild({})\n"}, "python3 train.py",
                  ["KeyError: 'lr' (train.py:2)"]),
    "wrong-arguments": ({"train.py": "import argparse\np = argparse.ArgumentParser()\n"
                                     "p.add_argument('--lr', required=True)\np.parse_args()\n"}, "python3 train.py",
                        ["exit 2: train.py: error: the following arguments are required: --lr"]),
    "out-of-memory": ({"train.py": MEMORY}, "python3 train.py", ["out of memory: MemoryError (train.py:3)"]),
    "gpu-out-of-memory": ({"train.py": GPU}, "python3 train.py",
                          ["CUDA out of memory. Tried to allocate 20.00 GiB", "at train.py:4"]),
    "disk-full": ({"train.py": "import os\nraise OSError(28, os.strerror(28), 'model.pt')\n"}, "python3 train.py",
                  ["No space left on device: 'model.pt' (train.py:2)"]),
    "segfault": ({"train.py": "import ctypes\nprint('go', flush=True)\nctypes.string_at(0)\n"}, "python3 train.py",
                 ["killed by SIGSEGV (segmentation fault)"]),
    "segfault-in-shell": ({"run.sh": "python3 -c 'import ctypes; ctypes.string_at(0)'\nexit $?\n"}, "sh run.sh",
                          ["exit 139: killed by SIGSEGV (segmentation fault)"]),
    "abort": ({"train.py": "import os\nos.abort()\n"}, "python3 train.py", ["killed by SIGABRT (aborted)"]),
    "killed": ({"train.py": "import os\nos.kill(os.getpid(), 9)\n"}, "python3 train.py",
               ["killed by SIGKILL, and not by Muster"]),
    "exit-3": ({"run.sh": "exit 3\n"}, "sh run.sh", ["exit 3; it printed nothing"]),
    "exit-text": ({"train.py": "import sys\nsys.exit('no data in /data: mount it with bind_mounts')\n"},
                  "python3 train.py", ["exit 1: no data in /data: mount it with bind_mounts"]),
    "worker-process": ({"train.py": POOL}, "python3 train.py", ["ValueError: sample 7 has 2 channels (train.py:3)"]),
    "launcher": ({"train.py": LAUNCHER, "worker.py": "import time\nraise RuntimeError('loss is nan')\n"},
                 "python3 train.py", ["RuntimeError: loss is nan (worker.py:2)"]),
    "startup-hook": ({"startup-hook.sh": "echo 'pip: no network' >&2\nexit 7\n"}, "python3 train.py",
                     ["startup-hook.sh: exit 7: pip: no network"]),
    "one-rank-fails": ({"train.py": PEER_FAILS}, "python3 train.py", ["rank 1: exit 1: KeyError: 'gamma' (train.py:5)"],
                       {"slots": 2}),
    "hang": ({"train.py": "import time\nprint('loading', flush=True)\ntime.sleep(600)\n"}, "python3 train.py",
             ["has printed and reported nothing", "rank 0 sleeps (", "it is ended (hang.kill_after)"],
             {"more": "hang: {warn_after: 2, kill_after: 5}"}),
    "one-rank-missing": ({"train.py": WAITS}, "python3 train.py",
                         ["rank 1 has ended with exit 0, and the other ranks have done nothing for",
                          "rank 0 waits for a connection (accept"],
                         {"slots": 2, "more": "hang: {warn_after: 10, kill_after: 12}"}),
    "restarts": ({"train.py": "raise ValueError('bad depth')\n"}, "python3 train.py",
                 ["rank 0: exit 1: ValueError: bad depth (train.py:1); starts again"], {"restarts": 2}),
}

SEARCH = """\
name: search
entrypoint: python3 train.py
searcher: {name: grid, metric: loss}
resources: {slots_per_trial: 1}
max_restarts: 0
hyperparameters:
  batch: {type: categorical, vals: [64, 128, 512, 1024]}
"""

SEARCHED = """\
import json, os, sys
batch = json.loads(os.environ["DET_HPARAMS"])["batch"]
if batch >= 512:
    raise MemoryError
if batch == 128 and "--all-but-one" in sys.argv:
    raise KeyError("lr")
"""


class BrokenPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(8,)).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def follow(self, name, files, config):
        """Returns all that the command prints, as a terminal shows it."""
        folder = pathlib.Path(name)
        folder.mkdir()
        for path, text in files.items():
            (folder / path).write_text(text)
        path = pathlib.Path(f"{name}.yaml")
        path.write_text(config)
        done = subprocess.run([str(BIN / "muster"), "experiment", "create", str(path), str(folder), "--follow"],
                              env=self.cluster.env, text=True, stdin=subprocess.DEVNULL, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout

    def follow_program(self, name):
        files, entrypoint, _, *more = PROGRAMS[name]
        keys = {"slots": 1, "restarts": 0, "more": "", **(more[0] if more else {})}
        return self.follow(name, files, CONFIG.format(name=name, entrypoint=entrypoint, **keys))

    def test_first_screen_states_the_cause(self):
        self.assertGreaterEqual(len(PROGRAMS), 20)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            screens = dict(zip(PROGRAMS, pool.map(self.follow_program, PROGRAMS)))
        for name, text in screens.items():
            screen = "\n".join(text.splitlines()[:SCREEN])
            for words in PROGRAMS[name][2]:
                with self.subTest(program=name):
                    self.assertIn(words, screen)

    @unittest.skipUnless(os.access(CGROUP / "memory.limit_in_bytes", os.W_OK), "needs root and memory cgroups of version 1")
    def test_the_kernel_kills_for_lack_of_memory(self):
        GROUP.mkdir()
        self.addCleanup(GROUP.rmdir)
        (GROUP / "memory.limit_in_bytes").write_text(str(64 << 20))
        stop = threading.Event()
        watch = threading.Thread(target=limit_memory, args=(stop,))
        watch.start()
        self.addCleanup(watch.join)
        self.addCleanup(stop.set)
        config = CONFIG.format(name="kernel", entrypoint=f"exec python3 {KERNEL_FILE}", slots=1, restarts=0, more="")
        hook = {"startup-hook.sh": f"exec python3 {KERNEL_FILE}\n"}
        for place, more in (("rank 0", {}), ("startup-hook.sh", hook)):
            text = self.follow(f"kernel-{len(more)}", {KERNEL_FILE: KERNEL, **more}, config)
            self.assertIn(f"{place}: out of memory: the kernel probably killed it (SIGKILL); its largest process used ",
                          text)
            self.assertNotIn("used 0.0 GiB", text)

    def test_the_report_of_a_hang_says_that_it_is_ended(self):
        """The ranks may fill the text."""
        text = self.follow("long", {"train.py": LONG}, CONFIG.format(
            name="long", entrypoint="python3 train.py", slots=8, restarts=0, more="hang: {warn_after: 2, kill_after: 5}"))
        self.assertIn("; it is ended (hang.kill_after): rank 0 waits for ", text.splitlines()[-1])

    def search(self, name, script):
        return self.follow(name, {"train.py": script}, SEARCH.replace("name: search", f"name: {name}", 1))

    def newest(self):
        return max(self.cluster.rows("experiment", "list"), key=lambda row: row["id"])["id"]

    def test_search_summarizes_the_reasons_of_its_trials(self):
        text = self.search("partly", SEARCHED)
        summary = "2 of 4 trials failed: 2 x out of memory in trials "
        self.assertIn("failed: rank 0: exit 1: out of memory: MemoryError (train.py:4)", text)
        self.assertIn(summary, text)
        self.assertIn("(batch 512 to 1024)", text)
        described = self.cluster.muster("experiment", "describe", self.newest())
        self.assertIn(summary, described)

    def test_search_that_failed_names_all_reasons(self):
        text = self.search("failed", "raise KeyError('lr')\n")
        self.assertIn("4 of 4 trials failed: 4 x KeyError: 'lr' (train.py:1) in trials ", text)
        self.assertIn("4 of 4 trials failed: rank 0: exit 1: KeyError",
                      self.cluster.rows("experiment", "list", "--limit", 1)[0]["reason"])


if __name__ == "__main__":
    unittest.main()
