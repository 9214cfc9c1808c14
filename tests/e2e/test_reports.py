"""Programs report through the socket of their supervisor. Whatever is paused, killed or stopped
meanwhile, the curve has each step once."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from cluster import BIN, Cluster, wait_for

STEPS = 300

# A program in Python without a package: a step takes 20 ms, and every 50 steps it saves itself.
PROGRAM = """\
import json, os, pathlib, socket, sys, time, urllib.request, uuid
folder = os.open(os.environ["MUSTER_RUN_DIR"], os.O_PATH)
reports = socket.socket(socket.AF_UNIX)
reports.connect(f"/proc/self/fd/{folder}/report.sock")
answers = reports.makefile()

def report(**line):
    reports.sendall(json.dumps(line).encode() + b"\\n")
    answer = json.loads(answers.readline())
    assert "sequence" in answer, answer

def should_stop():
    path = f"/api/v1/allocations/{os.environ['DET_ALLOCATION_ID']}/signals/"
    headers = {"Grpc-Metadata-x-allocation-token": "Bearer " + os.environ["DET_SESSION_TOKEN"]}
    def call(method, name):
        request = urllib.request.Request(os.environ["DET_MASTER"] + path + name, method=method, headers=headers)
        return json.load(urllib.request.urlopen(request))
    try:
        stop = call("GET", "preemption?timeout_seconds=0").get("preempt")
        if stop:
            call("POST", "ack_preemption")
        return stop
    except OSError:
        return False

storage = pathlib.Path(json.loads(os.environ["DET_EXPERIMENT_CONFIG"])["checkpoint_storage"]["container_path"])
begin = 0
if "DET_LATEST_CHECKPOINT" in os.environ:
    begin = int((storage / os.environ["DET_LATEST_CHECKPOINT"] / "step").read_text())
    print("restored step", begin)
