"""examples/pytorch-exact on a real cluster: the digest is the same on 1 slot, and on 2 that are killed and resized."""

import json
import os
import pathlib
import re
import signal
import unittest

from cluster import PYTHON, SOURCE, Cluster, has_torch, wait_for

EXAMPLE = SOURCE / "examples" / "pytorch-exact"
STEPS = 160  # a checkpoint every 50 and before a drain


@unittest.skipUnless(has_torch(), "PyTorch is missing; packaging/setup test-packages installs it")
class ExactPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["PATH"] = f"{PYTHON}:{os.environ['PATH']}"
        cls.storage = pathlib.Path("storage").resolve()
        cls.storage.mkdir()
        cls.cluster = cls.enterClassContext(Cluster("cluster", slots=(4,),
                                                    master_flags=("--storage-allow", cls.storage)))

    def submit(self, slots, *more):
        settings = (f"checkpoint_storage={json.dumps({'type': 'directory', 'container_path': str(self.storage)})}",
                    "reproducibility.experiment_seed=7", f"hyperparameters.steps={STEPS}",
                    f"resources.slots_per_trial={slots}", *more)
        return self.cluster.create(EXAMPLE / "digits.yaml", EXAMPLE,
                                   *(word for setting in settings for word in ("--config", setting)))

    def digest(self, experiment):
        log = self.cluster.muster("experiment", "logs", experiment)
        digest = re.search(rf"step {STEPS}: SHA-256 .* ([0-9a-f]{{64}})", log)
        self.assertTrue(digest, log[-3000:])
        return digest[1]

    def result(self, experiment):
        """The digest, and the losses of all steps."""
        losses = [(row["steps"], row["metrics"]["loss"]) for row in self.cluster.rows(
            "trial", "metrics", self.cluster.trial(experiment)["id"], "--group", "training")]
        self.assertEqual([step for step, _ in losses], list(range(1, STEPS + 1)))
        return self.digest(experiment), losses

    def test_digest_is_the_same_through_kill_and_resize(self):
        undisturbed = self.submit(1)
        self.cluster.wait(undisturbed)
        expected = self.result(undisturbed)

        experiment = self.submit(2)
        wait_for("step 3", lambda: self.cluster.last_step(experiment) >= 3, every=0.2)
        os.kill(self.cluster.ranks_of("digits.py")[-1], signal.SIGKILL)
        wait_for("the next start", lambda: self.cluster.trial(experiment)["restarts"] == 1)
        wait_for("its ranks", lambda: len(self.cluster.ranks_of("digits.py")) == 2)
        self.cluster.muster("experiment", "resize", experiment, "--slots", "3")
        self.cluster.wait(experiment)
        self.assertEqual(self.result(experiment), expected)
        self.check_copy(expected[0])

    def check_copy(self, expected):
        """A trial with another seed goes on where a copied one ended, as in a pbt search."""
        source = self.submit(1, f"hyperparameters.steps={STEPS // 2}")
        self.cluster.wait(source)
        experiment = self.submit(2, f"searcher.source_trial_id={self.cluster.trial(source)['id']}",
                                 "reproducibility.experiment_seed=8", "max_restarts=0")
        self.cluster.wait(experiment)
        self.assertEqual(self.digest(experiment), expected)


if __name__ == "__main__":
    unittest.main()
