"""packaging/quickstart as a new user runs it, in its own folder and on a free port."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest

from cluster import BIN, SOURCE, wait_for

PROGRAMS = ("muster", "muster-master", "muster-agent", "muster-supervisor", "muster-trainer")
TRAINING = """\
name: {name}
resources: {{slots_per_trial: 2}}
searcher: {{name: single, metric: validation_loss}}
trainer:
  model: {{family: mlp, hidden: [8]}}
  data: {{format: csv, path: spirals.csv, label: spiral, standardize: true, validation_count: 500}}
  global_batch_size: 64
  micro_batch_size: 32
  steps: 10000000
  optimizer: {{name: adamw, learning_rate: 0.001}}
  validate_every: 20000
  checkpoint_every: 20000
  report_every: 1000
"""
CACHE = """\
MUSTER_CUDA:STRING=OFF
MUSTER_INCLUDE_X:STRING=/usr/include
MUSTER_LIB_X:FILEPATH=/usr/lib/x.so
MUSTER_SANITIZE:STRING=
MUSTER_WARNINGS_ARE_ERRORS:BOOL=ON
MUSTER_WEBUI_BUILT:INTERNAL=1
"""
DEAF = """\
name: deaf
resources: {slots_per_trial: 1}
searcher: {name: single, metric: loss}
entrypoint: "trap '' TERM; while :; do sleep 0.1; done"
"""
# A fake CMake: like the real one it refuses a cache that was made in another folder; it builds
# nothing, since all programs exist.
CMAKE = """\
#!/bin/sh
echo "$*" >>"$CMAKE_CALLS"
case " $* " in
*" --build "*|*" --fresh "*) exit 0 ;;
esac
grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" build/CMakeCache.txt || { echo "another source folder" >&2; exit 1; }
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class QuickStart(unittest.TestCase):
    def test_trains_and_stops(self):
        home = pathlib.Path("home").resolve()
        done = subprocess.run([SOURCE / "packaging" / "quickstart", "--stop-after", "--port", "0",
                               "--home", home], text=True, errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=1100)  # the model writes any bytes
        print(done.stdout)
        self.assertEqual(done.returncode, 0)
        before, after = map(float, re.search(r"([\d.]+) before the first step, ([\d.]+) after the last",
                                             done.stdout).groups())
        self.assertLess(after, before / 2)
        for name in ("master", "agent"):
            pid = (home / f"{name}.pid").read_text().strip()
            self.assertFalse(pathlib.Path(f"/proc/{pid}/exe").exists(), f"the {name} was stopped")


