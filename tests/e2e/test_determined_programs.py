"""The programs of examples/determined run to their end on one agent and on two, with the results of a run that nothing
disturbed: after a pause, a killed agent, a lost machine and a killed master.

The tests cannot install Determined's library, so a stand-in (stand_in/README.md) makes its calls.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from cluster import SOURCE, Cluster, wait_for
from machines import NETWORK, SKIPPED, enter_network, make_machines

EXAMPLES = SOURCE / "examples" / "determined"
STAND_IN = pathlib.Path(__file__).resolve().parent / "stand_in"
PYTHON = "/usr/bin"  # Debian's packages belong to Debian's Python
# The machines share a host name, so its address does not tell Gloo where to listen.
# Debian's torch.distributed.run fails on its own default of --redirects and --tee; no rank has the local rank 9.
ENVIRONMENT = [f"PYTHONPATH={STAND_IN}", "GLOO_SOCKET_IFNAME=eth0", "PET_REDIRECTS=9:1", "PET_TEE=9:1"]

# name: (configuration, folder, slots, last step, hyperparameters)
RESUMED = {
    "2_checkpoints": (EXAMPLES, 1, 60, {"seconds_per_step": 0.04}),
    "4_distributed": (EXAMPLES, 2, 60, {"seconds_per_step": 0.04}),
    "mnist": (EXAMPLES / "mnist", 2, 100, {"seconds_per_step": 0.02}),
}


def check_machine():
    if os.geteuid() != 0 and not os.path.isdir("/determined_shared_fs"):
        print("skipped: only root can make /determined_shared_fs, where the library saves checkpoints")
        sys.exit(SKIPPED)
    done = subprocess.run([f"{PYTHON}/python3", "-c", "import torch.distributed"], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"skipped: PyTorch is missing; packaging/setup test-packages installs it: {done.stderr}")
        sys.exit(SKIPPED)


class Programs:
    """The tests; a subclass says which agents there are."""

    slots = None  # of each agent
    curves = {}  # of undisturbed runs; they do not depend on the agents

    @classmethod
    def setUpClass(cls):
        os.environ["PATH"] = f"{PYTHON}:{os.environ['PATH']}"
        cls.machines = MACHINES[:len(cls.slots)]
        cls.storage = pathlib.Path(f"{cls.__name__}-storage").resolve()
        cls.storage.mkdir()
        cls.cluster = cls.enterClassContext(Cluster(
            cls.__name__, slots=cls.slots, bind=f"{NETWORK}.1",
            master_flags=("--agent-silence", 3, "--agent-reconnect", 2, "--storage-allow", cls.storage),
            prefixes=[machine.prefix for machine in cls.machines]))

    # experiments

    def submit(self, name, folder, hparams=(), *arguments):
        settings = [f"environment.environment_variables={json.dumps(ENVIRONMENT)}", "checkpoint_storage.type=shared_fs",
                    f"checkpoint_storage.host_path={self.storage}", "checkpoint_storage.storage_path=programs",
                    *(f"hyperparameters.{key}={value}" for key, value in dict(hparams).items())]
        flags = [word for setting in settings for word in ("--config", setting)]
        return self.cluster.create(folder / f"{name}.yaml", folder, *flags, *arguments)

    def start(self, name):
        folder, _, steps, hparams = RESUMED[name]
        return self.submit(name, folder, {"steps": steps, **hparams})

    def curve(self, trial, group="training"):
        """The reports of a group: [(step, metrics)]."""
        return [(row["steps"], row["metrics"]) for row in
                self.cluster.rows("trial", "metrics", trial, "--group", group)]

    def check(self, name, experiment, starts, lost=False):
        """The experiment has completed, and each step was reported once, with the values of an undisturbed run.

        The library sends metrics in a thread of its own, so some of the steps just before the last checkpoint may be
        lost together with the machine."""
        self.cluster.wait(experiment)
        trial = self.cluster.trial(experiment)
        self.assertEqual(trial["restarts"], 0)
        log = self.cluster.muster("experiment", "logs", experiment)
        restored = [int(step) for step in re.findall(r"restored step (\d+)", log)]
        self.assertEqual(bool(restored), starts > 1, log)
        reports, expected = self.curve(trial["id"]), list(range(1, RESUMED[name][2] + 1))
        steps = [step for step, _ in reports]
        missing = sorted(set(expected) - set(steps)) if lost else []
        if missing:
            self.assertEqual(missing, list(range(missing[0], restored[0] + 1)))
        self.assertEqual(steps, [step for step in expected if step not in missing])
        undisturbed = self.curves.setdefault(name, reports)
        self.assertEqual(reports, [report for report in undisturbed if report[0] not in missing])

    def undisturbed(self, name):
        if name not in self.curves:
            self.check(name, self.start(name), starts=1)

    def start_and_save(self, name):
        """Returns an experiment that runs and has a checkpoint, after an undisturbed one."""
        self.undisturbed(name)
        experiment = self.start(name)
        self.cluster.wait_for_checkpoint(experiment)
        return experiment

    def programs(self):
        """The numbers of the agents on which a program runs."""
        return [number for number, machine in enumerate(self.machines) if any(
            name.startswith("python") for name in machine.processes().values())]

    # tests

    def test_programs_without_checkpoints(self):
        start = self.submit("0_start", EXAMPLES)
        metrics = self.submit("1_metrics", EXAMPLES, {"seconds_per_step": 0.01})
        self.cluster.wait(start)
        self.assertIn("y = 2.99 x + 1.01", self.cluster.muster("experiment", "logs", start))
        self.cluster.wait(metrics)
        trial = self.cluster.trial(metrics)["id"]
        self.assertEqual([step for step, _ in self.curve(trial)], list(range(1, 51)))
        self.assertEqual([step for step, _ in self.curve(trial, "validation")], list(range(10, 51, 10)))

    def test_pause_and_activate(self):
        for name in RESUMED:
            with self.subTest(name):
                experiment = self.start_and_save(name)
                self.cluster.muster("experiment", "pause", experiment)
                wait_for("the program to end", lambda: not self.programs())
                self.cluster.muster("experiment", "activate", experiment)
                self.check(name, experiment, starts=2)

    def test_killed_daemons(self):
        """The program runs on without the agents, and repeats its calls until the next master answers."""
        for name in RESUMED:
            with self.subTest(name):
                experiment = self.start_and_save(name)
                for daemon in self.cluster.agents:
                    daemon.kill9()
                self.assertTrue(self.programs())
                for daemon in self.cluster.agents:
                    daemon.start()
                self.cluster.master.kill9()
                time.sleep(1)
                self.assertTrue(self.programs())
                self.cluster.start_master()
                self.check(name, experiment, starts=1)

    def test_lost_machine(self):
        """The program goes on from its checkpoint, on the other machine or when this one is back; this does not count as a
        restart of the trial."""
        for name in RESUMED:
            with self.subTest(name):
                experiment = self.start_and_save(name)
                agent = self.programs()[0]
                self.cluster.agents[agent].kill9()
                for pid in self.machines[agent].processes():
                    os.kill(pid, signal.SIGKILL)
                if RESUMED[name][1] > len(self.slots) - 1:
                    self.cluster.agents[agent].start()
                self.check(name, experiment, starts=2, lost=True)
                if self.cluster.agents[agent].process.poll() is not None:
                    self.cluster.agents[agent].start()

    def test_search(self):
        experiment = self.submit("3_search", EXAMPLES, {"seconds_per_step": 0.03})
        self.cluster.wait_for_checkpoint(experiment)
        self.cluster.master.kill9()
        self.cluster.start_master()
        self.cluster.muster("experiment", "pause", experiment)
        wait_for("the programs to end", lambda: not self.programs())
        self.cluster.muster("experiment", "activate", experiment)
        self.cluster.wait(experiment)
        trials = self.cluster.rows("trial", "list", experiment)
        self.assertEqual({trial["state"] for trial in trials}, {"COMPLETED"})
        self.assertEqual(len(trials), 8)
        lengths = set()
        for trial in trials:
            steps = [step for step, _ in self.curve(trial["id"], "validation")]
            self.assertEqual(steps, list(range(2, 2 * len(steps) + 1, 2)))
            lengths.add(steps[-1])
        self.assertIn(16, lengths)
        self.assertGreater(len(lengths), 1)  # bad trials were stopped early


class OneAgent(Programs, unittest.TestCase):
    slots = (2,)


class TwoAgents(Programs, unittest.TestCase):
    slots = (1, 1)


if __name__ == "__main__":
    if "MUSTER_TEST_NETWORK" not in os.environ:
        check_machine()
    enter_network()
    MACHINES = make_machines(2)
    try:
        unittest.main(verbosity=2)
    finally:
        for machine in MACHINES:
            machine.end()
