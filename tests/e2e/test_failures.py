"""Failing programs, programs that do not exit, and agents with the same name: the messages that
users get, with real daemons."""

import os
import pathlib
import shutil
import signal
import unittest

from cluster import POLL, Cluster, wait_for

PROGRAM = """\
name: {name}
entrypoint: exec sh run.sh
launch: per_slot
searcher: {{name: single, metric: loss}}
resources: {{slots_per_trial: {slots}}}
max_restarts: {restarts}
"""

# Rank 1 causes the failure but exits late, whatever signal it gets; rank 0 fails earlier as a
# consequence.
GANG = """\
if [ "$RANK" = 1 ]; then
    trap '' TERM
    touch ../deaf
    sleep 0.5
    echo "loading" >&2
    printf 'Traceback (most recent call last):\\n  File "train.py", line 7\\n\\033[31mKeyError\\033[0m: "lr"\\n' >&2
    exit 3
fi
while [ ! -e ../deaf ]; do sleep 0.05; done
echo "torch.distributed.DistBackendError: NCCL error: remote process exited" >&2
exit 1
"""

# Ignores the signals of its allocation.
POLLS_ONCE = f"""\
trap '' TERM
{POLL}
echo polled
while :; do sleep 0.1; done
"""

# It never polls; `%s` is what it does on SIGTERM.
NEVER_POLLS = """\
trap '%s' TERM
echo works
while :; do sleep 0.1; done
"""


TRAINED = """\
name: vanishing
max_restarts: 1
resources: {slots_per_trial: 1}
searcher: {name: single, metric: validation_loss}
reproducibility: {experiment_seed: 1}
trainer:
  model: {family: gpt, layers: 1, heads: 1, width: 32, context: 32}
  data: {format: bytes, path: input.txt}
  global_batch_size: 8
  micro_batch_size: 2
  steps: 2000
  checkpoint_every: 20
  validate_every: 0
  optimizer: {name: adamw, learning_rate: 1.0e-3}
"""


