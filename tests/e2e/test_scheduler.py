"""Sharing of slots with real daemons: order, preemption, elastic trials and the messages to users.
A preempted trial continues later and ends with the weights of an undisturbed run."""

import itertools
import json
import os
import pathlib
import time
import unittest
import urllib.request

from cluster import POLL, Cluster, wait_for, write_corpus

# Builds with sanitizers are slow and need fewer steps.
STEPS = int(os.environ.get("MUSTER_TRAINING_STEPS", "1500"))
SLOTS = 4  # two agents with two slots each

# A victim with a low priority of its own: an experiment submitted without a priority goes before
# it.
TRAINING = f"""\
name: victim
resources: {{slots_per_trial: {SLOTS}, priority: 60}}
searcher: {{name: single, metric: validation_loss}}
max_restarts: 0
reproducibility: {{experiment_seed: 5}}
trainer:
  model: {{family: gpt, layers: 1, heads: 2, width: 32, context: 32, dropout: 0.1}}
  data: {{format: bytes, path: text.txt, validation_fraction: 0.02}}
  global_batch_size: 12
  micro_batch_size: 1
  steps: {STEPS}
  optimizer: {{name: adamw, learning_rate: 3.0e-3}}
  clip_norm: 1.0
  checkpoint_every: {STEPS}
  report_every: 5
"""

# Holds its slots until its gate file exists.
PROGRAM = """\
name: holder
entrypoint: sh hold.sh
searcher: {name: single, metric: none}
max_restarts: 0
preemption_timeout: 1
"""


