"""Calls on experiments beyond a simple run, with a real master and agent: unmanaged runs of the
Core API, forks, continuations, moves, labels, files, actions on many experiments; a repeated
call does nothing twice.
"""

import base64
import json
import time
import unittest

from cluster import PASSWORD, Cluster, wait_for
from test_api import Api

PROGRAM = b"""\
import json, os, pathlib, urllib.request, uuid

def post(path, body):
    request = urllib.request.Request(os.environ["DET_MASTER"] + "/api/v1" + path, json.dumps(body).encode(), method="POST")
    request.add_header("Grpc-Metadata-x-allocation-token", "Bearer " + os.environ["DET_SESSION_TOKEN"])
    return urllib.request.urlopen(request).read()

trial, run = int(os.environ["DET_TRIAL_ID"]), int(os.environ["DET_TRIAL_RUN_ID"])
first = int(os.environ["DET_STEPS_COMPLETED"])
hparams = json.loads(os.environ["DET_HPARAMS"])
print("begins at", first, "from", os.environ.get("DET_LATEST_CHECKPOINT"), "with", hparams["lr"], flush=True)
for steps in range(first + 1, first + 4):
    post(f"/trials/{trial}/metrics", {"group": "validation", "metrics": {
        "trial_id": trial, "trial_run_id": run, "steps_completed": steps,
        "metrics": {"avg_metrics": {"loss": 1 / steps}}}})
post(f"/runs/{trial}/metadata", {"metadata": {"lr": hparams["lr"]}})
name = str(uuid.uuid4())
folder = pathlib.Path(json.loads(os.environ["DET_EXPERIMENT_CONFIG"])["checkpoint_storage"]["container_path"]) / name
folder.mkdir(parents=True)
(folder / "state").write_text(str(steps))
post("/checkpoints", {"uuid": name, "taskId": os.environ["DET_TASK_ID"], "allocationId": os.environ["DET_ALLOCATION_ID"],
                      "metadata": {"steps_completed": steps}, "resources": {"state": "1"}, "state": "STATE_COMPLETED"})
"""

CONFIG = """\
name: many ways
labels: [one]
entrypoint: python3 code/train.py
resources: {slots_per_trial: 1}
searcher: {name: single, metric: loss}
hyperparameters: {lr: 0.5}
max_restarts: 0
"""

FILES = [{"path": "code", "type": 53, "content": "", "mode": 493, "mtime": "1700000000", "uid": 0, "gid": 0},
         {"path": "code/train.py", "type": 48, "content": base64.b64encode(PROGRAM).decode(), "mode": 420,
          "mtime": "1700000000", "uid": 0, "gid": 0}]

# The calls of det's core_v2 for a run outside of the cluster.
DETACHED = """\
checkpoint_storage:
  host_path: /tmp/detached
  type: shared_fs
data: null
description: null
labels: null
name: unmanaged-1
project: null
searcher:
  max_length: 100000000
  metric: loss
  name: single
workspace: null
"""


class ExperimentsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(1,))
        cls.cluster.__enter__()
        cls.admin = cls.login("admin")
        cls.user = cls.login("determined")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    @classmethod
    def login(cls, name):
        caller = Api(cls.cluster.port)
        token = caller.post("/auth/login", {"username": name, "password": PASSWORD, "isHashed": False})["token"]
        return Api(cls.cluster.port, token)

    def create(self, **body):
        return self.user.post("/experiments", {"config": CONFIG, "modelDefinition": FILES, "activate": True,
                                               "projectId": 1, **body})["experiment"]["id"]

    def ended(self, experiment, state="STATE_COMPLETED"):
        def look():
            seen = self.user.get(f"/experiments/{experiment}")["experiment"]
            return seen if seen["state"] in ("STATE_COMPLETED", "STATE_ERROR", "STATE_CANCELED") else None
        seen = wait_for(f"experiment {experiment} to end", look, 60)
        self.assertEqual(seen["state"], state, self.cluster.run("experiment", "logs", experiment).stdout)
        return seen

    def trial(self, experiment):
        return self.user.get(f"/experiments/{experiment}/trials")["trials"][0]

    def log(self, trial):
        return "".join(line["message"] for line in self.user.lines(f"/trials/{trial}/logs"))

    def status(self, api, method, path, body=None):
        return api.call(method, "/api/v1" + path, body)[0]

    # The calls of core_v2.init() to close(), in their order and with their bodies.

    def detached_run(self, put):
        user = self.user
        experiment = user.ok("PUT", "/experiments/by-external-id/" + put, {
            "config": DETACHED, "unmanaged": True, "activate": None, "modelDefinition": None, "parentId": None,
            "projectId": None, "template": None, "validateOnly": None})["experiment"]["id"]
        trial = user.ok("PUT", "/trials", {
            "createTrialRequest": {"experimentId": experiment, "hparams": {"lr": 1}, "unmanaged": True},
            "externalTrialId": "t"})["trial"]
        self.assertIn("clusterId", user.get("/master"))
        start = user.post(f"/trials/{trial['id']}/start", {"trialId": trial["id"], "resume": True})
        user.post("/runs/start", {"runId": trial["id"], "checkpointStorage": {"type": "shared_fs", "host_path": "/x"}})
        return experiment, trial, start

    def beat(self, trial, state=None):
        body = {"trialId": trial, "state": state} if state else {"trialId": trial}
        return self.user.ok("PATCH", f"/trials/{trial}", body)["trial"]

    def report(self, trial, run, steps, loss, group="validation"):
        self.user.post(f"/trials/{trial}/metrics", {"group": group, "metrics": {
            "trialId": trial, "trialRunId": run, "stepsCompleted": steps, "reportTime": "2026-01-01T00:00:00+00:00",
            "metrics": {"avgMetrics": {"loss": loss}, "batchMetrics": None}}})

    def trial_of(self, experiment, name):
        return self.user.ok("PUT", "/trials", {
            "createTrialRequest": {"experimentId": experiment, "hparams": {}, "unmanaged": True},
            "externalTrialId": name})["trial"]

    def save(self, trial, steps):
        """Reports a checkpoint and returns its uuid."""
        uuid = f"{trial['id']:08x}-0000-4000-8000-{steps:012x}"
        self.user.post("/checkpoints", {
            "uuid": uuid, "taskId": trial["taskId"], "allocationId": None, "metadata": {"steps_completed": steps},
            "resources": {"a": "1"}, "state": "STATE_COMPLETED", "reportTime": None, "storageId": None, "training": {}})
        return uuid

    def test_best_is_the_first_that_reached_the_value(self):
        """The summary, the list of trials, the checkpoints of both and the command agree."""
        for smaller, value, worse in ((True, 5, 6), (False, 5, 4)):
            text = DETACHED.replace("metric: loss", f"metric: loss\n  smaller_is_better: {str(smaller).lower()}")
            experiment = self.user.ok("PUT", f"/experiments/by-external-id/best-{smaller}", {
                "config": text, "unmanaged": True, "activate": None, "modelDefinition": None, "parentId": None,
                "projectId": None, "template": None, "validateOnly": None})["experiment"]["id"]
            early, late = self.trial_of(experiment, "a"), self.trial_of(experiment, "b")
            for trial in (early, late):
                self.user.post(f"/trials/{trial['id']}/start", {"trialId": trial["id"], "resume": True})
            saved = {}
            for trial, steps, loss in ((early, 1, worse), (late, 10, value), (late, 20, value), (early, 2, value),
                                       (early, 3, "NaN"), (late, 30, worse)):
                saved[trial["id"], steps] = self.save(trial, steps)
                self.report(trial["id"], 1, steps, loss)
            best = saved[late["id"], 10]
            seen = self.user.get(f"/experiments/{experiment}")["experiment"]
            self.assertEqual((seen["bestTrialId"], seen["bestTrialSearcherMetric"]), (late["id"], value))
            by_metric = "sortByAttr=SORT_BY_SEARCHER_METRIC&states=STATE_COMPLETED"
            listed = self.user.get(f"/experiments/{experiment}/checkpoints?{by_metric}")["checkpoints"]
            self.assertEqual([one["uuid"] for one in listed],
                             [best, saved[late["id"], 20], saved[early["id"], 2], saved[late["id"], 30],
                              saved[early["id"], 1], saved[early["id"], 3]])
            self.assertNotIn("searcherMetric", listed[-1]["training"])  # it was not a number
            for trial, steps in ((early, 2), (late, 10)):
                kept = self.user.get(f"/trials/{trial['id']}")["trial"]["bestCheckpoint"]
                self.assertEqual(kept["uuid"], saved[trial["id"], steps])
            rows = self.cluster.rows("checkpoint", "list", "--experiment", experiment, "--best")
            self.assertEqual([row["uuid"] for row in rows], [best])
            shown = self.cluster.rows("experiment", "describe", experiment)
            self.assertEqual((shown["best"], shown["best_trial"]), (value, late["id"]))
            table = self.cluster.muster("experiment", "describe", experiment).split("best first")[1]
            self.assertEqual(int(table.splitlines()[2].split()[0]), late["id"])

    def test_metrics_of_a_group_that_some_trials_lack(self):
        experiment = self.user.ok("PUT", "/experiments/by-external-id/groups", {
            "config": DETACHED, "unmanaged": True, "activate": None, "modelDefinition": None, "parentId": None,
            "projectId": None, "template": None, "validateOnly": None})["experiment"]["id"]
        trials = [self.trial_of(experiment, name)["id"] for name in "abc"]
        for trial in trials:
            self.user.post(f"/trials/{trial}/start", {"trialId": trial, "resume": True})
            self.report(trial, 1, 1, 0.5, "training" if trial == trials[1] else "validation")
        rows = self.cluster.rows("experiment", "metrics", experiment, "--all", "--group", "training")
        self.assertEqual([(row["trial"], row["metrics"]) for row in rows], [(trials[1], {"loss": 0.5})])
        done = self.cluster.run("experiment", "metrics", experiment, "--all", "--group", "other")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f'trial {trials[0]} has reported no metrics of group "other"; its groups: validation', done.stderr)

    def test_unmanaged_run(self):
        experiment, trial, start = self.detached_run("detached/1 of mine".replace("/", "%2F").replace(" ", "%20"))
        number, task = trial["id"], trial["taskId"]
        self.assertEqual((start["trialRunId"], start["stepsCompleted"], start.get("latestCheckpoint")), (1, 0, None))
        self.assertEqual(self.beat(number, "STATE_RUNNING")["state"], "STATE_RUNNING")
        for steps in range(1, 6):
            self.report(number, 1, steps, 10 - steps)
        self.user.post(f"/trials/{number}/progress", {"progress": 0.5, "isRaw": True})
        self.user.post("/checkpoints", {
            "uuid": "22222222-2222-4222-8222-222222222222", "taskId": task, "allocationId": None,
            "metadata": {"steps_completed": 4}, "resources": {"a": "1"}, "state": "STATE_COMPLETED",
            "reportTime": None, "storageId": None, "training": {}})
        lines = [{"task_id": task, "timestamp": "2026-01-01T00:00:00+00:00", "log": f"line {n}\n", "rank": "0"}
                 for n in range(3)]
        status, answer = self.user.call("POST", "/task-logs", lines)
        self.assertEqual(status, 200, answer)
        seen = self.user.get(f"/experiments/{experiment}")["experiment"]
        self.assertEqual((seen["state"], seen["unmanaged"], seen["progress"]), ("STATE_RUNNING", True, 0.5))
        self.assertEqual(self.user.get(f"/trials/{number}")["trial"]["summaryMetrics"]["validation_metrics"]["loss"]
                         ["last"], 5)
        self.assertIn("line 2", self.log(number))
        history = self.user.get(f"/experiments/{experiment}/validation-history")["validationHistory"]
        self.assertEqual([entry["searcherMetric"] for entry in history], [9, 8, 7, 6, 5])
        self.assertEqual(self.user.get("/job-queues-v2?resourcePool=default")["jobs"], [])

        self.cluster.master.kill9()  # nothing is lost
        self.cluster.start_master()
        self.report(number, 1, 6, 4)
        self.assertEqual(self.beat(number, "STATE_ERROR")["state"], "STATE_ERROR")
        self.assertEqual(self.user.get(f"/experiments/{experiment}")["experiment"]["state"], "STATE_ERROR")

        again, same, start = self.detached_run("detached/1 of mine".replace("/", "%2F").replace(" ", "%20"))
        self.assertEqual((again, same["id"]), (experiment, number))
        self.assertEqual((start["trialRunId"], start["stepsCompleted"], start["latestCheckpoint"]),
                         (2, 4, "22222222-2222-4222-8222-222222222222"))
        self.beat(number, "STATE_RUNNING")
        self.report(number, 2, 5, 1)
        self.beat(number, "STATE_COMPLETED")
        self.ended(experiment)
        status, _ = self.user.call("POST", "/task-logs", lines)  # reported after the end
        self.assertEqual(status, 200)
        workloads = self.user.get(f"/trials/{number}/workloads?limit=500")["workloads"]
        steps = [w["validation"]["totalBatches"] for w in workloads if "validation" in w]
        self.assertEqual(steps, [1, 2, 3, 4, 5])

    def test_continue_and_fork(self):
        first = self.create()
        self.ended(first)
        trial = self.trial(first)["id"]
        self.assertEqual(self.user.get(f"/runs/{trial}/metadata"), {"metadata": {"lr": 0.5}})
        answer = self.user.post("/experiments/continue", {
            "id": first, "overrideConfig": "hyperparameters: {lr: 0.25}\ndescription: goes on"})
        self.assertEqual(answer["experiment"]["id"], first)
        self.assertEqual(answer["config"]["description"], "goes on")
        self.assertEqual(answer["experiment"]["originalConfig"], CONFIG)
        self.assertEqual(self.status(self.user, "POST", "/experiments/continue", {"id": first}), 400)
        self.ended(first)
        log = self.log(trial)
        self.assertIn("begins at 0 from None with 0.5", log)
        self.assertRegex(log, "begins at 3 from [0-9a-f-]{36} with 0.25")
        self.assertEqual(len(self.user.get(f"/experiments/{first}/trials")["trials"]), 1)
        self.assertEqual(self.user.get(f"/trials/{trial}")["trial"]["totalBatchesProcessed"], 6)

        fork = self.user.post("/experiments", {"parentId": first, "activate": True, "projectId": 1})["experiment"]
        self.assertEqual((fork["forkedFrom"], fork["originalConfig"]), (first, CONFIG))
        self.ended(fork["id"])
        tree = self.user.get(f"/experiments/{fork['id']}/file_tree")["files"]
        self.assertEqual([(node["path"], node["isDir"]) for node in tree], [("code", True)])
        self.assertEqual([node["path"] for node in tree[0]["files"]], ["code/train.py"])
        self.assertEqual(tree[0]["files"][0]["contentLength"], len(PROGRAM))
        one = self.user.post(f"/experiments/{fork['id']}/file", {"path": "code/train.py"})
        self.assertEqual(base64.b64decode(one["file"]), PROGRAM)
        self.assertEqual(self.status(self.user, "POST", f"/experiments/{fork['id']}/file", {"path": "../x"}), 404)

    def test_repeated_submission_creates_one_experiment(self):
        ids = {self.create(activate=False, externalExperimentId="nightly-1") for _ in range(3)}
        self.assertEqual(len(ids), 1)
        self.user.post(f"/experiments/{ids.pop()}/kill")
        self.assertEqual(self.status(self.admin, "POST", "/experiments",
                                     {"config": CONFIG, "externalExperimentId": "nightly-1"}), 200)
        other = self.admin.post("/users", {"user": {"username": "other", "admin": False, "active": True},
                                           "password": "other words for it", "isHashed": False})
        self.assertTrue(other)
        token = Api(self.cluster.port).post("/auth/login", {"username": "other", "password": "other words for it"})
        other = Api(self.cluster.port, token["token"])
        self.assertEqual(self.status(other, "POST", "/experiments",
                                     {"config": CONFIG, "externalExperimentId": "nightly-1"}), 409)

    def test_labels_settings_and_moves(self):
        number = self.create(activate=False)
        self.assertEqual(self.user.ok("PUT", f"/experiments/{number}/labels/two%20words"),
                         {"labels": ["one", "two words"]})
        self.assertEqual(self.user.ok("DELETE", f"/experiments/{number}/labels/one"), {"labels": ["two words"]})
        self.assertIn("two words", self.user.get("/experiment/labels?projectId=1")["labels"])
        patched = self.user.ok("PATCH", f"/experiments/{number}", {
            "name": "new", "notes": "read me", "description": None, "labels": ["three"],
            "resources": {"maxSlots": 4, "weight": None, "priority": None},
            "checkpointStorage": {"saveExperimentBest": 2, "saveTrialBest": None}})["experiment"]
        self.assertEqual((patched["name"], patched["notes"], patched["labels"]), ("new", "read me", ["three"]))
        storage = patched["config"]["checkpoint_storage"]
        self.assertEqual((storage["save_experiment_best"], storage["save_trial_best"]), (2, 1))

        workspace = self.user.post("/workspaces", {"name": "elsewhere"})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {"name": "p"})["project"]["id"]
        self.user.post(f"/experiments/{number}/move", {"experimentId": number, "destinationProjectId": project})
        moved = self.user.get(f"/experiments/{number}")["experiment"]
        self.assertEqual((moved["projectId"], moved["workspaceName"]), (project, "elsewhere"))
        self.user.post(f"/projects/{project}/archive")
        self.assertEqual(self.status(self.user, "POST", f"/experiments/{number}/move", {"destinationProjectId": 1}), 400)
        self.user.post(f"/projects/{project}/unarchive")
        self.user.post(f"/experiments/{number}/kill")

    def test_actions_on_many_experiments(self):
        numbers = [self.create(activate=False, config=CONFIG.replace("many ways", "of the herd")) for _ in range(4)]
        pasture = self.user.post("/workspaces", {"name": "pasture"})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{pasture}/projects", {"name": "herd"})["project"]["id"]
        moved = self.user.post("/projects/1/experiments/move", {
            "experimentIds": numbers, "destinationProjectId": project, "projectId": 1})["results"]
        self.assertEqual(sorted(result["id"] for result in moved), numbers)
        self.assertEqual({result["error"] for result in moved}, {""})
        path = f"/projects/{project}/experiments"
        killed = self.user.post(f"{path}/kill", {"experimentIds": [], "projectId": project, "filters": {
            "projectId": project, "excludedExperimentIds": [numbers[0]], "name": "HERD"}})["results"]
        self.assertEqual(sorted(result["id"] for result in killed), numbers[1:])
        archived = self.user.post(f"{path}/archive", {"experimentIds": numbers, "projectId": project})["results"]
        self.assertEqual({result["id"]: bool(result["error"]) for result in archived},
                         {number: number == numbers[0] for number in numbers})
        self.user.post("/experiments/kill", {"experiment_ids": [numbers[0]]})
        self.user.ok("DELETE", f"{path}/delete", {"experimentIds": numbers, "projectId": project})
        wait_for("the experiments to be deleted", lambda: all(
            self.status(self.user, "GET", f"/experiments/{number}") == 404 for number in numbers), 30)
        self.user.ok("DELETE", f"/projects/{project}")

    def test_sources_of_a_run(self):
        number = self.create()
        self.ended(number)
        trial = self.trial(number)
        answer = self.user.post("/trial-source-info", {"trialSourceInfo": {
            "trialId": trial["id"], "checkpointUuid": trial["latestCheckpoint"],
            "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE", "modelId": None, "modelVersion": None}})
        self.assertEqual(answer, {"trialId": trial["id"], "checkpointUuid": trial["latestCheckpoint"]})


if __name__ == "__main__":
    unittest.main(verbosity=2)
