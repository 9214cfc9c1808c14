"""A gang on two machines computes the same bits as one slot, whatever happens to a rank or to the
network (machines.py)."""

import json
import os
import pathlib
import re
import signal
import time
import unittest

import trainings
from cluster import Cluster, wait_for, write_corpus
from machines import NETWORK, enter_network, make_machines

STEPS = int(os.environ.get("MUSTER_TRAINING_STEPS", "1000")) // 2
SILENCE = 10  # seconds after which a machine counts as silent (NET_SILENCE_S)

CONFIG = f"""\
name: network
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: validation_loss}}
max_restarts: 5
reproducibility: {{experiment_seed: 5}}
trainer:
  model: {{family: gpt, layers: 2, heads: 2, width: 32, context: 32, dropout: 0.1}}
  data: {{format: bytes, path: text.txt, validation_fraction: 0.05}}
  global_batch_size: 12
  micro_batch_size: 1
  steps: {STEPS}
  optimizer: {{name: adamw, learning_rate: 3.0e-3}}
  clip_norm: 1.0
  validate_every: {STEPS}
  checkpoint_every: {STEPS // 20}
  report_every: 5
"""


class TwoMachines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.machines = make_machines(2)
        for machine in cls.machines:
            cls.addClassCleanup(machine.end)
        cls.folder = pathlib.Path("experiment").resolve()
        cls.folder.mkdir()
        write_corpus(cls.folder / "text.txt", 20000)
        trainings.write_images(cls.folder)
        cls.config = pathlib.Path("network.yaml").resolve()
        cls.config.write_text(CONFIG)
        cls.cluster = cls.enterClassContext(Cluster(
            "cluster", slots=(2, 1), bind=f"{NETWORK}.1", master_flags=("--agent-silence", 3),
            prefixes=[machine.prefix for machine in cls.machines]))
        experiment = cls.create(1)
        cls.cluster.wait(experiment)
        cls.digest = cls.cluster.digest(experiment)

    @classmethod
    def create(cls, slots):
        return cls.cluster.create(cls.config, cls.folder, "--config",
                                  f"resources.slots_per_trial={slots}")

    def ranks_of(self, machine):
        folder = self.cluster.folder / f"agent-{machine}"
        return [pid for pid in self.cluster.ranks()
                if os.path.exists(f"/proc/{pid}")
                and pathlib.Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(folder)]

    def train_on_both(self):
        """Starts an experiment and waits until it trains on both machines; returns (id, {machine:
        [pid]})."""
        experiment = self.create(3)
        self.cluster.wait_for_checkpoint(experiment)
        ranks = {machine: self.ranks_of(machine) for machine in (0, 1)}
        self.assertEqual([len(ranks[0]), len(ranks[1])], [2, 1])
        return experiment, ranks

    def check_end(self, experiment, restarts):
        self.cluster.wait(experiment)
        self.assertEqual(self.cluster.digest(experiment), self.digest)
        self.assertEqual(self.cluster.trial(experiment)["restarts"], restarts)

    def wait_for_end(self, pids, seconds):
        began = time.monotonic()
        wait_for(f"ranks {pids} to end", lambda: not set(pids) & set(self.cluster.ranks()), seconds)
        return time.monotonic() - began

    def test_two_machines_compute_the_bits_of_one_slot(self):
        experiment = self.create(3)
        self.check_end(experiment, 0)
        self.assertIn("comm=net", self.cluster.muster("experiment", "logs", experiment))

    def test_encrypted_machines_compute_the_same_bits(self):
        config = pathlib.Path("encrypted.yaml").resolve()
        config.write_text(CONFIG + "  encrypt_network: true\n")
        experiment = self.cluster.create(config, self.folder, "--config", "resources.slots_per_trial=3")
        self.check_end(experiment, 0)
        self.assertIn("the connections to other machines are encrypted",
                      self.cluster.muster("experiment", "logs", experiment))

    def test_every_model_family(self):
        for name in trainings.TRAININGS:
            with self.subTest(model=name):
                digests = []
                for slots in (1, 3):
                    config = pathlib.Path(f"{name}-{slots}.yaml").resolve()
                    config.write_text(trainings.config(name, 8, slots=slots))
                    experiment = self.cluster.create(config, self.folder)
                    self.cluster.wait(experiment)
                    digests.append(self.cluster.digest(experiment))
                self.assertEqual(*digests)

    def test_killed_rank(self):
        experiment, ranks = self.train_on_both()
        os.kill(ranks[1][0], signal.SIGKILL)
        self.wait_for_end(ranks[0], 5)
        self.check_end(experiment, 1)
        self.assertIn("rank 2: signal 9 (SIGKILL)", self.cluster.muster("experiment", "logs", experiment))

    def test_cut_link(self):
        experiment, ranks = self.train_on_both()
        self.machines[1].cut()
        try:
            for machine in (0, 1):
                self.wait_for_end(ranks[machine], SILENCE + 5)
        finally:
            self.machines[1].mend()
        self.check_end(experiment, 1)
        self.assertRegex(self.cluster.muster("experiment", "logs", experiment),
                         "rank [02] is silent")

    def test_every_machine_has_the_rendezvous_file(self):
        folder = pathlib.Path("rendezvous").resolve()
        folder.mkdir()
        (folder / "show.sh").write_text("echo rendezvous $RANK $(cat /run/determined/info/rendezvous.json)\n")
        config = pathlib.Path("rendezvous.yaml").resolve()
        config.write_text("name: rendezvous\nentrypoint: sh show.sh\nresources: {slots_per_trial: 3}\n"
                          "searcher: {name: single, metric: loss}\nmax_restarts: 0\n")
        experiment = self.cluster.create(config, folder)
        self.cluster.wait(experiment)
        shown = re.findall(r"rendezvous (\d) (\{.*\})", self.cluster.muster("experiment", "logs", experiment))
        self.assertEqual(len(shown), 2)
        for rank, info in shown:
            self.assertEqual(json.loads(info), {
                "container_addrs": [f"{NETWORK}.2", f"{NETWORK}.3"], "container_rank": int(rank),
                "container_slot_counts": [2, 1]})

    def test_route_that_appears_late(self):
        route = ["route", "add", "unreachable", f"{NETWORK}.2/32"]
        self.machines[1].ip(*route)
        experiment = self.create(3)
        wait_for("rank 2 to start", lambda: self.ranks_of(1))
        time.sleep(2)  # time to connect and to fail for lack of a route
        route[1] = "del"
        self.machines[1].ip(*route)
        self.check_end(experiment, 0)


if __name__ == "__main__":
    enter_network()
    unittest.main(verbosity=2)