class Failures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(2,), master_flags=("--restart-backoff", 1, "--kill-grace", 3)).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def submit(self, name, script, slots=1, restarts=0, more=""):
        folder = pathlib.Path(name)
        folder.mkdir()
        (folder / "run.sh").write_text(script)
        config = pathlib.Path(f"{name}.yaml")
        config.write_text(PROGRAM.format(name=name, slots=slots, restarts=restarts) + more)
        return self.cluster.create(config, folder)

    def test_reason_is_the_last_output_of_the_failing_rank(self):
        experiment = self.submit("gang", GANG, slots=2)
        follow = self.cluster.run("experiment", "follow", experiment)
        self.assertNotEqual(follow.returncode, 0)
        reason = 'rank 1: exit 3: KeyError: "lr" (train.py:7)'
        self.assertIn(reason, follow.stderr)
        self.assertIn('    Traceback (most recent call last):\n      File "train.py", line 7\n    KeyError: "lr"\n',
                      follow.stdout)
        for text in (self.cluster.muster("experiment", "describe", experiment),
                     self.cluster.muster("trial", "describe", self.cluster.trial(experiment)["id"])):
            self.assertIn(reason, text)
        for text in (self.cluster.muster("experiment", "list"), self.cluster.muster("trial", "list", experiment)):
            self.assertIn('  KeyError: "lr" (train.py:7)', text)
        trial = self.cluster.trial(experiment)
        self.assertEqual(trial["reason"], reason)
        self.assertEqual(trial["last_words"].splitlines()[-1], 'KeyError: "lr"')

    def test_trial_whose_checkpoints_disappeared_starts_over(self):
        """Only one restart is allowed, so missing files must not use up a restart.

        A checkpoint of another experiment stays; it shows the master that the storage is
        mounted.
        """
        folder = pathlib.Path("vanishing")
        folder.mkdir()
        (folder / "input.txt").write_text("the muster roll is called " * 400)
        pathlib.Path("vanishing.yaml").write_text(TRAINED)
        other = self.cluster.create("vanishing.yaml", folder)
        self.cluster.wait(other)
        storage = self.cluster.folder / "master" / "checkpoints"
        stay = set(storage.iterdir())
        experiment = self.cluster.create("vanishing.yaml", folder)
        self.cluster.wait_for_checkpoint(experiment)
        for pid in self.cluster.ranks():
            os.kill(pid, signal.SIGSTOP)  # no checkpoint is written after those that disappear
        for checkpoint in set(storage.iterdir()) - stay:
            shutil.rmtree(checkpoint)
        for pid in self.cluster.ranks():
            os.kill(pid, signal.SIGKILL)
        text = "disappeared from storage; it starts again from the beginning"
        wait_for("the log to report it", lambda: text in self.cluster.muster("experiment", "logs", experiment), 60)
        self.assertIn(text, self.cluster.trial(experiment)["reason"])
        self.cluster.wait(experiment)
        self.assertEqual(self.cluster.trial(experiment)["restarts"], 1)

    def test_failure_of_an_earlier_start_does_not_fail_the_trial(self):
        script = "[ -e ../../../../once ] && exit 0\ntouch ../../../../once\necho 'too hot' >&2\nexit 1\n"
        experiment = self.submit("recovers", script, restarts=1)
        self.cluster.wait(experiment)
        trial = self.cluster.trial(experiment)["id"]
        said = self.cluster.muster("trial", "describe", trial)
        self.assertIn(f"An earlier start of trial {trial} failed (rank 0: exit 1: too hot)", said)
        self.assertNotIn(f"Trial {trial} failed", said)

    def test_signal_without_output(self):
        experiment = self.submit("signal", "kill -SEGV $$\n")
        self.cluster.wait(experiment, "ERROR")
        self.assertEqual(self.cluster.trial(experiment)["reason"], "rank 0: killed by SIGSEGV (segmentation fault)")

    def lines(self, experiment):
        return self.cluster.muster("experiment", "logs", experiment).splitlines()

    def test_log_begins_and_ends_with_the_words_that_scripts_look_for(self):
        for number, (script, state, words) in enumerate((
                ("echo last", "COMPLETED", ["resources exited successfully with a zero exit code"]),
                ("echo last; exit 3", "ERROR", ["resources failed with non-zero exit code",
                                                "container failed with non-zero exit code: 3"]),
                ("echo last; kill -SEGV $$", "ERROR", ["container failed with non-zero exit code: 139"]))):
            experiment = self.submit(f"words-{number}", script + "\n")
            self.cluster.wait(experiment, state)
            lines = wait_for("the end of the log", lambda: [line for line in self.lines(experiment)
                                                            if "exit code" in line] and self.lines(experiment))
            for word in words:
                self.assertIn(word, lines[-1])
            said = next(at for at, line in enumerate(lines) if line.endswith("last"))
            self.assertIn("New trial runner in container", lines[said - 1])
            self.assertIn("on agent agent-0", lines[said - 1])

    def test_policies_do_not_match_the_lines_of_the_agent(self):
        experiment = self.submit("policy", "exit 1\n", restarts=1,
                                 more="log_policies: [{pattern: 'exit code', action: cancel_retries}]\n")
        self.cluster.wait(experiment, "ERROR")
        self.assertEqual(len(self.cluster.rows("trial", "describe", self.cluster.trial(experiment)["id"])["starts"]), 2)

    def test_policies_say_what_they_do(self):
        experiment = self.submit("policies", "echo out of memory; echo ECC error; sleep 1; exit 1\n", restarts=2, more="""\
log_policies:
- {pattern: out of memory, action: cancel_retries}
- {pattern: ECC error, action: exclude_node}
""")
        self.cluster.wait(experiment, "ERROR")
        log = "\n".join(self.lines(experiment))
        self.assertIn("don't retry policy", log)
        self.assertIn("therefore will not schedule on agent-0", log)
        self.assertEqual(self.cluster.trial(experiment)["restarts"], 0)

    def test_restarts_wait_and_identical_failures_are_reported(self):
        experiment = self.submit("alike", "echo 'no such file: data.txt' >&2; exit 1\n", restarts=2)
        follow = self.cluster.run("experiment", "follow", experiment)
        self.assertIn("starts again in 1.0 s (restart 1 of 2)", follow.stdout)
        self.assertIn("it has failed 2 times in the same way, right after its start: rank 0: exit 1: "
                      "no such file: data.txt; starts again in 2.0 s (restart 2 of 2)", follow.stdout)
        self.assertIn("3 times in the same way, right after its start", follow.stderr)
        starts = self.cluster.rows("trial", "describe", self.cluster.trial(experiment)["id"])["starts"]
        self.assertEqual(len(starts), 3)
        self.assertEqual(self.cluster.trial(experiment)["restarts"], 2, "the last failure is not restarted")
        self.assertGreaterEqual(self.cluster.rows("experiment", "describe", experiment)["duration_s"], 3)

    def test_kill_ends_a_restart_delay(self):
        experiment = self.submit("waits", "exit 1\n", restarts=9)
        wait_for("a long delay", lambda: self.cluster.trial(experiment)["restarts"] >= 3)
        self.cluster.muster("experiment", "kill", experiment, "--wait", timeout=30)
        self.assertEqual(self.cluster.rows("experiment", "describe", experiment)["state"], "CANCELED")

    def wait_for_line(self, experiment, text):
        wait_for(f"the line {text}", lambda: any(line.endswith(text) for line in self.lines(experiment)))

    def test_program_that_never_polls_is_ended_at_once(self):
        for number, on_term in enumerate(("exit 0", "exit 7", "")):  # the last one ignores SIGTERM
            experiment = self.submit(f"never-polls-{number}", NEVER_POLLS % on_term)
            state = lambda: self.cluster.rows("experiment", "describe", experiment)["state"]
            self.wait_for_line(experiment, "works")
            self.cluster.muster("experiment", "pause", experiment)
            wait_for("the pause", lambda: state() == "PAUSED", 30)
            self.assertEqual(self.cluster.rows("agent", "list")[0]["used"], 0)
            self.assertIn("paused: the program has not polled for preemption yet, so it is ended: SIGTERM now, "
                          "SIGKILL after 3.0 s", "\n".join(self.lines(experiment)))
            self.assertIn("if it had not begun to train, nothing is lost", "\n".join(self.lines(experiment)))
            trial = self.cluster.trial(experiment)
            self.assertEqual((trial["restarts"], trial["state"]), (0, "PAUSED"))
            self.cluster.muster("experiment", "activate", experiment)
            wait_for("the second start", lambda: sum(line.endswith("works") for line in self.lines(experiment)) == 2)
            self.cluster.muster("experiment", "cancel", experiment)
            wait_for("the end", lambda: state() == "CANCELED", 30)

    def test_disabled_agent_ends_its_tasks(self):
        """A program that polls is ended, too, and starts again without using up a restart."""
        other = self.cluster.add_agent("other", 2)
        agents = lambda: {row["id"]: row for row in self.cluster.rows("agent", "list")}
        wait_for("the other agent", lambda: "other" in agents())
        experiment = self.submit("moves", POLLS_ONCE, slots=2)
        self.wait_for_line(experiment, "polled")
        used = next(name for name, row in agents().items() if row["used"])
        try:
            self.cluster.muster("login", "admin", "--password-file", self.cluster.folder / "password")
            self.cluster.muster("agent", "disable", used)
            wait_for("its move", lambda: agents()[({"other", "agent-0"} - {used}).pop()]["used"] == 2, 30)
            self.assertEqual(agents()[used]["used"], 0)
            self.assertIn(f"agent {used} was disabled: SIGTERM now, SIGKILL after 3.0 s", "\n".join(self.lines(experiment)))
            self.assertEqual(self.cluster.trial(experiment)["restarts"], 0)
        finally:
            self.cluster.muster("agent", "enable", used)
            self.cluster.muster("experiment", "kill", experiment, "--wait")
            self.cluster.muster("login", "determined", "--password-file", self.cluster.folder / "password")
            self.cluster.agents.remove(other)
            other.stop()

    def test_trial_that_does_not_exit_stays_pausing(self):
        experiment = self.submit("deaf", POLLS_ONCE, more="preemption_timeout: 10\n")
        state = lambda: self.cluster.rows("experiment", "describe", experiment)["state"]
        self.wait_for_line(experiment, "polled")
        said = self.cluster.muster("experiment", "pause", experiment)
        self.assertIn("It was asked to save its work and leave its slots; if it has not left in ", said)
        self.assertEqual(state(), "PAUSING")
        listed = {row["id"]: row["state"] for row in self.cluster.rows("experiment", "list")}
        self.assertEqual(listed[experiment], "PAUSING")
        self.assertEqual(self.cluster.trial(experiment)["state"], "PAUSING")
        wait_for("its end", lambda: state() == "PAUSED")
        self.assertEqual(self.cluster.rows("agent", "list")[0]["used"], 0)
        self.cluster.muster("experiment", "kill", experiment)

    def test_pause_of_a_program_that_has_not_polled(self):
        experiment = self.submit("unasked", "trap '' TERM; echo begun; while :; do sleep 0.1; done\n")
        self.wait_for_line(experiment, "begun")
        said = self.cluster.muster("experiment", "pause", experiment)
        self.assertIn("It is paused; its program has not polled for preemption, so it is ended", said)
        self.cluster.muster("experiment", "kill", experiment, "--wait", timeout=30)

    def test_second_agent_with_the_same_name_gets_nothing(self):
        experiment = self.submit("stays", "while [ ! -e ../../../../go ]; do sleep 0.1; done\n")
        state = lambda: self.cluster.rows("experiment", "describe", experiment)["state"]
        wait_for("it to run", lambda: state() == "RUNNING")
        first = self.cluster.agents[0]
        second = self.cluster.add_agent("agent-0", 2, flags=("--work-dir", self.cluster.folder / "second"))
        wait_for("the refusal", lambda: "another agent with the id agent-0 is connected, from 127.0.0.1" in first.tail(40))
        for _ in range(2):  # it starts again while the other agent waits for its name
            first.kill9()
            first.start()
        wait_for("its tasks to be known", lambda: "task recovered" in first.tail(40))
        self.assertEqual(state(), "RUNNING")
        (self.cluster.folder / "go").touch()
        self.cluster.wait(experiment)
        self.assertEqual(len(self.cluster.rows("trial", "describe", self.cluster.trial(experiment)["id"])["starts"]), 1)
        self.cluster.agents.remove(second)
        second.kill9()


if __name__ == "__main__":
    unittest.main()
