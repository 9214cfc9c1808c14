"""examples/pytorch-exact on a real cluster: the digest is the same on 1 slot, and on 2 that are killed and resized."""

import json
import os
import pathlib
import re
import signal
import subprocess
import unittest

from cluster import SOURCE, Cluster, wait_for

PYTHON = "/usr/bin"  # Debian's packages belong to Debian's Python
EXAMPLE = SOURCE / "examples" / "pytorch-exact"
STEPS = 160  # a checkpoint every 50 and before a drain


def has_torch():
    done = subprocess.run([f"{PYTHON}/python3", "-c", "import torch.distributed"], capture_output=True)
    return done.returncode == 0


@unittest.skipUnless(has_torch(), "PyTorch is missing; packaging/setup test-packages installs it")
class ExactPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["PATH"] = f"{PYTHON}:{os.environ['PATH']}"
        cls.storage = pathlib.Path("storage").resolve()
        cls.storage.mkdir()
        cls.cluster = cls.enterClassContext(Cluster("cluster", slots=(4,),
                                                    master_flags=("--storage-allow", cls.storage)))

    def submit(self, slots):
        settings = (f"checkpoint_storage={json.dumps({'type': 'directory', 'container_path': str(self.storage)})}",
                    "reproducibility.experiment_seed=7", f"hyperparameters.steps={STEPS}",
                    f"resources.slots_per_trial={slots}")
        return self.cluster.create(EXAMPLE / "digits.yaml", EXAMPLE,
                                   *(word for setting in settings for word in ("--config", setting)))

    def result(self, experiment):
        """The digest, and the losses of all steps."""
        log = self.cluster.muster("experiment", "logs", experiment)
        digest = re.search(rf"step {STEPS}: SHA-256 .* ([0-9a-f]{{64}})", log)
        self.assertTrue(digest, log[-3000:])
        losses = [(row["steps"], row["metrics"]["loss"]) for row in self.cluster.rows(
            "trial", "metrics", self.cluster.trial(experiment)["id"], "--group", "training")]
        self.assertEqual([step for step, _ in losses], list(range(1, STEPS + 1)))
        return digest[1], losses

    def last_step(self, experiment):
        trials = self.cluster.rows("trial", "list", experiment)
        if not trials or self.cluster.run("trial", "metrics", trials[0]["id"], "--group", "training").returncode:
            return 0
        rows = self.cluster.rows("trial", "metrics", trials[0]["id"], "--group", "training")
        return max((row["steps"] for row in rows), default=0)

    def ranks(self):
        found = []
        for pid in self.cluster.processes_below():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"digits.py" in words[-2:] and words[0].endswith(b"python3"):
                found.append(pid)
        return found

    def test_digest_is_the_same_through_kill_and_resize(self):
        undisturbed = self.submit(1)
        self.cluster.wait(undisturbed)
        expected = self.result(undisturbed)

        experiment = self.submit(2)
        wait_for("step 3", lambda: self.last_step(experiment) >= 3, every=0.2)
        os.kill(self.ranks()[-1], signal.SIGKILL)
        wait_for("the next start", lambda: self.cluster.trial(experiment)["restarts"] == 1)
        wait_for("its ranks", lambda: len(self.ranks()) == 2)
        self.cluster.muster("experiment", "resize", experiment, "--slots", "3")
        self.cluster.wait(experiment)
        self.assertEqual(self.result(experiment), expected)


if __name__ == "__main__":
    unittest.main()
