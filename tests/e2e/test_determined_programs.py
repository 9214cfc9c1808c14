"""The programs of examples/determined run to their end on one agent and on two, with the results of a run that nothing
disturbed: after a pause, a killed agent, a lost machine and a killed master.

The tests cannot install Determined's library, so a stand-in (stand_in/README.md) makes its calls.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from cluster import PYTHON, SOURCE, Cluster, has_torch, wait_for
from machines import NETWORK, SKIPPED, enter_network, make_machines

EXAMPLES = SOURCE / "examples" / "determined"
STAND_IN = pathlib.Path(__file__).resolve().parent / "stand_in"
# The machines share a host name, so its address does not tell Gloo where to listen.
# Debian's torch.distributed.run fails on its own default of --redirects and --tee; no rank has the local rank 9.
ENVIRONMENT = [f"PYTHONPATH={STAND_IN}", "GLOO_SOCKET_IFNAME=eth0", "PET_REDIRECTS=9:1", "PET_TEE=9:1"]

# Programs that start again from the beginning: hyperparameters. The library of 1_metrics asks for preemption, but the
# program does not listen, so it may go on for PREEMPTION_S. 0_start has no hyperparameters: it runs from a copy with a
# longer pause, because its 5 s are over before a busy machine has noticed that it has begun. It begins last, and 1_metrics
# outlasts it.
PREEMPTION_S = 1
RESTARTED = {"1_metrics": {"seconds_per_step": 0.5}, "0_start": {}}
PAUSE, LONGER_PAUSE = "time.sleep(0.1)", "time.sleep(0.25)"  # of 0_start, in each step
# Programs that go on from their checkpoint. name: (folder, slots, last step, hyperparameters)
RESUMED = {
    "2_checkpoints": (EXAMPLES, 1, 60, {"seconds_per_step": 0.08}),
    "4_distributed": (EXAMPLES, 2, 60, {"seconds_per_step": 0.08}),
    "mnist": (EXAMPLES / "mnist", 2, 100, {"seconds_per_step": 0.02}),
}


def check_machine():
    if os.geteuid() != 0 and not os.path.isdir("/determined_shared_fs"):
        print("skipped: only root can make /determined_shared_fs, where the library saves checkpoints")
        sys.exit(SKIPPED)
    if not has_torch():
        print("skipped: PyTorch is missing; packaging/setup test-packages installs it")
        sys.exit(SKIPPED)


class Programs:
    """The tests; a subclass says which agents there are."""

    slots = None  # of each agent
    curves = {}  # the results of undisturbed runs

    @classmethod
    def setUpClass(cls):
        os.environ["PATH"] = f"{PYTHON}:{os.environ['PATH']}"
        cls.machines = MACHINES[:len(cls.slots)]
        cls.storage = pathlib.Path(f"{cls.__name__}-storage").resolve()
        cls.storage.mkdir()
        cls.restarted = cls.copy_examples(f"{cls.__name__}-examples")
        cls.cluster = cls.enterClassContext(Cluster(
            cls.__name__, slots=cls.slots, bind=f"{NETWORK}.1",
            master_flags=("--storage-allow", cls.storage),
            prefixes=[machine.prefix for machine in cls.machines]))

    @staticmethod
    def copy_examples(folder):
        """Returns a copy of the examples in which 0_start runs longer."""
        folder = pathlib.Path(shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__"))).resolve()
        program = folder / "0_start.py"
        text = program.read_text()
        assert PAUSE in text
        program.write_text(text.replace(PAUSE, LONGER_PAUSE))
        return folder

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

    # programs that start again

    def has_begun(self, name, experiment):
        if name == "0_start":
            return "step 10:" in self.cluster.muster("experiment", "logs", experiment)
        trials = self.cluster.rows("trial", "list", experiment)
        reports = trials and self.cluster.run("trial", "metrics", trials[0]["id"], "--group", "validation", "-o", "json")
        return reports and reports.returncode == 0 and json.loads(reports.stdout) != []

    def submit_restarted(self, name):
        return self.submit(name, self.restarted, RESTARTED[name], "--config", f"preemption_timeout={PREEMPTION_S}")

    def start_restarted(self, *names):
        """Returns the experiments of programs that run side by side, {name: experiment}, after undisturbed ones."""
        if not RESTARTED.keys() <= self.curves.keys():
            self.check_restarted({name: self.submit_restarted(name) for name in RESTARTED}, starts=1)
        experiments = {}
        for name in names:
            experiments[name] = self.submit_restarted(name)
            wait_for(f"{name} to begin", lambda: self.has_begun(name, experiments[name]))
        return experiments

    def check_restarted(self, experiments, starts):
        """Each program has started so often, and its last start has left the results of an undisturbed run, once."""
        for name, experiment in experiments.items():
            self.cluster.wait(experiment)
            trial = self.cluster.trial(experiment)
            self.assertEqual(trial["restarts"], 0, name)
            self.assertEqual(len(self.cluster.rows("trial", "describe", trial["id"])["starts"]), starts, name)
            if name == "0_start":
                log = self.cluster.muster("experiment", "logs", experiment)
                lines = re.findall(r"step \d+: loss [\d.]+|y = .+", log)
                self.assertEqual(len([line for line in lines if line.startswith("step 10:")]), starts, log)
                result = lines[-6:]
                self.assertEqual(result[-1], "y = 2.99 x + 1.01")
                self.assertEqual(len([line for line in lines if line == result[-1]]), 1, log)
            else:
                result = [self.curve(trial["id"], group) for group in ("training", "validation")]
                self.assertEqual([[step for step, _ in curve] for curve in result],
                                 [list(range(1, 51)), list(range(10, 51, 10))])
            self.assertEqual(result, self.curves.setdefault(name, result))

    # searches

    def submit_search(self):
        return self.submit("3_search", EXAMPLES, {"seconds_per_step": 0.03},
                           "--config", "reproducibility.experiment_seed=1")

    def start_search(self):
        """Returns a search that runs and has a checkpoint, after an undisturbed one."""
        if "3_search" not in self.curves:
            self.check_search(self.submit_search())
        experiment = self.submit_search()
        self.cluster.wait_for_checkpoint(experiment)
        return experiment

    def check_search(self, experiment, lost=False):
        """All trials have ended, with the values and the winner of an undisturbed search. The order in which trials reach
        a rung decides how long a bad one runs."""
        self.cluster.wait(experiment)
        trials = self.cluster.rows("trial", "list", experiment)
        self.assertEqual([(trial["state"], trial["restarts"]) for trial in trials], [("COMPLETED", 0)] * 8)
        curves = {}
        for trial in trials:
            curve = self.curve(trial["id"], "validation")
            steps = [step for step, _ in curve]
            self.assertEqual(steps, sorted(set(steps)))
            if not lost:
                self.assertEqual(steps, list(range(2, 2 * len(steps) + 1, 2)))
            curves[trial["hparams"]["learning_rate"]] = dict(curve)
        self.assertEqual(len(curves), 8)
        self.assertIn(16, {max(curve) for curve in curves.values()})
        undisturbed = self.curves.setdefault("3_search", curves)
        self.assertEqual(curves.keys(), undisturbed.keys())
        for rate, curve in curves.items():
            for step in curve.keys() & undisturbed[rate].keys():
                self.assertEqual(curve[step], undisturbed[rate][step])
        self.assertEqual(self.winner(curves), self.winner(undisturbed))

    @staticmethod
    def winner(curves):
        """The learning rate with the smallest loss, and this loss."""
        return min((min(metrics["validation_loss"] for metrics in curve.values()), rate) for rate, curve in curves.items())

    # disturbances

    def pause_and_activate(self, *experiments):
        for experiment in experiments:
            self.cluster.muster("experiment", "pause", experiment)
        wait_for("the programs to end", lambda: not self.programs())
        for experiment in experiments:
            self.cluster.muster("experiment", "activate", experiment)

    def kill_daemons(self):
        for daemon in self.cluster.agents:
            daemon.kill9()
        self.assertTrue(self.programs())
        for daemon in self.cluster.agents:
            daemon.start()
        self.cluster.master.kill9()
        time.sleep(1)
        self.assertTrue(self.programs())
        self.cluster.start_master()

    def restart_master(self, flags):
        self.cluster.master.kill9()
        self.cluster.master_flags = flags
        self.cluster.start_master()

    @contextlib.contextmanager
    def impatient_master(self):
        """The master gives up a machine after five seconds: too early where a busy machine restarts its daemons."""
        patient = self.cluster.master_flags
        self.restart_master((*patient, "--agent-silence", 3, "--agent-reconnect", 2))
        try:
            yield
        finally:
            self.restart_master(patient)

    @contextlib.contextmanager
    def lost_machine(self, slots):
        """Kills all processes of a machine with a program; its agent comes back at once if the program needs it."""
        agent = self.programs()[0]
        self.cluster.agents[agent].kill9()
        for pid in self.machines[agent].processes():
            with contextlib.suppress(ProcessLookupError):  # it has ended with the first process of its task
                os.kill(pid, signal.SIGKILL)
        if slots > len(self.slots) - 1:
            self.cluster.agents[agent].start()
        try:
            yield
        finally:
            if self.cluster.agents[agent].process.poll() is not None:
                self.cluster.agents[agent].start()

    # tests

    def test_pause_and_activate(self):
        for name in RESUMED:
            with self.subTest(name):
                experiment = self.start_and_save(name)
                self.pause_and_activate(experiment)
                self.check(name, experiment, starts=2)
        with self.subTest("without checkpoints"):
            experiments = self.start_restarted(*RESTARTED)
            self.pause_and_activate(*experiments.values())
            self.check_restarted(experiments, starts=2)
        with self.subTest("3_search"):
            experiment = self.start_search()
            self.pause_and_activate(experiment)
            self.check_search(experiment)

    def test_killed_daemons(self):
        """The program runs on without the agents, and repeats its calls until the next master answers."""
        for name in RESUMED:
            with self.subTest(name):
                experiment = self.start_and_save(name)
                self.kill_daemons()
                self.check(name, experiment, starts=1)
        with self.subTest("without checkpoints"):
            experiments = self.start_restarted(*RESTARTED)
            self.kill_daemons()
            self.check_restarted(experiments, starts=1)
        with self.subTest("3_search"):
            experiment = self.start_search()
            self.kill_daemons()
            self.check_search(experiment)

    def test_lost_machine(self):
        """The program goes on from its checkpoint or begins again, on the other machine or when this one is back; this does
        not count as a restart of the trial."""
        self.enterContext(self.impatient_master())
        for name in RESUMED:
            with self.subTest(name):
                experiment = self.start_and_save(name)
                with self.lost_machine(slots=RESUMED[name][1]):
                    self.check(name, experiment, starts=2, lost=True)
        for name in RESTARTED:
            with self.subTest(name):
                experiments = self.start_restarted(name)
                with self.lost_machine(slots=1):
                    self.check_restarted(experiments, starts=2)
        with self.subTest("3_search"):
            experiment = self.start_search()
            with self.lost_machine(slots=1):
                self.check_search(experiment, lost=True)


class OneAgent(Programs, unittest.TestCase):
    slots = (2,)


class TwoAgents(Programs, unittest.TestCase):
    slots = (1, 1)


def run_side_by_side():
    """Runs the classes in processes of their own, with networks of their own. Returns an exit code."""
    processes = [subprocess.Popen([sys.executable, __file__, name]) for name in ("OneAgent", "TwoAgents")]
    codes = [process.wait() for process in processes]
    return next((code for code in codes if code != 0), 0)


if __name__ == "__main__":
    if "MUSTER_TEST_NETWORK" not in os.environ:
        check_machine()
        if len(sys.argv) == 1:
            sys.exit(run_side_by_side())
    enter_network()
    MACHINES = make_machines(2)
    try:
        unittest.main(verbosity=2)
    finally:
        for machine in MACHINES:
            machine.end()