class SlotSharing(unittest.TestCase):
    gates = itertools.count()

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path("training").resolve()
        cls.folder.mkdir()
        write_corpus(cls.folder / "text.txt")
        cls.training, cls.program = pathlib.Path("training.yaml").resolve(), pathlib.Path("hold.yaml").resolve()
        cls.training.write_text(TRAINING)
        cls.program.write_text(PROGRAM)
        cls.cluster = Cluster("cluster", slots=(2, 2),
                              master_flags=("--preempt-after", 0, "--grow-after", 0)).__enter__()
        cls.admin_home = cls.cluster.folder / "admin"
        cls.as_admin("login", "admin", "--password-file", cls.cluster.folder / "password")
        experiment = cls.train()
        cls.cluster.wait(experiment)
        cls.undisturbed = cls.cluster.digest(experiment)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def tearDown(self):
        for row in self.cluster.rows("experiment", "list", "--state", "active"):
            self.cluster.muster("experiment", "kill", row["id"], "--wait")
        for agent in self.cluster.rows("agent", "list"):
            if not agent["enabled"]:
                self.as_admin("agent", "enable", agent["id"])
        wait_for("all slots to be free", lambda: not self.held_slots())

    # submissions

    @staticmethod
    def overrides(words):
        return [word for override in words for word in ("--config", override)]

    @classmethod
    def train(cls, *overrides, flags=()):
        return cls.cluster.create(cls.training, cls.folder, *cls.overrides(overrides), *flags)

    def hold(self, slots, *overrides, flags=(), first=""):
        """Submits an experiment that runs the lines `first` and holds `slots` until its gate is
        opened; returns (id, gate)."""
        gate = pathlib.Path(f"gate-{next(self.gates)}").resolve()
        folder = pathlib.Path(f"{gate.name}.files")
        folder.mkdir()
        (folder / "hold.sh").write_text(first + f"until [ -e {gate} ]; do sleep 0.05; done\n")
        words = self.overrides([f"resources.slots_per_trial={slots}", *overrides])
        return self.cluster.create(self.program, folder, *words, *flags), gate

    def in_mid_training(self, experiment):
        wait_for("training reports", lambda: self.trained(experiment) > STEPS // 10)

    # observations

    @classmethod
    def as_admin(cls, *arguments):
        home = cls.cluster.env["XDG_CONFIG_HOME"]
        cls.cluster.env["XDG_CONFIG_HOME"] = str(cls.admin_home)
        try:
            return cls.cluster.muster(*arguments)
        finally:
            cls.cluster.env["XDG_CONFIG_HOME"] = home

    def state(self, experiment):
        return self.cluster.rows("experiment", "describe", experiment)["state"]

    def trained(self, experiment):
        trials = self.cluster.rows("trial", "list", experiment)
        return trials[0]["steps"] if trials else 0

    def queue(self):
        return {int(row["id"]): row for row in self.cluster.rows("queue", "list")}

    def held(self, experiment):
        row = self.queue().get(experiment)
        return row["held"] if row else 0

    def held_slots(self):
        return sum(row["used"] for row in self.cluster.rows("agent", "list"))

    def starts(self, experiment):
        trial = self.cluster.trial(experiment)["id"]
        return self.cluster.rows("trial", "describe", trial)["starts"]

    def why(self, experiment):
        """Returns the wait reason of the first waiting trial, or {} if none waits."""
        waiting = self.cluster.rows("queue", "why", experiment)["waiting"]
        return waiting[0] if waiting else {}

    def wait_for_state(self, experiment, state):
        wait_for(f"experiment {experiment} to be {state}", lambda: self.state(experiment) == state)

    def wait_for_slots(self, experiment, slots):
        wait_for(f"experiment {experiment} to hold {slots} slots",
                 lambda: self.held(experiment) == slots)

    def wait_for_code(self, experiment, code):
        return wait_for(f"experiment {experiment} to wait for {code}",
                        lambda: (why := self.why(experiment)).get("code") == code and why)

    def explained(self, experiment, *texts):
        shown = self.cluster.muster("queue", "why", experiment)
        for text in texts:
            self.assertIn(text, shown)

    def assert_undisturbed(self, experiment):
        self.cluster.wait(experiment)
        self.assertEqual(self.cluster.digest(experiment), self.undisturbed)
        self.assertEqual(self.cluster.trial(experiment)["restarts"], 0)

    # priority

    def test_higher_priority_preempts(self):
        victim = self.train()
        self.in_mid_training(victim)
        urgent, gate = self.hold(SLOTS)
        self.wait_for_slots(urgent, SLOTS)
        why = self.wait_for_code(victim, "BUSY")
        self.assertEqual((why["needs"], why["free"], why["total"]), (SLOTS, 0, SLOTS))
        self.explained(victim, f"needs {SLOTS} slots", f"muster queue move {victim} --priority N")
        self.explained(urgent, f"runs on {SLOTS} slots")
        self.assertLess(self.queue()[urgent]["place"], self.queue()[victim]["place"])
        stopped_at = self.trained(victim)
        gate.touch()
        self.cluster.wait(urgent)
        self.assert_undisturbed(victim)
        self.assertGreater(stopped_at, 0)
        starts = self.starts(victim)
        self.assertEqual(len(starts), 2, starts)
        self.assertIn("priority", starts[0]["reason"])
        self.explained(victim, "has ended as COMPLETED")

    def test_master_is_killed_while_slots_are_handed_over(self):
        victim = self.train()
        self.in_mid_training(victim)
        urgent, gate = self.hold(SLOTS)
        self.cluster.master.kill9()
        time.sleep(0.5)
        self.cluster.start_master()
        self.wait_for_slots(urgent, SLOTS)
        gate.touch()
        self.cluster.wait(urgent)
        self.assert_undisturbed(victim)

    def test_scheduler_waits_for_slow_preempted_trials(self):
        victim, _ = self.hold(SLOTS, "resources.priority=60", "preemption_timeout=3",
                              first=POLL + "echo polled\n")
        wait_for("its poll", lambda: "polled" in self.cluster.muster("experiment", "logs", victim))
        urgent, _ = self.hold(SLOTS)
        why = self.wait_for_code(urgent, "DRAINING")
        self.assertEqual(why["leaving"], 1)
        self.explained(urgent, "saved their work; 1 still to leave", "slots are being released for it")
        self.explained(victim, f"makes room for experiment {urgent}")
        self.assertEqual(self.held(victim), SLOTS)
        self.wait_for_slots(urgent, SLOTS)
        self.wait_for_code(victim, "BUSY")

    # elastic

    def test_elastic_trial_shrinks_and_grows(self):
        elastic = self.train("resources.min_slots=1")
        self.in_mid_training(elastic)
        self.assertEqual(self.held(elastic), SLOTS)
        rigid, gate = self.hold(2)
        self.wait_for_slots(rigid, 2)
        self.wait_for_slots(elastic, 2)
        self.explained(elastic, f"runs on 2 slots of the {SLOTS}")
        gate.touch()
        self.cluster.wait(rigid)
        self.assert_undisturbed(elastic)
        self.assertEqual([start["slots"] for start in self.starts(elastic)], [SLOTS, 2, SLOTS])

    # resizing

    def test_resize(self):
        """A running training continues with other numbers of slots, through a kill of the master, a
        pause and a range of slots, and ends with the same weights."""
        experiment = self.train("resources.slots_per_trial=2")
        self.in_mid_training(experiment)
        said = self.cluster.muster("experiment", "resize", experiment, "--slots", 3)
        self.assertIn("each trial uses 3 slots; a trial that runs with another number saves its work", said)
        self.cluster.master.kill9()
        self.cluster.start_master()
        self.wait_for_slots(experiment, 3)
        self.cluster.muster("experiment", "pause", experiment, "--wait")
        warned = self.cluster.run("experiment", "resize", experiment, "--slots", SLOTS + 1)
        self.assertIn(f"warning: a trial needs {SLOTS + 1} slots, and resource pool", warned.stderr)
        said = self.cluster.muster("experiment", "resize", experiment, "--slots", 1)
        self.assertIn("each trial uses 1 slot from its next activation on", said)
        self.cluster.muster("experiment", "activate", experiment)
        self.wait_for_slots(experiment, 1)
        self.cluster.muster("experiment", "resize", experiment, "--slots", SLOTS, "--min-slots", 2)
        self.wait_for_slots(experiment, SLOTS)
        self.assert_undisturbed(experiment)
        self.assertEqual([start["slots"] for start in self.starts(experiment)], [2, 3, 1, SLOTS])
        self.assertIn("its experiment was resized", self.starts(experiment)[0]["reason"])
        refused = self.cluster.run("experiment", "resize", experiment, "--slots", 2)
        self.assertIn("has ended", refused.stderr)

    def test_resize_of_a_waiting_experiment(self):
        waiting, gate = self.hold(SLOTS + 1)
        self.wait_for_code(waiting, "OVER_POOL")
        self.cluster.muster("experiment", "resize", waiting, "--slots", 2)
        self.wait_for_slots(waiting, 2)
        for words, part in ((["--slots", 2, "--min-slots", 3], "--min-slots"), (["--slots", 0], "--slots")):
            refused = self.cluster.run("experiment", "resize", waiting, *words)
            self.assertEqual(refused.returncode, 2, refused.stdout + refused.stderr)
            self.assertIn(part, refused.stderr)
        gate.touch()
        self.cluster.wait(waiting)

    # queue moves

    def test_move_ahead(self):
        first, gate = self.hold(SLOTS)
        self.wait_for_slots(first, SLOTS)
        waiting = [self.hold(SLOTS)[0] for _ in range(3)]
        self.assertEqual([row for row in self.queue() if row in waiting], waiting)
        self.as_admin("queue", "move", waiting[2], "--ahead-of", waiting[0])
        moved = [waiting[2], waiting[0], waiting[1]]
        self.assertEqual([row for row in self.queue() if row in waiting], moved)
        self.assertEqual([self.why(row)["ahead"] for row in moved], [0, 1, 2])
        gate.touch()
        self.wait_for_slots(moved[0], SLOTS)
        self.assertEqual(self.held(moved[1]), 0)
        refused = self.cluster.run("queue", "move", moved[1], "--ahead-of", 999)
        self.assertEqual(refused.returncode, 3, refused.stderr)
        self.assertIn("--ahead-of", refused.stderr)

    def test_invalid_moves(self):
        first, _ = self.hold(2)
        second, _ = self.hold(2)
        for code, words in ((2, ["--max-slots", 1]), (2, ["--weight", -1]), (2, ["--ahead-of", first]),
                            (3, ["--behind", 999]), (2, ["--pool", "nowhere"])):
            refused = self.cluster.run("queue", "move", first, *words)
            self.assertEqual(refused.returncode, code, refused.stdout + refused.stderr)
            self.assertIn(words[0], refused.stderr)
        self.cluster.muster("experiment", "kill", second, "--wait")
        refused = self.cluster.run("queue", "move", first, "--behind", second)
        self.assertIn("has ended", refused.stderr)

    # agents

    def test_disabled_agent(self):
        wide, gate = self.hold(2, "resources.is_single_node=true")
        self.wait_for_slots(wide, 2)
        for agent in ("agent-0", "agent-1"):
            self.as_admin("agent", "disable", agent, "--drain")
        waits, _ = self.hold(1)
        self.wait_for_code(waits, "NO_AGENTS")
        self.explained(waits, "muster agent enable agent-")
        self.assertEqual(self.held(wide), 2, "running tasks continue")
        gate.touch()
        self.cluster.wait(wide)
        self.as_admin("agent", "enable", "agent-1")
        self.wait_for_slots(waits, 1)

    def test_disabled_agent_ends_its_tasks(self):
        experiment = self.train("resources.slots_per_trial=2", "resources.is_single_node=true")
        self.in_mid_training(experiment)
        before = self.starts(experiment)[0]["agents"]
        self.as_admin("agent", "disable", before[0])
        self.assert_undisturbed(experiment)
        after = self.starts(experiment)
        self.assertEqual(len(after), 2, after)
        self.assertNotEqual(after[1]["agents"], before)

    # requests that cannot be met

    def test_impossible_requests_are_refused_at_once(self):
        large, _ = self.hold(SLOTS + 1)
        self.wait_for_code(large, "OVER_POOL")
        self.explained(large, f"asks for {SLOTS + 1} slots", f"experiment resize {large} --slots {SLOTS} ")
        tall, _ = self.hold(SLOTS, "resources.is_single_node=true")
        self.wait_for_code(tall, "OVER_AGENT")
        self.explained(tall, "on one machine")
        small, _ = self.hold(SLOTS)
        self.wait_for_slots(small, SLOTS)  # they block nobody
        for wrong in ("resources.priority=200", "resources.resource_pool=nowhere",
                      "resources.min_slots=2", "resources.max_slots=-1"):
            done = self.cluster.run("experiment", "create", self.program, *self.overrides([wrong]))
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(wrong.partition("=")[0], done.stderr)

    # teams

    def admin_call(self, path, body):
        """Returns the answer to an administrator's POST."""
        saved = json.loads((self.admin_home / "muster" / "credentials.json").read_text())
        request = urllib.request.Request(
            f"{self.cluster.url}/api/v1/{path}", json.dumps(body).encode(), method="POST",
            headers={"Authorization": f"Bearer {saved['tokens'][self.cluster.url]}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def team(self, name, weight):
        """Creates a workspace of this weight; returns (its id, its project's id)."""
        self.as_admin("team", "create", name, "--weight", weight)
        workspace = next(row["id"] for row in self.cluster.rows("team", "list") if row["name"] == name)
        project = self.admin_call(f"workspaces/{workspace}/projects", {"name": name})["project"]["id"]
        return workspace, project

    def shares(self):
        """Returns the line of each workspace by name."""
        return {row["workspace"]: row for row in self.cluster.rows("team", "shares") if not row["user"]}

    def test_elastic_trial_shrinks_for_another_team(self):
        _, small = self.team("elastic", 1)
        _, large = self.team("rigid", 1)
        elastic = self.train("resources.min_slots=1", flags=("--project-id", small))
        self.in_mid_training(elastic)
        rigid, gate = self.hold(2, flags=("--project-id", large))
        self.wait_for_slots(rigid, 2)
        self.wait_for_slots(elastic, 2)
        gate.touch()
        self.assert_undisturbed(elastic)
        self.assertEqual([start["slots"] for start in self.starts(elastic)], [SLOTS, 2, SLOTS])

    def test_team_below_its_share_preempts(self):
        _, small = self.team("small", 1)
        _, large = self.team("large", 3)
        held = [self.hold(1, flags=("--project-id", small))[0] for _ in range(SLOTS)]
        wait_for("the small team to hold all", lambda: self.held_slots() == SLOTS)
        asked = [self.hold(1, flags=("--project-id", large))[0] for _ in range(SLOTS)]
        wait_for("the large team to hold its share",
                 lambda: sum(self.held(experiment) for experiment in asked) == SLOTS - 1)
        time.sleep(1)
        self.assertEqual(sum(self.held(experiment) for experiment in held), 1, "and no more")
        shares = self.shares()
        self.assertEqual((shares["small"]["entitled"], shares["small"]["used"]), (1, 1))
        self.assertEqual((shares["large"]["entitled"], shares["large"]["used"]), (3, 3))
        waits = next(experiment for experiment in asked if not self.held(experiment))
        self.explained(waits, "large is entitled to 3 slots, holds 3, wants 4")


if __name__ == "__main__":
    unittest.main(verbosity=2)
