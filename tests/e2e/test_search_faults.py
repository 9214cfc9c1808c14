"""Searches among faults, with a real master and agent: trials that crash, reject their
hyperparameters and are preempted end in the right states; a search whose master is killed, or that
is killed and continued, has the same trials and the same winner as an undisturbed one.
"""

import base64
import json
import pathlib
import time
import unittest

import test_search
from cluster import PASSWORD, Cluster, wait_for
from test_api import Api

# The hyperparameter x decides how a trial behaves, so the test knows the right state of each trial.
CRASHES, CRASHES_ONCE, REFUSES, FAULTS_ONCE = 0.1, 0.2, 0.3, 0.35
PROGRAM = b"""\
import json, os, sys, time

x, run, journal = json.loads(os.environ["DET_HPARAMS"])["x"], int(os.environ["DET_TRIAL_RUN_ID"]), sys.argv[1]

def note(what):
    line = json.dumps({"what": what, "trial": int(os.environ["DET_TRIAL_ID"]), "run": run}) + "\\n"
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)

def call(method, path, body=None):
    import urllib.request
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["DET_MASTER"] + "/api/v1" + path, data, method=method)
    request.add_header("Grpc-Metadata-x-allocation-token", "Bearer " + os.environ["DET_SESSION_TOKEN"])
    return json.loads(urllib.request.urlopen(request, timeout=30).read() or b"{}")

note("begins")
crashed = sum(f'"trial": {os.environ["DET_TRIAL_ID"]},' in line and "crashes" in line for line in open(journal))
if x < 0.1 or (x < 0.2 and not crashed):
    note("crashes")
    sys.exit(3)
if x < 0.3 and x >= 0.2:
    call("POST", "/trials/%s/early_exit" % os.environ["DET_TRIAL_ID"], {"reason": "EXITED_REASON_INVALID_HP"})
    sys.exit(1)
if x < 0.35 and x >= 0.3 and not crashed:
    note("crashes")
    os.kill(os.getpid(), 11)
for _ in range(4):
    if call("GET", "/allocations/%s/signals/preemption?timeout_seconds=0" % os.environ["DET_ALLOCATION_ID"]).get("preempt"):
        note("leaves")
        call("POST", "/allocations/%s/signals/ack_preemption" % os.environ["DET_ALLOCATION_ID"], {})
        sys.exit(0)
    time.sleep(0.1)
note("ends")
"""
CONFIG = """\
name: {name}
entrypoint: {entrypoint}
resources: {{slots_per_trial: {slots}, priority: {priority}}}
searcher: {{metric: loss, {searcher}}}
hyperparameters: {{x: {{type: double, minval: 0, maxval: 1}}}}
max_restarts: 1
reproducibility: {{experiment_seed: 11}}
"""

SEARCHES = {  # each decides the same in every run: by itself, or because its trials run one by one
    "random": "name: random, max_trials: 10, max_concurrent_trials: 2",
    "async_halving": "name: async_halving, num_rungs: 2, divisor: 3, max_time: 6, max_trials: 10, max_concurrent_trials: 1",
    "hyperband": "name: hyperband, max_time: 8, divisor: 2, max_rungs: 3, max_concurrent_trials: 2",
    "tpe": "name: tpe, max_trials: 8, startup_trials: 3, max_concurrent_trials: 1",
    "adaptive_asha": "name: adaptive_asha, mode: aggressive, max_time: 8, divisor: 2, max_rungs: 3, max_trials: 8, "
                     "max_concurrent_trials: 1",
    "pbt": "name: pbt, population_size: 7, num_rounds: 2, length_per_round: {batches: 4}, max_concurrent_trials: 1, "
           "replace_function: {truncate_fraction: 0.3}",
}


class SearchFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(8,))
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        token = Api(cls.cluster.port).post("/auth/login", {"username": "determined", "password": PASSWORD})["token"]
        cls.user = Api(cls.cluster.port, token)

    def submit(self, config, files=()):
        return self.user.post("/experiments", {"config": config, "modelDefinition": list(files), "activate": True,
                                               "projectId": 1})["experiment"]["id"]

    def trials(self, number):
        trials = self.user.get(f"/experiments/{number}/trials?limit=1000")["trials"]
        return sorted(trials, key=lambda trial: trial["id"])

    def ended(self, number, state="STATE_COMPLETED", seconds=600):
        def look():
            seen = self.user.get(f"/experiments/{number}")["experiment"]
            return seen if seen["state"] in test_search.ENDED else None
        seen = wait_for(f"search {number} to end", look, seconds, 0.2)
        self.assertEqual(seen["state"], state)
        self.assertEqual(seen["liveAllocations"], 0)
        return seen

    # crashes, refusals, preemptions

    def test_two_hundred_trials(self):
        """200 trials go through 8 slots, which another experiment takes away five times."""
        journal = pathlib.Path("200.journal").resolve()
        journal.touch()
        files = [dict(test_search.FILES[0], content=base64.b64encode(PROGRAM).decode())]
        number = self.submit(CONFIG.format(name="many", entrypoint=f"python3 train.py {journal}", slots=1, priority=60,
                                           searcher="name: random, max_trials: 200, max_concurrent_trials: 16"), files)
        def completed():
            return sum(trial["state"] == "STATE_COMPLETED" for trial in self.trials(number))
        for count in (10, 40, 70, 100, 130):
            wait_for(f"{count} completed trials", lambda: completed() >= count, 300, 0.2)
            self.ended(self.submit(CONFIG.format(name="urgent", entrypoint="sleep 0.2", slots=8, priority=42,
                                                 searcher="name: single")))
        self.ended(number)
        self.check_states(self.trials(number), [json.loads(line) for line in journal.read_text().splitlines()])

    def check_states(self, trials, lines):
        refused = [trial for trial in trials if CRASHES_ONCE <= trial["hparams"]["x"] < REFUSES]
        self.assertEqual(len(trials) - len(refused), 200, "a refused point is replaced, a failed one is not")
        self.assertGreater(len(refused), 10)
        crashes = {}
        for line in lines:
            crashes[line["trial"]] = crashes.get(line["trial"], 0) + (line["what"] == "crashes")
        for trial in trials:
            x = trial["hparams"]["x"]
            right = "STATE_ERROR" if x < CRASHES or CRASHES_ONCE <= x < REFUSES else "STATE_COMPLETED"
            self.assertEqual(trial["state"], right, trial)
            # A crash does not count as a failure if the trial was to leave at that moment.
            if x < CRASHES:
                self.assertEqual(trial["restarts"], 1, trial)
                self.assertGreaterEqual(crashes[trial["id"]], 2, trial)
            elif x < CRASHES_ONCE or REFUSES <= x < FAULTS_ONCE:
                self.assertEqual(crashes[trial["id"]], 1, trial)
                self.assertLessEqual(trial["restarts"], 1, trial)
            else:
                self.assertEqual((crashes[trial["id"]], trial["restarts"]), (0, 0), trial)
        starts = [(line["trial"], line["run"]) for line in lines if line["what"] == "begins"]
        self.assertEqual(len(starts), len(set(starts)), "no run started twice")
        again = {line["trial"] for line in lines if line["what"] == "begins" and line["run"] > 1}
        self.assertGreater(len(again - {trial for trial, times in crashes.items() if times}), 0, "some were preempted")
        self.assertEqual({line["trial"] for line in lines if line["what"] == "ends"},
                         {trial["id"] for trial in trials if trial["state"] == "STATE_COMPLETED"})

    # the same trials and the same winner

    def start(self, searcher):
        journal = pathlib.Path(f"{time.monotonic_ns()}.journal").resolve()
        return self.submit(test_search.CONFIG.format(
            searcher=searcher, steps=8, more="", resources="{slots_per_trial: 1}", restarts=0, timeout=60,
            journal=journal), test_search.FILES)

    def result(self, number):
        """The trials, their rungs, and the winner, by the order of the trials' creation."""
        seen = self.ended(number)
        trials = self.trials(number)
        place = {trial["id"]: at for at, trial in enumerate(trials)}
        brackets = self.user.get(f"/experiments/{number}/search")["brackets"]
        return {
            "trials": [(trial["hparams"]["x"], trial["state"], trial["totalBatchesProcessed"]) for trial in trials],
            "rungs": [[(rung["time"], [(place[mark["trialId"]], mark["metric"]) for mark in rung["marks"]])
                       for rung in bracket["rungs"]] for bracket in brackets],
            "winner": (place[seen["bestTrialId"]], seen["bestTrialSearcherMetric"]),
        }

    def undisturbed(self):
        if not hasattr(type(self), "expected"):
            running = {name: self.start(searcher) for name, searcher in SEARCHES.items()}
            type(self).expected = {name: self.result(number) for name, number in running.items()}
            self.assertGreater(len(type(self).expected["pbt"]["trials"]), 7, "a member was copied")
            self.assertEqual(len(type(self).expected["adaptive_asha"]["rungs"]), 1, "one bracket: one order of arrival")
        return type(self).expected

    def test_master_is_killed_ten_times(self):
        expected = self.undisturbed()
        running = {name: self.start(searcher) for name, searcher in SEARCHES.items()}
        def ended():
            return sum(trial["state"] in test_search.ENDED for number in running.values() for trial in self.trials(number))
        for kill in range(10):
            wait_for(f"{2 * kill + 1} ended trials", lambda: ended() > 2 * kill, 120)
            time.sleep(0.07 * kill)  # another moment in the life of a trial each time
            self.cluster.master.kill9()
            self.cluster.start_master()
        for name, number in running.items():
            with self.subTest(searcher=name):
                self.assertEqual(self.result(number), expected[name])
                self.assertEqual({trial["restarts"] for trial in self.trials(number)}, {0})

    def test_killed_and_continued(self):
        """A search that a user kills three times and continues goes on as if it had not been."""
        expected = self.undisturbed()
        for name, searcher in SEARCHES.items():
            with self.subTest(searcher=name):
                seen = self.result(self.killed_and_continued(searcher))
                for key in ("rungs", "winner"):
                    self.assertEqual(seen[key], expected[name][key])
                for trial, right in zip(seen["trials"], expected[name]["trials"], strict=True):
                    self.assertEqual(trial[0], right[0])
                    if trial[1] != right[1]:  # killed after the search had stopped it, so it need not run again
                        self.assertEqual(trial[1], "STATE_CANCELED")
                        self.assertGreaterEqual(trial[2], right[2])

    def killed_and_continued(self, searcher):
        """Returns a search that was killed and continued three times. On a busy machine a search may end before a kill
        arrives; then it does not count."""
        for _ in range(10):
            number = self.start(searcher)
            if all(self.kill_and_continue(number, times) for times in (2, 4, 6)):
                return number
        self.fail("ten searches ended before they were killed three times")

    def kill_and_continue(self, number, times):
        """Kills a search when so many of its trials have completed, and continues it. False: it ended before."""
        wait_for(f"{times} trials to end", lambda: sum(
            trial["state"] == "STATE_COMPLETED" for trial in self.trials(number)) >= times, 120)
        self.user.post(f"/experiments/{number}/kill")
        wait_for(f"search {number} to end", lambda: self.state(number) in test_search.ENDED, 600)
        if self.state(number) == "STATE_COMPLETED":
            return False
        self.ended(number, "STATE_CANCELED")
        self.cluster.muster("experiment", "continue", number)
        return True

    def state(self, number):
        return self.user.get(f"/experiments/{number}")["experiment"]["state"]


if __name__ == "__main__":
    unittest.main(verbosity=2)
