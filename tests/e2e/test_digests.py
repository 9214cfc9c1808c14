"""The digest does not depend on the number of ranks: every model family, normalisation, dropout,
augmentation and optimizer is trained by `muster-trainer run` on 1 to 12 processes, killed and
restarted on another number."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from cluster import BIN, wait_for, write_corpus
from trainings import STEPS, TRAININGS, config, write_images


class Digests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        write_images()
        write_corpus(pathlib.Path("text.txt"))

    def config(self, name, micro_batches, *lengths):
        path = pathlib.Path("-".join(map(str, [name, micro_batches, *lengths])) + ".yaml")
        path.write_text(config(name, micro_batches, *lengths))
        return path

    def command(self, config, ranks, checkpoints, *more):
        return [BIN / "muster-trainer", "run", config, "--slots", str(ranks), "--checkpoint-dir",
                checkpoints, *more]

    def digest(self, checkpoint):
        said = subprocess.run([BIN / "muster", "checkpoint", "digest", f"./{checkpoint}", "-o", "json"],
                              check=True, capture_output=True, text=True)
        found = json.loads(said.stdout)
        return found["weights"], found["state"]

    def train(self, config, ranks, *more, steps=STEPS):
        checkpoints = pathlib.Path(f"{config.stem}.{ranks}{'.again' if more else ''}")
        done = subprocess.run(self.command(config, ranks, checkpoints, *more), capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.digest(checkpoints / f"step-{steps:08d}")

    def assert_one_digest(self, name, micro_batches, worlds):
        config = self.config(name, micro_batches)
        alone = self.train(config, 1)
        for ranks in worlds:
            with self.subTest(model=name, micro_batches=micro_batches, ranks=ranks):
                self.assertEqual(self.train(config, ranks), alone)

    def test_eight_micro_batches(self):
        for name in TRAININGS:
            self.assert_one_digest(name, 8, range(2, 9))

    def test_twelve_micro_batches(self):
        for name in ("mlp", "layers", "resnet", "gpt"):
            self.assert_one_digest(name, 12, range(2, 13))

    def recomputed_blocks(self, config):
        """The number of blocks that trainer.recompute: blocks would compute twice."""
        done = subprocess.run([BIN / "muster-trainer", "describe", config, "-o", "json", "--set",
                               "trainer.recompute=none"], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["other_plan"]["recomputed_blocks"]

    def test_blocks_computed_twice(self):
        """Recomputation changes no bit, in any family that has residual blocks."""
        tried = 0
        for name in TRAININGS:
            config = self.config(name, 6)
            if self.recomputed_blocks(config) == 0:
                continue
            tried += 1
            alone = self.train(config, 1)
            for ranks in (1, 2, 3):
                with self.subTest(model=name, ranks=ranks):
                    again = self.train(config, ranks, "--set", "trainer.recompute=blocks")
                    self.assertEqual(again, alone)
        self.assertGreaterEqual(tried, 2)

    def killed(self, name, ranks, config, steps):
        """Returns the last checkpoint of a training whose processes were all killed at once, or
        None if it had ended."""
        folder = pathlib.Path(f"{name}.{steps}.killed")
        running = subprocess.Popen(self.command(config, ranks, folder), start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("a checkpoint", lambda: sorted(folder.glob("step-*/manifest.json")))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        last = sorted(folder.glob("step-*/manifest.json"))[-1].parent
        return last if last.name < f"step-{steps:08d}" else None

    def test_killed_and_restarted_on_another_number(self):
        """All processes are killed at once in the middle of the training; others continue from the
        last checkpoint."""
        for name, before, after in (("mlp", 3, 5), ("resnet", 2, 4), ("resnet_sync", 4, 1), ("gpt", 5, 2)):
            with self.subTest(model=name, before=before, after=after):
                steps, last = 20, None
                while not last:  # A training that ended before the signal does not count as a test: repeats with a longer one.
                    steps *= 2
                    config = self.config(name, 8, steps, 4)
                    last = self.killed(name, before, config, steps)
                undisturbed = self.train(config, 1, steps=steps)
                self.assertEqual(self.train(config, after, "--from", last, steps=steps), undisturbed)


if __name__ == "__main__":
    unittest.main()
