"""Searches with many trials and a real master and agent: concurrent and total numbers of trials,
early stopping, refused points, failures, kills, pauses, cancels, and a restart of the master in
the middle.
"""

import base64
import json
import pathlib
import re
import subprocess
import time
import unittest

from cluster import BIN, PASSWORD, SOURCE, Cluster, wait_for
from test_api import Api

# Trains for `steps` of a twentieth of a second; the result is worse for larger x. Records its
# events.
PROGRAM = b"""\
import json, os, pathlib, signal, sys, time, urllib.request, uuid

config, hp = json.loads(os.environ["DET_EXPERIMENT_CONFIG"]), json.loads(os.environ["DET_HPARAMS"])
trial, run = int(os.environ["DET_TRIAL_ID"]), int(os.environ["DET_TRIAL_RUN_ID"])
task, allocation = os.environ["DET_TASK_ID"], os.environ["DET_ALLOCATION_ID"]

def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["DET_MASTER"] + "/api/v1" + path, data, method=method)
    request.add_header("Grpc-Metadata-x-allocation-token", "Bearer " + os.environ["DET_SESSION_TOKEN"])
    for _ in range(200):  # the master may be away
        try:
            return json.loads(urllib.request.urlopen(request, timeout=10).read() or b"{}")
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(0.1)
    sys.exit("the master is away")

def note(what):
    line = json.dumps({"what": what, "trial": trial, "run": run, "at": time.time()}) + "\\n"
    journal = os.open(hp["journal"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, line.encode())
    os.close(journal)

def save(steps):
    name = str(uuid.uuid4())
    folder = pathlib.Path(config["checkpoint_storage"]["container_path"]) / name
    folder.mkdir(parents=True)
    (folder / "state").write_text(str(steps))
    call("POST", "/checkpoints", {"uuid": name, "taskId": task, "allocationId": allocation, "state": "STATE_COMPLETED",
                                  "metadata": {"steps_completed": steps}, "resources": {"state": "1"}})

def stop(*_):  # ended before it has asked whether to leave, or because it does not listen
    note("stops")
    os._exit(1)

signal.signal(signal.SIGTERM, stop)
note("begins")
if hp["x"] > hp.get("refused", 2):
    call("POST", f"/trials/{trial}/early_exit", {"reason": "EXITED_REASON_INVALID_HP"})
    note("refuses")
    sys.exit(1)
if hp["x"] > hp.get("fails", 2):
    note("fails")
    sys.exit(1)
first, steps = int(os.environ["DET_STEPS_COMPLETED"]), int(hp["steps"])
if first:
    state = pathlib.Path(config["checkpoint_storage"]["container_path"]) / os.environ["DET_LATEST_CHECKPOINT"] / "state"
    assert state.read_text() == str(first), "the checkpoint is that of this step"
for step in range(first + 1, steps + 1):
    time.sleep(0.05)
    loss = "NaN" if hp["x"] > hp.get("diverges", 2) else hp["x"] + 1 / (1 + step)
    call("POST", f"/trials/{trial}/metrics", {"group": "validation", "metrics": {
        "trial_id": trial, "trial_run_id": run, "steps_completed": step,
        "metrics": {"avg_metrics": {"loss": loss, "epochs": step / 2}}}})
    call("POST", f"/trials/{trial}/progress", {"progress": step / steps, "is_raw": True})
    if step % hp.get("saves", steps + 1) == 0:
        save(step)
    leave = call("GET", f"/allocations/{allocation}/signals/preemption?timeout_seconds=0").get("preempt")
    if leave and not hp.get("deaf"):
        save(step)
        call("POST", f"/allocations/{allocation}/signals/ack_preemption", {})
        note("leaves")
        sys.exit(0)
note("ends")
"""

CONFIG = """\
name: search
entrypoint: python3 train.py
resources: {resources}
searcher: {{metric: loss, {searcher}}}
hyperparameters: {{journal: {journal}, steps: {steps}, x: {{type: double, minval: 0, maxval: 1, count: 6}}, {more}}}
max_restarts: {restarts}
preemption_timeout: {timeout}
reproducibility: {{experiment_seed: 3}}
"""