steps = json.loads(os.environ["DET_HPARAMS"])["steps"]
for step in range(begin + 1, steps + 1):
    time.sleep(0.02)
    report(kind="metrics", group="training", steps=[step], times=[time.time_ns() // 1000],
           metrics={"loss": [1 / step]})
    report(kind="progress", progress=step / steps)
    stop = step % 10 == 0 and should_stop()
    if step % 50 == 0 or stop:
        name = str(uuid.uuid4())
        (storage / name).mkdir(parents=True)
        (storage / name / "step").write_text(str(step))
        report(kind="checkpoint", uuid=name, steps=step, metadata={"by": "hand"},
               resources={"step": len(str(step))}, time=time.time_ns() // 1000)
    if stop:
        sys.exit(0)
report(kind="metrics", group="validation", steps=[steps], times=[time.time_ns() // 1000], metrics={"loss": [0.5]})
report(kind="metadata", metadata={"end": "reached"})
"""

# Removes the storage and reports an item whose content would be in it.
STUCK = """\
import json, os, pathlib, shutil, socket
folder = os.open(os.environ["MUSTER_RUN_DIR"], os.O_PATH)
reports = socket.socket(socket.AF_UNIX)
reports.connect(f"/proc/self/fd/{folder}/report.sock")
shutil.rmtree(json.loads(os.environ["DET_EXPERIMENT_CONFIG"])["checkpoint_storage"]["container_path"])
item = {"step": 1, "name": "a", "type": "text", "format": "text", "digest": "0" * 64, "size": 1, "time": 1}
reports.sendall(json.dumps({"kind": "media", "items": [item]}).encode() + b"\\n")
assert "sequence" in json.loads(reports.makefile().readline())
print("all is reported")
"""

# Takes all connections that the supervisor has, and then reports through another one.
IDLE = """\
import os, socket, subprocess
folder = os.open(os.environ["MUSTER_RUN_DIR"], os.O_PATH)
idle = [socket.socket(socket.AF_UNIX) for _ in range(256)]
for connection in idle:
    connection.connect(f"/proc/self/fd/{folder}/report.sock")
subprocess.run(["muster", "report", "loss=0.5", "--step", "7"], check=True)
"""

# PROGRAM in a shell; a step takes 50 ms and the time of its commands.
SHELL_PROGRAM = """\
set -eu
begin=0
folder=$(muster checkpoint latest) || [ $? = 3 ]
if [ "$folder" ]; then
    begin=$(cat "$folder/step")
    echo "restored step $begin"
fi
mkdir -p state "STORAGE/.${DET_ALLOCATION_ID%.*}.0-UUID.tmp/state"
echo 1 > state/a..b
umask 027
step=$begin
while [ $step -lt 120 ]; do
    step=$((step + 1))
    sleep 0.05
    muster report loss=$step --step $step --progress 0.5
    stop=1
    if [ $((step % 10)) = 0 ]; then stop=0; muster should-stop || stop=$?; fi
    if [ $((step % 30)) = 0 ] || [ $stop = 0 ]; then
        echo $step > state/step
        muster checkpoint save state --step $step --metadata by=shell
        test "$(cat "$(muster checkpoint latest)/step")" = $step
    fi
    if [ $stop = 0 ]; then exit 0; fi
done
muster report loss=0.5 --step 120 --group validation
"""

# A name in the storage that looks like an unfinished checkpoint of another task.
UUID = "2fd2d2e8-6d4e-4c2c-9c5f-3c1b9d0a7e11"
FOREIGN = f".another.0-{UUID}.tmp"

# Each mistake of a program, and a part of the answer to it. The program goes on after each.
MISTAKES = [
    ("muster report", "nothing to report"),
    ("muster report loss=0.5", "--step is missing"),
    ("muster report loss=low --step 1", "is not NAME=VALUE with a number"),
    ("muster report loss --step 1", "is not NAME=VALUE with a number"),
    ("muster report loss=1 loss=2 --step 1", "loss is given twice"),
    ("muster report --progress 1.5", "--progress takes a number from 0 to 1"),
    ("muster checkpoint save nowhere --step 1", "nowhere: No such file or directory; the folder must stay"),
    ("mkdir empty; muster checkpoint save empty --step 1", "empty has no files"),
    ("mkdir links; ln -s /etc/hosts links/a; muster checkpoint save links --step 1", "links/a is a link"),
    ("mkdir named; echo 1 > named/metadata.json; muster checkpoint save named --step 1", "metadata.json is the name"),
    ("mkdir pipes; echo 1 > pipes/a; mkfifo pipes/p; muster checkpoint save pipes --step 1", "pipes/p is a pipe"),
    ("mkdir around; echo 1 > around/a; "
     "export DET_EXPERIMENT_CONFIG='{\"checkpoint_storage\": {\"type\": \"directory\", "
     "\"container_path\": \"'$PWD'/around/deep\"}}'; muster checkpoint save around --step 1",
     "the checkpoint storage lies inside around"),
    ("mkdir latin; echo 1 > latin/$(printf '\\351'); muster checkpoint save latin --step 1", "is not UTF-8"),
    ("mkdir long; for i in $(seq 5000); do : > long/$(printf %0220d $i); done; muster checkpoint save long --step 1",
     "files of long and the metadata have 11"),
    ("mkdir many; cd many; seq -f %05.0f 0 99999 | xargs touch; cd ..; muster checkpoint save many --step 1",
     "at most 100000 files"),
    ("mkdir good; echo 1 > good/a; muster checkpoint save good", "--step is missing"),
    (f"DET_LATEST_CHECKPOINT={UUID} muster checkpoint latest; code=$?; echo vanished: exit $code; exit $code",
     "vanished: exit 6"),
]

CONFIG = """\
name: reporter
entrypoint: %s
resources: {slots_per_trial: 1}
searcher: {name: single, metric: loss}
max_restarts: 2
hyperparameters: {steps: %d}
checkpoint_storage: {type: directory, container_path: %s}
"""


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path("files").resolve()
        cls.folder.mkdir()
        (cls.folder / "program.py").write_text(PROGRAM)
        (cls.folder / "stuck.py").write_text(STUCK)
        (cls.folder / "idle.py").write_text(IDLE)
        cls.storage = pathlib.Path("storage").resolve()
        (cls.storage / FOREIGN).mkdir(parents=True)
        (cls.folder / "program.sh").write_text(SHELL_PROGRAM.replace("STORAGE", str(cls.storage)).replace("UUID", UUID))
        lines = [f"({command}) 2>&1 && echo unexpected" for command, _ in MISTAKES]
        (cls.folder / "mistakes.sh").write_text("\n".join([*lines, "muster report fine=1 --step 3"]) + "\n")
        cls.cluster = cls.enterClassContext(Cluster("cluster", slots=(4,), master_flags=(
            "--storage-allow", cls.storage)))

    def create(self, entrypoint="python3 program.py"):
        config = self.folder.parent / "experiment.yaml"
        config.write_text(CONFIG % (entrypoint, STEPS, self.storage))
        return self.cluster.create(config, self.folder)

    def curve(self, experiment, group="training"):
        trial = self.cluster.trial(experiment)["id"]
        return [(row["steps"], row["metrics"]["loss"])
                for row in self.cluster.rows("trial", "metrics", trial, "--group", group)]

    def reached(self, experiment, step):
        def condition():
            curve = self.curve(experiment)
            return curve and curve[-1][0] >= step
        wait_for(f"step {step}", condition)

    def check(self, experiment, restored):
        self.cluster.wait(experiment)
        self.assertEqual(self.curve(experiment), [(step, 1 / step) for step in range(1, STEPS + 1)])
        self.assertEqual(self.curve(experiment, "validation"), [(STEPS, 0.5)])
        log = self.cluster.muster("experiment", "logs", experiment)
        self.assertEqual("restored step" in log, restored, log)
        self.assertNotIn("refuses", log)

    def test_undisturbed(self):
        experiment = self.create()
        self.check(experiment, restored=False)
        trial = self.cluster.trial(experiment)["id"]
        steps = sorted(row["steps"] for row in self.cluster.rows("checkpoint", "list", "--experiment", experiment))
        self.assertIn(STEPS, steps)
        self.assertIn("reached", self.cluster.muster("trial", "describe", trial, "-o", "json"))

    def test_program_is_paused(self):
        experiment = self.create()
        self.reached(experiment, 70)
        self.cluster.muster("experiment", "pause", experiment)
        wait_for("the pause", lambda: self.cluster.rows("experiment", "describe", experiment)["state"] == "PAUSED")
        self.cluster.muster("experiment", "activate", experiment)
        self.check(experiment, restored=True)

    def test_program_is_killed(self):
        experiment = self.create()
        self.reached(experiment, 70)
        for pid in self.cluster.processes_of("program.py"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.check(experiment, restored=True)

    def test_agent_is_killed(self):
        experiment = self.create()
        self.reached(experiment, 70)
        self.cluster.agents[0].kill9()
        time.sleep(1)
        self.cluster.agents[0].start()
        self.check(experiment, restored=False)

    def test_master_is_away(self):
        experiment = self.create()
        self.reached(experiment, 70)
        with self.cluster.master_outage():
            pass
        self.check(experiment, restored=False)

    def test_agent_is_killed_while_the_master_is_away(self):
        """The program ends meanwhile; its last reports arrive before its end."""
        experiment = self.create()
        self.reached(experiment, STEPS - 100)
        with self.cluster.master_outage():
            wait_for("the end of the program", lambda: not self.cluster.processes_of("program.py"))
            self.cluster.agents[0].kill9()
            self.cluster.agents[0].start()
            time.sleep(1)
        self.check(experiment, restored=False)

    def test_kill_ends_a_task_whose_report_cannot_be_delivered(self):
        """The master does not see the storage, so it cannot take the media, and nothing behind them."""
        gone = self.storage / "gone"
        config = self.folder.parent / "stuck.yaml"
        config.write_text(CONFIG % ("python3 stuck.py", 1, gone))
        gone.mkdir(exist_ok=True)
        experiment = self.cluster.create(config, self.folder)
        wait_for("the end of the program", lambda: "all is reported" in self.cluster.muster(
            "experiment", "logs", experiment))
        time.sleep(2)
        state = lambda: self.cluster.rows("experiment", "describe", experiment)["state"]
        self.assertEqual(state(), "RUNNING")
        self.cluster.muster("experiment", "kill", experiment)
        wait_for("the kill", lambda: state() == "CANCELED")

    def test_idle_connections_give_way(self):
        experiment = self.create("python3 idle.py")
        self.cluster.wait(experiment)
        self.assertEqual(self.curve(experiment), [(7, 0.5)])

    def check_shell(self, experiment, restored):
        self.cluster.wait(experiment)
        self.assertEqual(self.curve(experiment), [(step, step) for step in range(1, 121)])
        self.assertEqual(self.curve(experiment, "validation"), [(120, 0.5)])
        log = self.cluster.muster("experiment", "logs", experiment)
        self.assertEqual("restored step" in log, restored, log)
        newest = self.cluster.rows("checkpoint", "list", "--experiment", experiment, "--latest")[0]
        self.assertEqual(newest["steps"], 120)
        self.assertEqual((self.storage / newest["uuid"] / "step").read_text(), "120\n")
        self.assertEqual(json.loads((self.storage / newest["uuid"] / "metadata.json").read_text()),
                         {"by": "shell", "steps_completed": 120})
        self.assertEqual((self.storage / newest["uuid"] / "a..b").read_text(), "1\n")
        self.assertEqual((self.storage / newest["uuid"] / "metadata.json").stat().st_mode & 0o777, 0o640)
        self.assertEqual([path.name for path in self.storage.iterdir() if path.name.startswith(".")], [FOREIGN])

    def test_shell_program(self):
        self.check_shell(self.create("sh program.sh"), restored=False)

    def test_shell_program_is_paused(self):
        experiment = self.create("sh program.sh")
        self.reached(experiment, 15)
        self.cluster.muster("experiment", "pause", experiment)
        wait_for("the pause", lambda: self.cluster.rows("experiment", "describe", experiment)["state"] == "PAUSED")
        self.cluster.muster("experiment", "activate", experiment)
        self.check_shell(experiment, restored=True)

    def test_shell_program_without_a_master(self):
        experiment = self.create("sh program.sh")
        self.reached(experiment, 15)
        with self.cluster.master_outage():
            pass
        self.check_shell(experiment, restored=False)

    def test_mistakes_name_the_remedy(self):
        experiment = self.create("sh mistakes.sh")
        self.cluster.wait(experiment)
        log = self.cluster.muster("experiment", "logs", experiment)
        for command, answer in MISTAKES:
            self.assertIn(answer, log, command)
        self.assertNotIn("unexpected", log)
        trial = self.cluster.trial(experiment)["id"]
        self.assertEqual([row["metrics"] for row in self.cluster.rows("trial", "metrics", trial)], [{"fine": 1}])
        self.assertEqual(self.cluster.rows("checkpoint", "list", "--experiment", experiment), [])

    def test_a_link_that_leads_back_ends(self):
        """An installation whose bin/muster is the small program for tasks."""
        place = pathlib.Path("linked")
        (place / "libexec/muster").mkdir(parents=True)
        (place / "bin").mkdir()
        shutil.copy(BIN.parent / "libexec/muster/muster", place / "libexec/muster/muster")
        (place / "bin/muster").symlink_to("../libexec/muster/muster")
        done = subprocess.run([place / "libexec/muster/muster", "version"], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("install the real program there", done.stderr)

    def test_outside_of_a_task(self):
        for command in (["report", "loss=1", "--step", 1], ["checkpoint", "save", ".", "--step", 1],
                        ["checkpoint", "latest"], ["should-stop"]):
            done = self.cluster.run(*command)
            self.assertNotIn(done.returncode, (0, 1), command)
            self.assertIn("works in the program of a trial", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
