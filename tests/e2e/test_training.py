"""A training gives the same weights bit by bit on any number of slots, whichever process is killed
meanwhile."""

import json
import os
import pathlib
import signal
import time
import unittest

from cluster import Cluster, SOURCE, wait_for, write_corpus

# Long enough that kills come in the middle; builds with sanitizers are slow and need fewer steps.
STEPS = int(os.environ.get("MUSTER_TRAINING_STEPS", "1000"))

CONFIG = f"""\
name: main-job
resources: {{slots_per_trial: 2}}
searcher: {{name: single, metric: validation_loss}}
max_restarts: 2
reproducibility: {{experiment_seed: 5}}
trainer:
  model: {{family: gpt, layers: 2, heads: 2, width: 32, context: 32, dropout: 0.1}}
  data: {{format: bytes, path: text.txt, validation_fraction: 0.05}}
  global_batch_size: 12
  micro_batch_size: 1
  steps: {STEPS}
  optimizer: {{name: adamw, learning_rate: 3.0e-3}}
  schedule: {{name: warmup_cosine, warmup_steps: 20}}
  clip_norm: 1.0
  validate_every: {STEPS // 2}
  checkpoint_every: {STEPS // 10}
  report_every: 5
"""


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path("experiment").resolve()
        cls.folder.mkdir()
        write_corpus(cls.folder / "text.txt")
        cls.config = pathlib.Path("main.yaml").resolve()
        cls.config.write_text(CONFIG)
        cls.cluster = Cluster("cluster", slots=(4,)).__enter__()
        experiment = cls.create()
        cls.cluster.wait(experiment)
        cls.undisturbed = cls.cluster.digest(experiment)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    @classmethod
    def create(cls, *overrides):
        flags = [word for override in overrides for word in ("--config", override)]
        return cls.cluster.create(cls.config, cls.folder, *flags)

    def metrics(self, experiment, group):
        """Returns the reports of a group without those that a restart superseded."""
        trial = self.cluster.trial(experiment)["id"]
        return self.cluster.rows("trial", "metrics", trial, "--group", group)

    def assert_undisturbed(self, experiment):
        self.cluster.wait(experiment)
        self.assertEqual(self.cluster.digest(experiment), self.undisturbed)
        steps = [row["steps"] for row in self.metrics(experiment, "training")]
        self.assertEqual(steps, list(range(5, STEPS + 1, 5)), "every training report is stored once")
        self.assertEqual([row["steps"] for row in self.metrics(experiment, "validation")],
                         [0, STEPS // 2, STEPS])

    def in_mid_training(self, experiment):
        """Waits for a checkpoint and running ranks; returns their process ids."""
        self.cluster.wait_for_checkpoint(experiment)
        return wait_for("running ranks", self.cluster.ranks)

    def test_any_number_of_slots(self):
        for slots in (1, 3, 4):
            experiment = self.create(f"resources.slots_per_trial={slots}")
            self.assert_undisturbed(experiment)

    def test_loss_falls(self):
        experiment = self.create()
        self.cluster.wait(experiment)
        losses = [row["metrics"]["validation_loss"] for row in self.metrics(experiment, "validation")]
        self.assertLess(losses[-1], losses[0] / 2)

    def test_kill_a_rank(self):
        experiment = self.create()
        os.kill(self.in_mid_training(experiment)[-1], signal.SIGKILL)
        self.assert_undisturbed(experiment)
        self.assertEqual(self.cluster.trial(experiment)["restarts"], 1)
        self.assertIn("SIGKILL", self.cluster.muster("trial", "describe",
                                                     self.cluster.trial(experiment)["id"]))

    def test_kill_the_master(self):
        experiment = self.create()
        ranks = self.in_mid_training(experiment)
        before = self.metrics(experiment, "training")
        logs_before = self.cluster.muster("experiment", "logs", experiment).splitlines()
        self.cluster.master.kill9()
        time.sleep(1)
        self.cluster.start_master()
        self.assertLessEqual(set(self.cluster.ranks()), set(ranks), "no rank was started twice")
        self.assert_undisturbed(experiment)
        trial = self.cluster.trial(experiment)
        self.assertEqual(trial["restarts"], 0)
        after = self.metrics(experiment, "training")
        self.assertEqual(after[:len(before)], before, "acknowledged metrics are stored")
        logs_after = self.cluster.muster("experiment", "logs", experiment).splitlines()
        self.assertEqual(logs_after[:len(logs_before)], logs_before, "acknowledged lines are stored")
        self.assertEqual(len(logs_after), len(set(logs_after)), "no line is stored twice")

    def test_kill_the_agent(self):
        experiment = self.create()
        ranks = self.in_mid_training(experiment)
        agent = self.cluster.agents[0]
        agent.kill9()
        time.sleep(1)
        agent.start()
        wait_for("the agent to be back", lambda: self.cluster.rows("agent", "list"))
        alive = self.cluster.ranks()
        self.assertLessEqual(set(alive), set(ranks), "the agent adopted the tasks and did not start them again")
        self.assert_undisturbed(experiment)
        self.assertEqual(self.cluster.trial(experiment)["restarts"], 0)

    def test_pause_and_resume(self):
        experiment = self.create()
        self.in_mid_training(experiment)
        self.cluster.muster("experiment", "pause", experiment)
        wait_for("the ranks to exit", lambda: not self.cluster.ranks())
        # The agent reports the end of the ranks a moment later.
        wait_for("the pause", lambda: self.cluster.rows("experiment", "describe", experiment)["state"] == "PAUSED")
        self.cluster.muster("experiment", "activate", experiment)
        self.assert_undisturbed(experiment)

    def test_cancel_and_kill(self):
        for verb in ("cancel", "kill"):
            experiment = self.create("trainer.steps=1000000")
            self.in_mid_training(experiment)
            self.cluster.muster("experiment", verb, experiment)
            self.cluster.wait(experiment, "CANCELED")
            wait_for("the ranks to exit", lambda: not self.cluster.ranks())

    def test_too_many_restarts(self):
        experiment = self.create("max_restarts=0", "trainer.steps=1000000")
        os.kill(self.in_mid_training(experiment)[0], signal.SIGKILL)
        self.cluster.wait(experiment, "ERROR")

    def test_more_slots_than_the_cluster_has(self):
        experiment = self.create("resources.slots_per_trial=64")
        described = wait_for("the reason", lambda: self.cluster.muster("experiment", "describe", experiment))
        self.assertIn("64", described)
        self.assertIn("slots", described)
        self.assertEqual(self.cluster.rows("experiment", "describe", experiment)["state"], "QUEUED")
        self.cluster.muster("experiment", "kill", experiment)

    def test_user_program(self):
        hello = SOURCE / "examples" / "hello"
        experiment = self.cluster.create(hello / "experiment.yaml", hello)
        self.cluster.wait(experiment)
        logs = wait_for("both lines", lambda: (text := self.cluster.muster("experiment", "logs", experiment))
                        and "rank 0 of 2" in text and "rank 1 of 2" in text and text)
        self.assertIn("[rank=1]", logs)


class InvalidInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("bad", slots=(2,)).__enter__()
        cls.folder = pathlib.Path("bad-experiment").resolve()
        cls.folder.mkdir()
        write_corpus(cls.folder / "text.txt", 5000)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def refused(self, config, *expected, code=2):
        path = pathlib.Path("bad.yaml").resolve()
        path.write_text(config)
        done = self.cluster.run("experiment", "create", path, self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for text in expected:
            self.assertIn(text, done.stderr)

    def test_invalid_yaml(self):
        self.refused("name: [1\nlabels: 2\n", "bad.yaml:2")
        self.refused(CONFIG.replace("optimizer:", "optimiser:"), "bad.yaml:12:3", "optimizer")
        self.refused(CONFIG.replace(f"  steps: {STEPS}\n", ""), "trainer.steps")
        self.refused(CONFIG.replace("micro_batch_size: 1", "micro_batch_size: 5"), "micro_batch_size")
        self.refused(CONFIG.replace("heads: 2", "heads: 3"), "heads")
        self.refused(CONFIG.replace(f"steps: {STEPS}", "steps: many"), "bad.yaml:11", "steps")
        self.assertEqual(self.cluster.rows("experiment", "list"), [], "nothing was stored")

    def fails(self, config, expected):
        path = pathlib.Path("bad.yaml").resolve()
        path.write_text(config)
        experiment = self.cluster.create(path, self.folder)
        self.cluster.wait(experiment, "ERROR")
        wait_for(f"the log to say {expected}",
                 lambda: expected in self.cluster.muster("experiment", "logs", experiment,
                                                         "--level", "error"), 30)
        self.assertEqual(self.cluster.trial(experiment)["restarts"], 0, "a restart cannot help")
        self.cluster.muster("experiment", "delete", experiment, "--yes")

    def test_invalid_data(self):
        self.refused(CONFIG.replace("text.txt", "other.txt"), "bad.yaml:8:31", "other.txt")
        self.fails(CONFIG.replace("context: 32", "context: 30000"), "text.txt")

    def test_missing_program(self):
        path = pathlib.Path("absent.yaml").resolve()
        path.write_text("name: absent\nentrypoint: [no-such-program]\nmax_restarts: 0\n"
                        "searcher: {name: single, metric: none}\n")
        experiment = self.cluster.create(path, self.folder)
        self.cluster.wait(experiment, "ERROR")
        trial = self.cluster.trial(experiment)["id"]
        self.assertIn("no-such-program", self.cluster.muster("trial", "describe", trial))
        self.cluster.muster("experiment", "delete", experiment, "--yes")

    def test_tokens(self):
        done = self.cluster.run("experiment", "list", "--token", "nonsense")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("muster login", done.stderr)
        done = self.cluster.run("login", "determined", "--password-file", self.cluster.folder / "master.log")
        self.assertEqual(done.returncode, 4, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