FILES = [{"path": "train.py", "type": 48, "content": base64.b64encode(PROGRAM).decode(), "mode": 420,
          "mtime": "1700000000", "uid": 0, "gid": 0}]
ENDED = ("STATE_COMPLETED", "STATE_ERROR", "STATE_CANCELED")
ASHA = "name: async_halving, num_rungs: 2, divisor: 4, max_time: 8"
ADAPTIVE = "name: adaptive_asha, max_time: 16, max_trials: {}, max_concurrent_trials: {}"


def most_at_a_time(journal):
    """Returns the largest number of trials that ran at once."""
    changes = sorted((line["at"], 1 if line["what"] == "begins" else -1) for line in journal)
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most


class SearchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(4,))
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        token = Api(cls.cluster.port).post("/auth/login", {"username": "determined", "password": PASSWORD})["token"]
        cls.user = Api(cls.cluster.port, token)

    def start(self, searcher, steps=4, more="", resources="{slots_per_trial: 1}", restarts=0, timeout=60):
        self.journal_path = pathlib.Path(f"{self.id()}-{time.monotonic_ns()}.journal").resolve()
        config = CONFIG.format(searcher=searcher, steps=steps, more=more, resources=resources, restarts=restarts,
                               timeout=timeout, journal=self.journal_path)
        return self.user.post("/experiments", {"config": config, "modelDefinition": FILES, "activate": True,
                                               "projectId": 1})["experiment"]["id"]

    def experiment(self, number):
        return self.user.get(f"/experiments/{number}")["experiment"]

    def trials(self, number):
        return self.user.get(f"/experiments/{number}/trials?limit=500")["trials"]

    def ended(self, number, state="STATE_COMPLETED", seconds=120):
        """Returns the experiment and its trials once it has ended; then nothing of it runs any
        more."""
        def look():
            seen = self.experiment(number)
            return seen if seen["state"] in ENDED else None
        seen = wait_for(f"search {number} to end", look, seconds)
        self.assertEqual(seen["state"], state, self.cluster.run("experiment", "logs", number).stdout)
        trials = self.trials(number)
        for trial in trials:
            self.assertIn(trial["state"], ENDED)
        self.assertEqual(seen["numTrials"], len(trials))
        if state == "STATE_COMPLETED":
            self.assertEqual(seen["progress"], 1)
        return seen, trials

    def journal(self):
        lines = [json.loads(line) for line in self.journal_path.read_text().splitlines()]
        starts = [(line["trial"], line["run"]) for line in lines if line["what"] == "begins"]
        self.assertEqual(len(starts), len(set(starts)), "no run started twice")
        return lines

    def count(self, trials, state):
        return sum(trial["state"] == state for trial in trials)

    def some_have_ended(self, number, count):
        wait_for(f"{count} trials of {number} to end",
                 lambda: sum(trial["state"] in ENDED for trial in self.trials(number)) >= count, 60)

    # number of trials

    def test_random(self):
        seen, trials = self.ended(self.start("name: random, max_trials: 7, max_concurrent_trials: 2"))
        self.assertEqual(len(trials), 7)
        self.assertEqual({trial["state"] for trial in trials}, {"STATE_COMPLETED"})
        self.assertEqual(len({trial["hparams"]["x"] for trial in trials}), 7)
        self.assertEqual(most_at_a_time(self.journal()), 2)
        best = min(trials, key=lambda trial: trial["hparams"]["x"])
        self.assertAlmostEqual(seen["bestTrialSearcherMetric"], best["hparams"]["x"] + 1 / 5)
        self.assertEqual(seen["bestTrialId"], best["id"])

    def test_slots_are_shared(self):
        _, trials = self.ended(self.start("name: random, max_trials: 5, max_concurrent_trials: 0",
                                          resources="{slots_per_trial: 1, max_slots: 2}"))
        self.assertEqual(len(trials), 5)
        self.assertEqual(most_at_a_time(self.journal()), 2)

    def test_grid(self):
        """Every point is tried once; a refused point is not tried again."""
        _, trials = self.ended(self.start("name: grid, max_concurrent_trials: 3", steps=2,
                                          more="refused: 0.9, y: {type: categorical, vals: [a, b]}"))
        points = [(round(trial["hparams"]["x"], 6), trial["hparams"]["y"]) for trial in trials]
        self.assertEqual(sorted(points), [(x / 5, y) for x in range(6) for y in "ab"])
        self.assertEqual(self.count(trials, "STATE_ERROR"), 2)
        self.assertLessEqual(most_at_a_time(self.journal()), 3)

    # early stopping

    def rungs_are_kept(self, trials, first, divisor, whole):
        """Some trials stopped at the first rung, and the best one continued."""
        steps = {trial["id"]: trial["totalBatchesProcessed"] for trial in trials}
        best = min(trials, key=lambda trial: trial["hparams"]["x"])
        self.assertGreaterEqual(steps[best["id"]], whole, trials)
        early = [number for number, done in steps.items() if first <= done < whole]
        self.assertGreaterEqual(len(early), len(trials) / 2 - 1, steps)
        left = {line["trial"] for line in self.journal() if line["what"] == "leaves"}
        self.assertLessEqual(set(early), left, "stopped through the preemption signal")

    def test_halving(self):
        seen, trials = self.ended(self.start(f"{ASHA}, max_trials: 12, max_concurrent_trials: 2", steps=40))
        self.assertEqual(len(trials), 12)
        self.assertEqual({trial["state"] for trial in trials}, {"STATE_COMPLETED"})
        self.assertEqual(most_at_a_time(self.journal()), 2)
        self.rungs_are_kept(trials, 2, 4, 8)
        for trial in trials:  # trials at the top rung were stopped there, long before the end of their program
            self.assertLess(trial["totalBatchesProcessed"], 30)

    def test_time_metric(self):
        _, trials = self.ended(self.start("name: async_halving, num_rungs: 1, max_time: 3, time_metric: epochs, "
                                          "max_trials: 3", steps=60))
        for trial in trials:
            self.assertTrue(6 <= trial["totalBatchesProcessed"] < 40, trial)
        _, trials = self.ended(self.start("name: async_halving, num_rungs: 1, max_time: 3, time_metric: hours, "
                                          "max_trials: 1", steps=5))
        self.assertEqual(trials[0]["totalBatchesProcessed"], 5, "a trial without a known time is not stopped")
        self.assertEqual(self.cluster.muster("trial", "logs", trials[0]["id"]).count('have no "hours"'), 1)

    def test_diverged(self):
        """A metric that is not a number counts as worse than any number."""
        _, trials = self.ended(self.start(f"{ASHA}, max_trials: 8, max_concurrent_trials: 2", steps=40,
                                          more="diverges: 0.4"))
        for trial in trials:
            if trial["hparams"]["x"] > 0.4:
                self.assertLess(trial["totalBatchesProcessed"], 8, trial)
        self.assertEqual(len(trials), 8)

    def test_trial_that_ignores_preemption(self):
        """A trial that does not exit is killed after preemption_timeout and still counts as
        completed."""
        _, trials = self.ended(self.start(f"{ASHA}, max_trials: 3, max_concurrent_trials: 3", steps=1000,
                                          more="deaf: true", timeout=1), seconds=60)
        self.assertEqual([trial["state"] for trial in trials], ["STATE_COMPLETED"] * 3)
        self.assertNotIn("leaves", {line["what"] for line in self.journal()})

    # searchers that start trials from checkpoints

    def test_hyperband(self):
        """The best trial of each rung goes on from its checkpoint; the others stay where they stopped."""
        _, trials = self.ended(self.start("name: hyperband, max_time: 9, max_rungs: 2, max_concurrent_trials: 2", steps=40))
        self.assertEqual(len(trials), 3 + 2)
        self.assertEqual({trial["state"] for trial in trials}, {"STATE_COMPLETED"})
        self.assertEqual(most_at_a_time(self.journal()), 2)
        first = sorted(trials, key=lambda trial: trial["id"])[:3]
        best = min(first, key=lambda trial: trial["hparams"]["x"])
        for trial in first:
            reached = trial["totalBatchesProcessed"]
            self.assertTrue(9 <= reached < 40 if trial is best else 3 <= reached < 9, trial)
        self.assertEqual(len(best["taskIds"]), 2)
        rungs = self.user.get(f"/experiments/{best['experimentId']}/search")["brackets"][0]["rungs"]
        self.assertEqual([(rung["size"], rung["goOn"], len(rung["marks"])) for rung in rungs], [(3, 1, 3), (1, 0, 1)])

    def test_pbt(self):
        """A weak member is replaced by a copy of a better one, which starts from its checkpoint."""
        number = self.start("name: pbt, population_size: 3, num_rounds: 4, length_per_round: {batches: 4}, "
                            "replace_function: {truncate_fraction: 0.34}", steps=16, more="saves: 2")
        wait_for("a trial to be copied", lambda: len(self.trials(number)) > 3, 60)
        self.cluster.master.kill9()
        self.cluster.start_master()
        _, trials = self.ended(number)
        copies = [trial for trial in trials if "sourceTrialId" in trial]
        self.assertGreater(len(copies), 0)
        self.assertEqual(len(trials), 3 + len(copies))
        known = {trial["id"] for trial in trials}
        for trial in copies:
            self.assertIn(trial["sourceTrialId"], known - {trial["id"]})
            self.assertTrue(trial["warmStartCheckpointUuid"])
        shown = self.cluster.muster("trial", "describe", copies[0]["id"])
        self.assertIn(f"of trial {copies[0]['sourceTrialId']}", shown)

    def test_tpe(self):
        _, trials = self.ended(self.start("name: tpe, max_trials: 12, startup_trials: 4, max_concurrent_trials: 2", steps=1))
        self.assertEqual(len(trials), 12)
        order = sorted(trials, key=lambda trial: trial["id"])
        self.assertEqual(len({trial["hparams"]["x"] for trial in trials}), 12)
        chosen = [trial["hparams"]["x"] for trial in order[6:]]
        self.assertLess(sum(chosen) / len(chosen), sum(t["hparams"]["x"] for t in order[:4]) / 4, "near the better ones")

    # failures

    def test_refused_points_are_replaced(self):
        _, trials = self.ended(self.start("name: random, max_trials: 6, max_concurrent_trials: 2",
                                          more="refused: 0.6", restarts=3))
        self.assertEqual(self.count(trials, "STATE_COMPLETED"), 6)
        self.assertEqual(len(trials) - 6, sum(trial["hparams"]["x"] > 0.6 for trial in trials))
        self.assertGreater(len(trials), 6)
        self.assertEqual({trial["restarts"] for trial in trials}, {0})

    def test_failures(self):
        _, trials = self.ended(self.start("name: random, max_trials: 6", more="fails: 0.5", restarts=1))
        failed = [trial for trial in trials if trial["state"] == "STATE_ERROR"]
        self.assertEqual(len(trials), 6)
        self.assertTrue(0 < len(failed) < 6)
        for trial in failed:
            self.assertGreater(trial["hparams"]["x"], 0.5)
        self.assertEqual(sum(line["what"] == "fails" for line in self.journal()), 2 * len(failed))
        _, trials = self.ended(self.start("name: random, max_trials: 3", more="fails: -1"), "STATE_ERROR")
        self.assertEqual([trial["state"] for trial in trials], ["STATE_ERROR"] * 3)

    # user actions

    def test_killed_trial(self):
        number = self.start("name: random, max_trials: 3, max_concurrent_trials: 1", steps=20)
        first = wait_for("a trial", lambda: self.trials(number))[0]["id"]
        self.user.post(f"/trials/{first}/kill")
        _, trials = self.ended(number)
        self.assertEqual([trial["state"] for trial in sorted(trials, key=lambda t: t["id"])],
                         ["STATE_CANCELED", "STATE_COMPLETED", "STATE_COMPLETED"])

    def test_pause(self):
        number = self.start(f"{ASHA}, max_trials: 10, max_concurrent_trials: 2", steps=40)
        self.some_have_ended(number, 3)
        self.user.post(f"/experiments/{number}/pause")
        wait_for("nothing to run", lambda: self.experiment(number)["state"] == "STATE_PAUSED"
                 and not self.experiment(number)["liveAllocations"])
        there = len(self.trials(number))
        time.sleep(0.5)
        self.assertEqual(len(self.trials(number)), there)
        self.assertLess(there, 10)
        begun = len(self.journal())
        self.user.post(f"/experiments/{number}/activate")
        _, trials = self.ended(number)
        self.assertEqual(len(trials), 10)
        self.assertGreater(len(self.journal()), begun)
        self.assertEqual(most_at_a_time(self.journal()), 2)

    def test_cancel(self):
        number = self.start("name: random, max_trials: 50, max_concurrent_trials: 3", steps=20)
        self.some_have_ended(number, 3)
        self.user.post(f"/experiments/{number}/cancel")
        seen, trials = self.ended(number, "STATE_CANCELED", 30)
        self.assertEqual({trial["state"] for trial in trials}, {"STATE_COMPLETED", "STATE_CANCELED"})
        self.assertLess(len(trials), 50)
        self.assertEqual(seen["liveAllocations"], 0)
        self.assertLess(seen["progress"], 1)

    def test_cancel_before_anything_ran(self):
        blocker = self.start("name: random, max_trials: 50, max_concurrent_trials: 8", steps=1000)
        self.some_have_ended(blocker, 0)
        number = self.start("name: random, max_trials: 4, max_concurrent_trials: 2", steps=20)
        self.user.post(f"/experiments/{number}/cancel")
        self.user.post(f"/experiments/{blocker}/kill")
        seen, _ = self.ended(number, "STATE_CANCELED", 30)
        self.assertLess(seen["progress"], 1)

    # restart of the master

    def test_master_is_killed(self):
        number = self.start(ADAPTIVE.format(20, 4), steps=40)
        for ended in (2, 6, 11, 15):
            self.some_have_ended(number, ended)
            self.cluster.master.kill9()
            self.cluster.start_master()
        seen, trials = self.ended(number)
        self.assertEqual(len(trials), 20)
        self.assertEqual({trial["state"] for trial in trials}, {"STATE_COMPLETED"})
        self.assertEqual(len({trial["hparams"]["x"] for trial in trials}), 20)
        journal = self.journal()
        self.assertEqual({line["trial"] for line in journal}, {trial["id"] for trial in trials})
        self.assertLessEqual(most_at_a_time(journal), 4)
        self.assertEqual({trial["restarts"] for trial in trials}, {0})
        self.assertEqual(len([line for line in journal if line["what"] == "begins"]), 20, "no trial had to start over")

    # the native trainer

    def test_native(self):
        data = pathlib.Path("points")
        data.mkdir(exist_ok=True)
        rows = "\n".join(f"{i % 17},{i % 13},{(i % 17) * 3 - (i % 13)}" for i in range(400))
        (data / "points.csv").write_text("a,b,y\n" + rows + "\n")
        pathlib.Path("native.yaml").write_text(NATIVE)
        number = self.cluster.create("native.yaml", data)
        seen, trials = self.ended(number)
        self.assertEqual(len(trials), 9)
        self.assertEqual({trial["state"] for trial in trials}, {"STATE_COMPLETED"})
        self.assertEqual(len({json.dumps(trial["hparams"]) for trial in trials}), 9)
        steps = sorted(trial["totalBatchesProcessed"] for trial in trials)
        self.assertEqual(steps[-1], 900)
        self.assertLess(steps[0], 900)
        best = min(trial["bestValidation"]["metrics"]["avgMetrics"]["validation_loss"] for trial in trials)
        self.assertAlmostEqual(seen["bestTrialSearcherMetric"], best)

    def test_example(self):
        """Runs examples/search.yaml as its comment says, and checks the output that users see."""
        folder = pathlib.Path("spirals")
        folder.mkdir(exist_ok=True)
        with open(folder / "spirals.csv", "w") as out:
            subprocess.run(["python3", SOURCE / "examples" / "spirals.py"], stdout=out, check=True)
        example = SOURCE / "examples" / "search.yaml"
        refused = subprocess.run([BIN / "muster-trainer", "run", example, "--folder", folder], capture_output=True,
                                 text=True)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("describes a search; run it on a cluster", refused.stderr)
        told = self.cluster.muster("experiment", "create", example, folder, "--follow")
        number = int(re.search(r"Created experiment (\d+)", told).group(1))
        self.assertRegex(told, r"completed \[#+\] 100%  24 of 24 trials  best 0\.9")
        seen, trials = self.ended(number)
        self.assertGreater(seen["bestTrialSearcherMetric"], 0.97)
        steps = [trial["totalBatchesProcessed"] for trial in trials]
        self.assertLess(sum(steps), 24 * 1600 / 2, "most are stopped early")
        lines = self.cluster.muster("experiment", "describe", number).splitlines()
        print("\n".join(lines))
        table = lines[lines.index("Trials, best first (validation_accuracy)") + 1:]
        self.assertEqual(table[0].lower().split(), ["id", "learning", "rate", "width", "best", "steps", "state", "ran"])
        self.assertEqual(int(table[1].split()[0]), seen["bestTrialId"])
        best = [float(row.split()[3]) for row in table[1:]]
        self.assertEqual(best, sorted(best, reverse=True))

    def test_preview(self):
        """A preview shows the trials of the search that then runs, and creates nothing."""
        before = self.user.get("/experiments")["pagination"]["total"]
        searcher = f"{ASHA}, max_trials: 5, max_concurrent_trials: 2"
        config = CONFIG.format(searcher=searcher, steps=8, more="", resources="{slots_per_trial: 1}", restarts=0,
                               timeout=60, journal="journal")
        pathlib.Path("preview.yaml").write_text(config)
        shown = json.loads(self.cluster.muster("experiment", "preview", "preview.yaml", "-o", "json"))
        told = self.cluster.muster("experiment", "preview", "preview.yaml", "--step-time", "3600", "--limit", "2")
        self.assertEqual(self.user.get("/experiments")["pagination"]["total"], before)
        self.assertIn("Trials: 5, at most 2 at a time, 1 slot each", told)
        self.assertIn("at most 5 x 8 = 40 steps", told)
        self.assertIn("Slot-hours: at most 40; ", told)
        self.assertIn("(3 more; show them with --limit 5)", told)
        self.assertEqual((shown["length"], shown["mostTime"], shown["seed"], shown["seedGiven"]), (8, 40, 3, True))
        self.assertEqual([rung["time"] for rung in shown["brackets"][0]["rungs"]], [2, 8])
        _, trials = self.ended(self.start(searcher, steps=8))
        ran = [trial["hparams"]["x"] for trial in sorted(trials, key=lambda trial: trial["id"])]
        self.assertEqual([trial["hparams"]["x"] for trial in shown["trials"]], ran)
        self.assertEqual({trial["certain"] for trial in shown["trials"]}, {True})
        unlucky = self.cluster.run("experiment", "preview", "preview.yaml", "--step-time", "x")
        self.assertEqual(unlucky.returncode, 2)
        self.assertIn("--step-time", unlucky.stderr)
        pathlib.Path("preview.yaml").write_text(config.replace("reproducibility: {experiment_seed: 3}", ""))
        self.assertIn("--config reproducibility.experiment_seed=",
                      self.cluster.muster("experiment", "preview", "preview.yaml"))

    # warnings

    def submit_and_follow(self, name, program, searcher, more=""):
        """Returns the standard output of --follow until the end of a search over x = 1, 2, 3."""
        folder = pathlib.Path(name)
        folder.mkdir()
        (folder / "program.py").write_text(program)
        pathlib.Path(f"{name}.yaml").write_text(
            f"name: {name}\nentrypoint: python3 program.py\nresources: {{slots_per_trial: 1}}\n"
            f"hyperparameters: {{x: {{type: categorical, vals: [1, 2, 3]}}}}\nmax_restarts: 0\n"
            f"searcher: {{name: grid, {searcher}}}\n{more}")
        return self.cluster.muster("experiment", "create", f"{name}.yaml", folder, "--follow")

    def test_metric_that_is_not_reported(self):
        program = "import muster\nwith muster.init() as run:\n    run.report(1, accuracy=0.5, group='validation')\n"
        told = self.submit_and_follow("misspelled", program, "metric: acuracy")
        warning = "the trials reported accuracy; the searcher waits for acuracy: "
        self.assertEqual(told.count(warning), 1, told)
        number = int(re.search(r"Created experiment (\d+)", told).group(1))
        seen, trials = self.ended(number)
        self.assertTrue(seen["metricWarning"].startswith(warning))
        for command in (("experiment", "describe"), ("queue", "why")):
            self.assertIn(warning, self.cluster.muster(*command, number))
        self.assertIn("this trial reported accuracy; the searcher waits for acuracy: ",
                      self.cluster.muster("trial", "logs", trials[0]["id"], "--level", "warning"))

    def test_a_single_trial_without_validations(self):
        pathlib.Path("unvalidated").mkdir()
        pathlib.Path("unvalidated/program.py").write_text(
            "import muster\nwith muster.init() as run:\n    run.report(1, loss=0.5)\n")
        pathlib.Path("unvalidated/my.yaml").write_text(
            "name: unvalidated\nentrypoint: python3 program.py\nresources: {slots_per_trial: 1}\n"
            "searcher: {name: single, metric: accuracy}\n")
        told = self.cluster.muster("experiment", "create", "unvalidated/my.yaml", "unvalidated", "--follow")
        warning = "Warning: the trial reported no validation metrics; the searcher waits for accuracy: "
        self.assertEqual(told.count(warning), 1, told)
        forgotten = self.cluster.run("experiment", "create", "unvalidated/my.yaml", "--paused")
        self.assertIn("warning: no files were submitted, and the entrypoint names program.py", forgotten.stderr)
        given = self.cluster.run("experiment", "create", "unvalidated/my.yaml", "unvalidated", "--paused")
        self.assertEqual(given.stderr, "")

    def test_a_continuation_with_other_hyperparameters(self):
        pathlib.Path("changed.yaml").write_text(
            "name: changed\nentrypoint: 'true'\nresources: {slots_per_trial: 1}\n"
            "hyperparameters: {lr: 0.05}\nsearcher: {name: single, metric: accuracy}\n")
        number = int(self.cluster.muster("experiment", "create", "changed.yaml", "-q"))
        self.ended(number)
        self.assertEqual(self.cluster.run("experiment", "config", number).stderr, "")
        continued = self.cluster.run("experiment", "continue", number, "--config", "hyperparameters.lr=0.2")
        self.assertEqual(continued.returncode, 0, continued.stderr)
        self.assertIn("warning: the record of the trial now shows the new hyperparameters", continued.stderr)
        self.ended(number)
        self.assertIn("was continued with other hyperparameters",
                      self.cluster.run("experiment", "config", number).stderr)

    def test_hang_of_a_trial(self):
        program = ("import muster, time\nwith muster.init() as run:\n    run.report(1, loss=1.0, group='validation')\n"
                   "    time.sleep(12 if run.hparams['x'] == 2 else 0)\n")
        told = self.submit_and_follow("hangs", program, "metric: loss", "hang: {warn_after: 3}\n")
        self.assertRegex(told, r"Trial \d+: the task seems to hang: ")
        self.assertNotIn("Warning:", told)

    def test_warning(self):
        late = (SOURCE / "examples" / "search.yaml").read_text().replace("validate_every: 100", "validate_every: 200")
        pathlib.Path("late.yaml").write_text(late)
        told = self.cluster.run("experiment", "create", "late.yaml", "--validate-only")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("the lowest rung of the search is at step 100", told.stderr)


NATIVE = """\
name: native search
resources: {slots_per_trial: 1}
searcher: {name: adaptive_asha, metric: validation_loss, max_trials: 9, max_time: 900, divisor: 3, max_concurrent_trials: 3}
reproducibility: {experiment_seed: 5}
hyperparameters:
  learning_rate: {type: log, base: 10, minval: -4, maxval: -1.5}
  net: {width: {type: int, minval: 4, maxval: 64}}
max_restarts: 0
trainer:
  model: {family: mlp, hidden: ["${net.width}"]}
  data: {format: csv, path: points.csv, targets: [y], validation_count: 80, standardize: true}
  global_batch_size: 16
  micro_batch_size: 16
  steps: 900
  optimizer: {name: adamw, learning_rate: "${learning_rate}"}
  validate_every: 50
"""


if __name__ == "__main__":
    unittest.main(verbosity=2)
