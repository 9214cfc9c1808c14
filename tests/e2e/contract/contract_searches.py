"""Searches: the values of trials, and requests for slots that no cluster has."""

import json

from cluster import wait_for
from contract import Contract, EXPERIMENT, FILES

RANGES = """\
hyperparameters:
  layers: {type: int, minval: 1, maxval: 1000}
  rate: {type: log, base: 10, minval: -4, maxval: -1}
  kind: {type: categorical, vals: [a, b, c]}
  size: 64
reproducibility: {experiment_seed: 1234}
"""


PREVIEW = "method metric smallerIsBetter unit seed seedGiven slotsPerTrial concurrent trials complete brackets"


class Searches(Contract):
    def edited(self, *changes):
        """The configuration with texts replaced: (old, new), .."""
        config = self.config
        for old, new in changes:
            self.assertIn(old, config)
            config = config.replace(old, new)
        return config

    def trials_of(self, experiment):
        return self.user.get(f"/experiments/{experiment}/trials", "trials:[Trial]")["trials"]

    def running_of(self, experiment, count):
        """The tasks of an experiment, by trial; None unless `count` run."""
        with self.agent.changed:
            tasks = [task for task in self.agent.running.values() if task["experimentId"] == experiment]
        return sorted(tasks, key=lambda task: task["trialId"]) if len(tasks) == count else None

    def test_single_with_ranges(self):
        """`single` with ranges is a random search with one trial."""
        config = self.edited(("hyperparameters: {width: 64}\n", RANGES))
        random = config.replace("name: single", "name: random, max_trials: 1")
        drawn = []
        for text in (config, config, random, config.replace("1234", "1235")):
            trials = self.trials_of(self.create(config=text, activate=False))
            self.assertEqual(len(trials), 1)
            drawn.append(trials[0]["hparams"])
        self.assertTrue(1 <= drawn[0]["layers"] <= 1000 and 1e-4 <= drawn[0]["rate"] <= 0.1, drawn)
        self.assertIn(drawn[0]["kind"], "abc")
        self.assertEqual((drawn[0]["size"], drawn[1], drawn[2]), (64, drawn[0], drawn[0]))
        self.assertNotEqual(drawn[3], drawn[0])

    def test_more_slots_than_there_are(self):
        """Agents may join, so it waits; but not for what no agents could give."""
        for needs in ("slots_per_trial: 100", "slots_per_trial: 8, is_single_node: true"):
            made = self.user.post("/experiments", {
                "config": self.edited(("slots_per_trial: 1", needs)), "modelDefinition": FILES, "activate": False},
                f"{EXPERIMENT} config warnings?")
            self.assertEqual(made["warnings"], ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"], needs)
        for needs in ("slots_per_trial: 8193", "slots_per_trial: 1025, is_single_node: true"):
            refused = self.user.call("POST", "/experiments", {
                "config": self.edited(("slots_per_trial: 1", needs)), "modelDefinition": FILES}, expect=400)
            self.assertIn("request unfulfillable", refused["message"], needs)
        for path in ("/commands", "/generic-tasks"):
            for slots, single in ((100, False), (8193, False), (1025, True)):
                task = {"entrypoint": ["true"], "resources": {"slots": slots, "is_single_node": single}}
                body = {"config": task if path == "/commands" else json.dumps(task)}
                if slots == 100:
                    made = self.user.post(path, body, "warnings?")
                    self.assertEqual(made["warnings"], ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"], path)
                else:
                    self.assertIn("request unfulfillable", self.user.call("POST", path, body, expect=400)["message"])

    def test_preview(self):
        """What a search would do: the same trials as the search that is then created."""
        config = self.edited(("name: single", "name: adaptive_asha, max_trials: 9, max_time: 64"),
                             ("hyperparameters: {width: 64}\n", RANGES))
        shown = self.user.post("/experiments/preview", {"config": config}, f"{PREVIEW} length mostTime typicalTime")
        self.assertEqual((len(shown["trials"]), shown["complete"], shown["mostTime"]), (9, True, 9 * 64))
        created = self.trials_of(self.create(config=config, activate=False))
        self.assertEqual([trial["hparams"] for trial in created],
                         [trial["hparams"] for trial in shown["trials"]][:len(created)])
        fork = self.user.post("/experiments/preview", {"parentId": created[0]["experimentId"]}, PREVIEW)
        self.assertEqual(fork["trials"], shown["trials"])
        refused = self.user.call("POST", "/experiments/preview", {"config": "name: x\n"}, expect=400)
        self.assertIn("searcher", refused["message"])

    def test_preview_at_its_limit(self):
        """It shows at most 1,000 trials, and says whether these are all."""
        for trials in (1000, 1001):
            config = self.edited(("name: single", f"name: random, max_trials: {trials}"),
                                 ("hyperparameters: {width: 64}\n", RANGES))
            shown = self.user.post("/experiments/preview", {"config": config}, PREVIEW)
            self.assertEqual((len(shown["trials"]), shown["complete"]), (1000, trials == 1000))

    def test_preview_of_trials_that_depend_on_results(self):
        config = self.edited(("name: single", "name: tpe, max_trials: 9, startup_trials: 4, max_concurrent_trials: 2"),
                             ("hyperparameters: {width: 64}\n", RANGES))
        trials = self.user.post("/experiments/preview", {"config": config}, PREVIEW)["trials"]
        self.assertEqual([trial["certain"] for trial in trials], 5 * [True] + 4 * [False])
        for trial in trials:
            self.assertEqual(("hparams" in trial, "seed" in trial), (trial["certain"], trial["certain"]))

    def test_continue_a_search(self):
        """The trials that have not completed run again; the others stay as they are."""
        config = self.edited(("name: single", "name: random, max_trials: 3, max_concurrent_trials: 3"),
                             ("hyperparameters: {width: 64}\n", RANGES))
        experiment = self.create(config=config)
        tasks = wait_for("three trials", lambda: self.running_of(experiment, 3), 30)
        self.agent.end(tasks[0])
        wait_for("the first trial", lambda: self.trials_of(experiment)[0]["state"] == "STATE_COMPLETED", 30)
        before = self.trials_of(experiment)
        self.kill(experiment)
        self.assertEqual([trial["state"] for trial in self.trials_of(experiment)],
                         ["STATE_COMPLETED", "STATE_CANCELED", "STATE_CANCELED"])
        refused = self.user.call("POST", "/experiments/continue", {"id": experiment, "overrideConfig": "searcher: {metric: x}"},
                                 expect=400)
        self.assertIn("overrideConfig", refused["message"])
        self.user.post("/experiments/continue", {"id": experiment, "overrideConfig": "{}"}, EXPERIMENT)
        again = wait_for("two trials", lambda: self.running_of(experiment, 2), 30)
        self.assertEqual([task["trialId"] for task in again], [trial["id"] for trial in before[1:]])
        self.assertEqual([trial["hparams"] for trial in self.trials_of(experiment)],
                         [trial["hparams"] for trial in before])
        for task in again:
            self.agent.end(task)
        self.wait_for_state(experiment, "STATE_COMPLETED")
        refused = self.user.call("POST", "/experiments/continue", {"id": experiment}, expect=400)
        self.assertIn("has been completed", refused["message"])
        self.user.post("/experiments/continue", {"id": experiment, "overrideConfig": "searcher: {max_trials: 4}"}, EXPERIMENT)
        self.agent.end(wait_for("the fourth trial", lambda: self.running_of(experiment, 1), 30)[0])
        self.wait_for_state(experiment, "STATE_COMPLETED")
        experiment = self.create(config=config.replace("name: random", "name: async_halving, num_rungs: 1, max_time: 3"))
        wait_for("three trials", lambda: self.running_of(experiment, 3), 30)
        self.kill(experiment)
        self.user.post("/experiments/continue", {"id": experiment}, EXPERIMENT)
        for task in wait_for("three trials", lambda: self.running_of(experiment, 3), 30):
            self.agent.end(task)
        self.wait_for_state(experiment, "STATE_COMPLETED")