class Clone(unittest.TestCase):
    """A clone that is built already: which of its processes stop, start, and continue in another
    place."""

    def setUp(self):
        folder = pathlib.Path(self.id()).resolve()
        folder.mkdir()
        self.clone = folder / "clone"
        for name in ("packaging", "build/bin", "tools"):
            (self.clone / name).mkdir(parents=True)
        shutil.copy(SOURCE / "packaging" / "quickstart", self.clone / "packaging")
        for path, text in (("packaging/setup", "#!/bin/sh\n"), ("tools/cmake", CMAKE)):
            (self.clone / path).write_text(text)
            (self.clone / path).chmod(0o755)
        for name in PROGRAMS:
            shutil.copy(BIN / name, self.clone / "build/bin")
        (self.clone / "build/CMakeCache.txt").write_text(
            f"CMAKE_HOME_DIRECTORY:INTERNAL={self.clone}\n{CACHE}")
        self.calls = folder / "calls"
        self.addCleanup(lambda: self.quickstart("stop", "--kill"))
        (self.clone / "data").mkdir()
        points = subprocess.run([sys.executable, SOURCE / "examples" / "spirals.py"], capture_output=True, check=True)
        (self.clone / "data/spirals.csv").write_bytes(points.stdout)

    def environment(self):
        url = self.clone / ".quickstart/master/master.url"
        return {**os.environ, "PATH": f"{self.clone}/tools:{os.environ['PATH']}", "CMAKE_CALLS": str(self.calls),
                "XDG_CONFIG_HOME": str(self.clone / "config"),
                **({"MUSTER_MASTER": url.read_text().strip()} if url.exists() else {})}

    def quickstart(self, *arguments, patience=120):
        done = subprocess.run([self.clone / "packaging/quickstart", *map(str, arguments)],
                              env={**self.environment(), "MUSTER_QUICKSTART_PATIENCE": str(patience)}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
        return done.returncode, done.stdout

    def works(self, *arguments):
        code, text = self.quickstart(*arguments)
        self.assertEqual(code, 0, text)
        return text

    def muster(self, *arguments):
        done = subprocess.run([BIN / "muster", *map(str, arguments)], env=self.environment(), text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def states(self):
        rows = json.loads(self.muster("experiment", "list", "-o", "json"))
        return {row["name"]: row["state"] for row in rows}

    def submit(self, name, *flags):
        path = self.clone / f"{name}.yaml"
        path.write_text(TRAINING.format(name=name))
        self.muster("experiment", "create", path, self.clone / "data", *flags)

    def steps(self):
        return json.loads(self.muster("trial", "list", "1", "-o", "json"))[0]["steps"]

    def processes(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "exe").readlink().is_relative_to(self.clone):
                    found.append((entry / "cmdline").read_bytes())
            except OSError:
                continue
        return found

    def port(self):
        return int((self.clone / ".quickstart/master/master.url").read_text().strip().rsplit(":", 1)[1])

    def test_stop_pauses_and_start_resumes_at_the_new_place(self):
        ports = free_port(), free_port()
        self.works("start", "--port", ports[0])
        self.assertEqual(self.port(), ports[0])
        self.submit("runs")
        wait_for("the experiment to train", lambda: self.states() == {"runs": "RUNNING"} and self.steps() > 0)
        self.submit("waits")
        self.submit("rests", "--paused")
        code, text = self.quickstart("start", "--port", ports[1])
        self.assertNotEqual(code, 0)
        self.assertIn(f"runs on port {ports[0]}; stop it first", text)
        self.assertIn("pausing experiment 1", self.works("stop"))
        wait_for("its processes to be gone", lambda: not self.processes(), 30)
        self.assertEqual(self.works("stop"), f"nothing runs in {self.clone}/.quickstart\n")

        moved = self.clone.with_name("moved")
        self.clone.rename(moved)
        self.clone = moved
        self.assertIn("configuring it anew", self.works("start", "--port", ports[1]))
        self.assertIn("--preset release -DMUSTER_CUDA:STRING=OFF "
                      "-DMUSTER_WARNINGS_ARE_ERRORS:BOOL=ON --fresh\n", self.calls.read_text())
        (self.clone / "build/CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={self.clone}\n")
        self.assertEqual(self.port(), ports[1])
        wait_for("the experiment to continue", lambda: self.states()["runs"] == "RUNNING")
        self.assertEqual(self.states(), {"runs": "RUNNING", "waits": "QUEUED", "rests": "PAUSED"})
        trial = json.loads(self.muster("trial", "list", "1", "-o", "json"))[0]
        self.assertEqual((trial["state"], trial["restarts"]), ("RUNNING", 0))

        self.assertIn("killed a task", self.works("stop", "--kill"))
        wait_for("its processes to be gone", lambda: not self.processes(), 30)
        self.works("start")
        self.assertEqual(self.port(), ports[1])  # the data is kept
        states = self.states()
        self.assertEqual((states["waits"], states["rests"]), ("QUEUED", "PAUSED"))

    def test_stop_names_experiments_that_do_not_exit(self):
        self.works("start", "--port", "0")
        (self.clone / "deaf.yaml").write_text(DEAF)
        self.muster("experiment", "create", self.clone / "deaf.yaml")
        wait_for("the experiment to run", lambda: self.states() == {"deaf": "RUNNING"})
        before = time.monotonic()
        code, text = self.quickstart("stop", patience=3)
        self.assertNotEqual(code, 0)
        self.assertGreaterEqual(time.monotonic() - before, 2)
        self.assertIn("waiting at most 3 s for experiments that leave their slots: 1\n", text)
        self.assertIn("these experiments have not left their slots: 1;", text)
        self.assertIn("muster experiment kill 1 ends", text)
        wait_for("the experiment to continue", lambda: self.states() != {"deaf": "PAUSED"})

    def test_experiments_that_cannot_be_paused_are_not_killed_without_consent(self):
        self.works("start", "--port", "0")
        self.muster("command", "run", "--detach", "sleep", "600")
        wait_for("the experiment to run", lambda: json.loads(self.muster("command", "list", "-o", "json"))[0]["state"] == "RUNNING")
        code, text = self.quickstart("stop")
        self.assertNotEqual(code, 0)
        self.assertIn("cannot be paused", text)
        self.assertIn("stop --kill", text)
        self.assertEqual(json.loads(self.muster("command", "list", "-o", "json"))[0]["state"], "RUNNING")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.works("stop", "--kill")
            code, text = self.quickstart("start", "--port", taken.getsockname()[1])
        self.assertNotEqual(code, 0)
        self.assertIn("is taken by another program", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
