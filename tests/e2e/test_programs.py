"""Programs that use the package muster, on a real cluster: examples/pytorch through a pause, kill -9 and outages of the
master and the agent, and other things that a program may do.
"""

import json
import os
import pathlib
import signal
import textwrap
import time
import unittest
import urllib.request

from cluster import PYTHON, SOURCE, Cluster, has_torch, outage_seconds, wait_for

OUTAGE_S = outage_seconds(15)
EXAMPLE = SOURCE / "examples" / "pytorch"
STEPS, EVERY = 600, 50


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["PATH"] = f"{PYTHON}:{os.environ['PATH']}"
        cls.storage = pathlib.Path("storage").resolve()
        cls.storage.mkdir()
        cls.cluster = cls.enterClassContext(Cluster("cluster", slots=(4,),
                                                    master_flags=("--storage-allow", cls.storage)))

    # helpers

    def submit(self, config, folder, *settings):
        settings = (f"checkpoint_storage={json.dumps({'type': 'directory', 'container_path': str(self.storage)})}",
                    *settings)
        return self.cluster.create(config, folder, *(word for setting in settings for word in ("--config", setting)))

    def submit_program(self, text, slots=1, **keys):
        """Submits a program that is written down here."""
        folder = pathlib.Path(self._testMethodName).resolve()
        folder.mkdir()
        (folder / "program.py").write_text("import muster, os, sys, time\n" + textwrap.dedent(text))
        config = {"name": self._testMethodName, "entrypoint": "python3 program.py", "launch": "per_slot",
                  "resources": {"slots_per_trial": slots}, "max_restarts": 0,
                  "searcher": {"name": "single", "metric": "loss"}, **keys}
        path = folder.with_suffix(".json")
        path.write_text(json.dumps(config))
        return self.submit(path, folder)

    def curve(self, trial, metric, group="training"):
        return [(row["steps"], row["metrics"][metric]) for row in
                self.cluster.rows("trial", "metrics", trial, "--group", group)]

    def log(self, experiment):
        return self.cluster.muster("experiment", "logs", experiment)

    def wait_for_step(self, experiment, step):
        wait_for(f"step {step}\n{self.log(experiment)[-2000:]}", lambda: self.cluster.last_step(experiment) >= step, every=0.3)

    # tests

    @unittest.skipUnless(has_torch(), "PyTorch is missing; packaging/setup test-packages installs it")
    def test_example_through_interruptions(self):
        pause = 0.04 * OUTAGE_S / 15
        seed = "reproducibility.experiment_seed=7"
        undisturbed = self.submit(EXAMPLE / "digits.yaml", EXAMPLE, seed, f"hyperparameters.steps={STEPS}")
        self.cluster.wait(undisturbed)
        expected = self.curve(self.cluster.trial(undisturbed)["id"], "loss")
        self.assertEqual([step for step, _ in expected], list(range(1, STEPS + 1)))

        experiment = self.submit(EXAMPLE / "digits.yaml", EXAMPLE, seed, f"hyperparameters.steps={STEPS}",
                                 f"hyperparameters.pause={pause}")
        self.wait_for_step(experiment, 60)
        self.cluster.muster("experiment", "pause", experiment)
        wait_for("the ranks to leave", lambda: not self.cluster.ranks_of("digits.py"))
        self.cluster.muster("experiment", "activate", experiment)
        self.wait_for_step(experiment, 130)
        os.kill(self.cluster.ranks_of("digits.py")[-1], signal.SIGKILL)
        wait_for("the next start", lambda: self.cluster.trial(experiment)["restarts"] == 1)
        self.wait_for_step(experiment, 200)
        with self.cluster.master_outage(OUTAGE_S):
            time.sleep(OUTAGE_S / 2)
            self.cluster.agents[0].kill9()
            self.cluster.agents[0].start()
            time.sleep(OUTAGE_S / 2)
            self.assertEqual(len(self.cluster.ranks_of("digits.py")), 2)
        self.cluster.wait(experiment)

        trial = self.cluster.trial(experiment)
        self.assertEqual(trial["restarts"], 1)
        self.assertEqual(self.curve(trial["id"], "loss"), expected)
        validated = [step for step, _ in self.curve(trial["id"], "accuracy", "validation")]
        self.assertEqual(len(validated), len(set(validated)))
        self.assertLessEqual(set(range(EVERY, STEPS + 1, EVERY)), set(validated))
        self.assertLessEqual(len(validated), STEPS // EVERY + 1)  # and the step before the pause

    def test_sharded_checkpoint_and_pause(self):
        """Both ranks save, stop at the same step, and go on from their own files."""
        experiment = self.submit_program("""
            with muster.init() as run:
                step = 0
                if run.latest:
                    step = int((run.latest.path / f"rank-{run.rank}").read_text())
                    print("goes on from", step, run.latest.metadata)
                for step in run.steps(step, 400):
                    run.report(step, loss=1 / step)
                    time.sleep(0.01)
                    if run.due(step, every=1000):
                        with run.checkpoint(step, sharded=True, metadata={"stopping": run.stopping}) as folder:
                            (folder / f"rank-{run.rank}").write_text(str(step))
            """, slots=2)
        self.wait_for_step(experiment, 50)
        self.cluster.muster("experiment", "pause", experiment)
        wait_for("the checkpoint", lambda: self.cluster.rows("checkpoint", "list", "--experiment", experiment))
        self.cluster.muster("experiment", "activate", experiment)
        self.cluster.wait(experiment)
        log = self.log(experiment)
        self.assertEqual(log.count("{'stopping': True}"), 2, log)
        trial = self.cluster.trial(experiment)
        self.assertEqual((trial["restarts"], self.curve(trial["id"], "loss")),
                         (0, [(step, 1 / step) for step in range(1, 401)]))

    def test_failures(self):
        """An exception is the reason; invalid hyperparameters end their own trial alone, at once."""
        experiment = self.submit_program("""
            with muster.init() as run:
                run.report(1, loss=1.0)
                raise ValueError("the data has no labels")
            """)
        self.cluster.wait(experiment, expect="ERROR")
        shown = self.cluster.muster("experiment", "describe", experiment) + self.cluster.muster(
            "trial", "describe", self.cluster.trial(experiment)["id"])
        self.assertIn("the data has no labels", shown)
        self.assertEqual(self.curve(self.cluster.trial(experiment)["id"], "loss"), [(1, 1.0)])

    def test_invalid_hyperparameters(self):
        experiment = self.submit_program("""
            with muster.init() as run:
                if run.hparams["width"] < 0:
                    run.invalid("width is negative")
                run.validate(1, loss=float(run.hparams["width"]))
            """, max_restarts=3, hyperparameters={"width": {"type": "categorical", "vals": [-1, 1, 2]}},
            searcher={"name": "grid", "metric": "loss"})
        self.cluster.run("experiment", "wait", experiment)
        trials = {trial["hparams"]["width"]: trial for trial in self.cluster.rows("trial", "list", experiment)}
        self.assertEqual({width: (trial["state"], trial["restarts"]) for width, trial in trials.items()},
                         {-1: ("ERROR", 0), 1: ("COMPLETED", 0), 2: ("COMPLETED", 0)})
        self.assertEqual(trials[-1]["reason"], "invalid hyperparameters: width is negative")
        for words in (("trial", "describe", trials[-1]["id"]), ("trial", "list", experiment),
                      ("experiment", "describe", experiment)):
            self.assertIn("width is negative", self.cluster.muster(*words), words)

    def test_a_search_ends_trials_early(self):
        """The searcher's stop ends the loop; the trial is complete and does not start again."""
        experiment = self.submit_program("""
            with muster.init() as run:
                for step in run.steps(0, 90):
                    time.sleep(0.01)
                    if run.due(step, every=10):
                        run.validate(step, loss=run.hparams["x"] + 1 / step)
                print("ended at", step, run.stopping)
            """, hyperparameters={"x": {"type": "double", "minval": 0, "maxval": 1}},
            searcher={"name": "async_halving", "metric": "loss", "max_trials": 6, "num_rungs": 3, "divisor": 3,
                      "time_metric": "batches", "max_time": 90, "max_concurrent_trials": 4})
        self.cluster.wait(experiment)
        trials = self.cluster.rows("trial", "list", experiment)
        self.assertEqual([(trial["state"], trial["restarts"]) for trial in trials], [("COMPLETED", 0)] * 6)
        log = "".join(self.cluster.muster("trial", "logs", trial["id"]) for trial in trials)
        self.assertEqual(log.count("ended at"), 6, log)
        self.assertRegex(log, r"ended at \d+ True")

    def test_commands_see_the_checkpoints_of_a_run(self):
        """In the same start: muster checkpoint latest finds them; the next start removes what either left unfinished."""
        experiment = self.submit_program("""
            import pathlib, subprocess
            with muster.init() as run:
                storage, start = run._storage.folder, os.environ["DET_ALLOCATION_ID"]
                if run.latest:
                    print("left:", len(list(storage.glob(f".{start.rpartition('.')[0]}.*"))), flush=True)
                    sys.exit(0)
                print("before:", subprocess.run(["muster", "checkpoint", "latest"]).returncode, flush=True)
                for step in (1, 2):
                    with run.checkpoint(step) as folder:
                        (folder / "step").write_text(str(step))
                    found = subprocess.run(["muster", "checkpoint", "latest"], capture_output=True, text=True, check=True)
                    print("found step", pathlib.Path(found.stdout.strip(), "step").read_text(), flush=True)
                with run.checkpoint(3) as folder:
                    (folder / "step").write_text("3")
                    os.kill(os.getpid(), 9)
            """, max_restarts=1)
        self.cluster.wait(experiment)
        log = self.log(experiment)
        for text in ("before: 3", "found step 1", "found step 2", "left: 0"):
            self.assertIn(text, log)

    def test_what_a_run_stores(self):
        """Metadata, groups of metrics, progress, and values that JSON has no number for."""
        experiment = self.submit_program("""
            with muster.init() as run:
                run.metadata(data={"samples": 60000}, note="first")
                run.metadata(note="second")
                for step in run.steps(0, 5):
                    run.report(step, {"bytes/s": step * 1.5}, group="system")
                    run.report(step, loss=float("nan") if step == 3 else 1.0)
                    run.report(step, rate=step)
                run.image(5, "square", [[0, 255], [255, 0]])
            """)
        self.cluster.wait(experiment)
        trial = self.cluster.trial(experiment)["id"]
        self.assertEqual(self.curve(trial, "bytes/s", "system"), [(step, step * 1.5) for step in range(1, 6)])
        self.assertEqual(self.curve(trial, "rate"), [(step, step) for step in range(1, 6)])
        self.assertEqual(dict(self.curve(trial, "loss"))[3], "NaN")
        shown = self.cluster.rows("experiment", "describe", experiment)
        self.assertEqual(shown["progress"], 1)
        path = f"{self.cluster.url}/api/v1/runs/{trial}/metadata"
        token = json.loads(self.cluster.muster("token", "create", "-o", "json"))["token"]
        request = urllib.request.Request(path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as answer:
            self.assertEqual(json.load(answer)["metadata"], {"data": {"samples": 60000}, "note": "second"})

    def test_a_task_without_a_trial(self):
        """A command imports the package, too; it writes to its own folder."""
        output = self.cluster.run("command", "run", "--", "python3", "-c",
                                  "import muster; run = muster.init(); run.report(1, loss=0.5); run.finish()")
        self.assertEqual(output.returncode, 0, output.stdout + output.stderr)
        self.assertIn("step 1  loss 0.5", output.stdout)


if __name__ == "__main__":
    unittest.main()
