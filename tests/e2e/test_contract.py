"""The wire contract: the calls of every det command and of a trial of the Core API, as their client
makes them.

The test does not need det: its requests are written down here, and the keys that it reads from
answers in wire_keys.py.
"""

import base64
import functools
import gzip
import hashlib
import http.server
import io
import json
import pathlib
import tarfile
import threading
import unittest

from cluster import PASSWORD, Cluster, wait_for
from det import Det, SimulatedAgent, NotServed

# Calls that the master does not serve yet: method and path as the client makes it, with * for a
# name or number.
NOT_YET_SERVED = """
"""

CONFIG = """\
name: contract
description: by the test of the contract
labels: [one, two]
entrypoint: python3 train.py
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: validation_loss, smaller_is_better: true}}
checkpoint_storage: {{type: directory, container_path: {storage}}}
max_restarts: 0
hyperparameters: {{width: 64}}
"""
FILES = [{"path": "train.py", "type": 48, "content": base64.b64encode(b"print('hello')\n").decode(), "mode": 420,
          "mtime": "1700000000", "uid": 0, "gid": 0},
         {"path": "lib", "type": 53, "content": "", "mode": 493, "mtime": "1700000000", "uid": 0, "gid": 0},
         {"path": "lib/a.py", "type": 48, "content": base64.b64encode(b"x = 1\n").decode(), "mode": 420,
          "mtime": "1700000000", "uid": 0, "gid": 0}]
EXPERIMENT = "experiment:Experiment"
PAGE = "pagination:Pagination"
TERMINAL = ("STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR")
NEVER = "00000000-0000-4000-8000-000000000000"


def hashed(password):
    return hashlib.sha512(b"GubPEmmotfiK9TMD6Zdw" + password.encode()).hexdigest()


def not_yet(call):
    """Returns whether a call that is not served is in the table."""
    method, path = call.split()
    path = path.removeprefix("/api/v1") if path.startswith("/api/v1") else "/" + path
    for row in NOT_YET_SERVED.split("\n"):
        if row.split() and row.split()[0] == method:
            wanted, given = row.split()[1].split("/"), path.split("/")
            if len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given)):
                return True
    return False


def replay(test):
    """A replay ends as a skipped test at a call that is not served yet."""
    @functools.wraps(test)
    def run(self):
        try:
            test(self)
        except NotServed as missing:
            if not not_yet(str(missing)):
                raise AssertionError(f"{missing} is not served") from None
            self.skipTest(f"not yet served: {missing}")
    return run


class Receiver(http.server.BaseHTTPRequestHandler):
    """The receiver of webhooks."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Contract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(), master_flags=("--storage-allow", pathlib.Path("storage").resolve()))
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        cls.nobody = Det(cls.cluster.port)
        cls.user, cls.admin = cls.login("determined"), cls.login("admin")
        token = (cls.cluster.folder / "master" / "agent.token").read_text().strip()
        cls.agent = SimulatedAgent(cls.cluster.port, token)
        cls.agent.start()
        cls.addClassCleanup(cls.agent.stop)
        wait_for("the agent", lambda: cls.user.get("/agents")["agents"], 30)
        cls.storage = pathlib.Path("storage").resolve()
        cls.storage.mkdir(exist_ok=True)
        cls.config = CONFIG.format(storage=cls.storage)

    @classmethod
    def login(cls, user, password=PASSWORD):
        answer = cls.nobody.post("/auth/login", {"username": user, "password": hashed(password), "isHashed": True},
                                 "token user:User")
        return cls.nobody.caller(answer["token"])

    def create(self, config=None, **more):
        return self.user.post("/experiments", {
            "activate": True, "config": config or self.config, "modelDefinition": FILES, "parentId": None,
            "projectId": None, "template": None, "unmanaged": None, "validateOnly": None, **more},
            f"{EXPERIMENT} config warnings?")["experiment"]["id"]

    def state_of(self, experiment):
        return self.user.get(f"/experiments/{experiment}", EXPERIMENT)["experiment"]["state"]

    def wait_for_state(self, experiment, *states):
        return wait_for(f"experiment {experiment} to be {states}", lambda: self.state_of(experiment) in states, 30)

    def kill(self, experiment):
        self.user.post(f"/experiments/{experiment}/kill")
        self.wait_for_state(experiment, *TERMINAL)

    def running(self, **more):
        """Returns (experiment, its task, a caller with the task's token); the task ends after the
        test."""
        experiment = self.create(**more)
        task = self.agent.task_of(experiment)
        self.wait_for_state(experiment, "STATE_RUNNING")
        self.addCleanup(self.kill, experiment)
        return experiment, task, self.nobody.caller(task["env"]["DET_SESSION_TOKEN"], task=True)

    def checkpoint(self, task, caller, uuid, steps=20, files=(("model.bin", b"weights"),)):
        """Writes and reports a checkpoint, as core.checkpoint does."""
        folder = self.storage / uuid
        folder.mkdir(exist_ok=True)
        for name, data in files:
            (folder / name).write_bytes(data)
        caller.report("/checkpoints", {
            "uuid": uuid, "taskId": task["taskId"], "allocationId": task["allocationId"],
            "metadata": {"steps_completed": steps, "camelCase": "kept"}, "state": "STATE_COMPLETED",
            "resources": {name: str(len(data)) for name, data in files},
            "reportTime": "2026-11-21T09:00:02Z", "storageId": None, "training": {}})

    def metrics(self, task, caller, group, steps, values):
        caller.report(f"/trials/{task['trialId']}/metrics", {"group": group, "metrics": {
            "trialId": task["trialId"], "trialRunId": int(task["env"]["DET_TRIAL_RUN_ID"]), "stepsCompleted": steps,
            "reportTime": "2026-11-21T09:00:01.25Z", "metrics": {"avgMetrics": values, "batchMetrics": None}}})

    # the document

    def test_the_document(self):
        self.nobody.document.check_structure()

    def test_info(self):
        self.nobody.get("//info", "version master_id cluster_id cluster_name")

    # det user

    @replay
    def test_user_login_and_logout(self):
        caller = self.login("determined")
        caller.get("/me", "user:User")
        caller.post("/auth/logout", {})
        caller.call("GET", "/me", expect=401)
        self.nobody.call("POST", "/auth/login", {"username": "determined", "password": hashed("no"), "isHashed": True},
                         expect=403)
        self.nobody.post("/auth/login", {"username": "determined", "password": PASSWORD, "is_hashed": False})

    @replay
    def test_password_of_a_user(self):
        """The body is only the password, or its hash."""
        path = f"/users/{self.admin.post('/users', {'user': {'username': 'pat'}, 'password': PASSWORD})['user']['id']}/password"
        pat = self.login("pat")
        pat.post(path, json.dumps("a new \u00e9 password"))
        pat.call("GET", "/me")
        self.login("pat", "a new \u00e9 password")
        self.admin.post(path, json.dumps(hashed("another")))
        self.login("pat", "another")
        pat.call("GET", "/me", expect=401)  # sessions with the old password have ended
        self.user.call("POST", path, json.dumps("mine now"), expect=403)
        for wrong in (None, "{}", "7", "[]", '"unfinished', '{"password": "x"}'):
            self.admin.call("POST", path, wrong, expect=400)
        self.admin.call("POST", "/users/999999/password", '"x"', expect=404)
        user = int(path.split("/")[2])
        for active in (False, True):
            results = self.admin.call("PATCH", "/users", {"userIds": [user, 999999], "activate": active, "filters": None},
                                      "results:[ActionResult]")["results"]
            self.assertEqual([(r["id"], "no user" in r["error"]) for r in results], [(user, False), (999999, True)])
            self.assertEqual(self.admin.get(f"/users/{user}")["user"]["active"], active)
        self.admin.call("PATCH", "/users", {"userIds": [user]}, expect=400)
        self.user.call("PATCH", "/users", {"userIds": [user], "activate": False}, expect=403)
        self.login("pat", "another")

    @replay
    def test_calls_that_do_not_apply(self):
        """Each call is refused with the alternative, for every caller with a token."""
        refused = [(method, path) for method, path, operation in self.nobody.document.routes
                   if operation["summary"].startswith("Refused; instead: ")]
        self.assertGreater(len(refused), 40)
        task = self.running()[1]["taskId"]
        for method, path in refused:
            path = path.replace("{groupId}", "1").replace("{userId}", "1").replace("{workspaceId}", "1") \
                .replace("{experimentId}", "1").replace("{workloadType}", "EXPERIMENT").replace("{clientId}", "1") \
                .replace("{resourcePoolName}", "default").replace("{projectId}", "1").replace("{taskId}", task) \
                .replace("{allocationId}", "1.1.1")
            status, answer = self.admin.request(method, path)
            self.assertEqual(status, 400, (method, path, answer))
            self.assertRegex(answer["error"]["error"], "this master does not do that: .*/api/v1/", (method, path))
            self.assertEqual(self.nobody.request(method, path)[0], 401)

    @replay
    def test_user_list(self):
        self.user.get("/master", "clusterId clusterName masterId strictJobQueueControl version hasCustomLogo rbacEnabled")
        self.user.get("/users", f"users:[User] {PAGE}", active="true", offset=0, admin=None, limit=None, name=None)

    @replay
    def test_user_create_and_change(self):
        made = self.admin.post("/users", {"isHashed": True, "password": hashed("first password"), "user": {
            "username": "ann", "admin": False, "active": True, "agentUserGroup": None, "displayName": None, "id": None,
            "lastAuthAt": None, "modifiedAt": None, "remote": None}}, "user:User")["user"]
        found = self.user.get("/users/ann/by-username", "user:User")["user"]
        self.assertEqual(found["id"], made["id"])
        ann = self.login("ann", "first password")
        for change in ({"password": hashed("second password"), "isHashed": True}, {"username": "anna"},
                       {"displayName": "Ann A."}, {"admin": True}, {"admin": False},
                       {"agentUserGroup": {"agentUid": 1000, "agentGid": 1000, "agentUser": "ann", "agentGroup": "ann"}},
                       {"active": False}, {"active": True}):
            self.admin.call("PATCH", f"/users/{made['id']}", change, "user:User")
            self.admin.get(f"/users/{made['id']}", "user:User")
        self.login("anna", "second password")
        self.assertIn(ann.request("GET", "/api/v1/me")[0], (200, 401))  # a new password may end sessions
        self.admin.call("GET", "/users/nobody-of-that-name/by-username", expect=404)

    # det master

    @replay
    def test_master(self):
        self.user.get("/master", "clusterId clusterName masterId strictJobQueueControl version hasCustomLogo")
        self.admin.get("/master/config", "config")

    @replay
    def test_master_logs(self):
        lines = self.admin.lines("/master/logs", "logEntry:LogEntry", follow="false", offset=-5)
        self.assertGreater(len(lines), 0)

    @replay
    def test_master_cluster_message(self):
        self.admin.call("PUT", "/master/cluster_message", {
            "message": "maintenance at noon", "startTime": "2026-11-20T09:00:00Z", "endTime": None, "duration": None})
        shown = self.user.get("/master/cluster_message", "clusterMessage:ClusterMessage")
        self.assertEqual(shown["clusterMessage"]["message"], "maintenance at noon")
        self.admin.call("DELETE", "/master/cluster_message")
        self.assertIsNone(self.user.get("/master/cluster_message").get("clusterMessage"))

    # det agent, det slot

    @replay
    def test_agents(self):
        self.user.get("/agents", "agents:[Agent]", excludeContainers=None, excludeSlots=None)
        self.user.get("/agents/live", "agent:Agent")
        self.admin.post("/agents/live/disable", {"agentId": "live", "drain": True}, "agent:Agent")
        self.user.get("/tasks", "allocationIdToSummary:{AllocationSummary}")
        self.admin.post("/agents/live/enable", None, "agent:Agent")
        self.admin.post("/agents/live/disable", {"agentId": "live", "drain": None}, "agent:Agent")
        self.admin.post("/agents/live/enable", None, "agent:Agent")
        self.user.call("POST", "/agents/live/enable", expect=403)

    @replay
    def test_slots(self):
        _, task, _ = self.running()
        tasks = self.user.get("/tasks", "allocationIdToSummary:{AllocationSummary}")["allocationIdToSummary"]
        agents = self.user.get("/agents", "agents:[Agent]")["agents"]
        containers = {resources["containerId"]: summary["allocationId"] for summary in tasks.values()
                      for resources in summary["resources"]}
        busy = [containers[slot["container"]["id"]] for agent in agents for slot in agent["slots"].values()
                if slot["container"]]
        self.assertIn(task["allocationId"], busy)
        self.user.get("/agents/live/slots", "slots:[Slot]")
        self.user.get("/agents/live/slots/3", "slot:Slot")
        self.admin.post("/agents/live/slots/3/disable", {"agentId": "live", "slotId": "3", "drain": None}, "slot:Slot")
        self.assertFalse(self.user.get("/agents/live/slots/3")["slot"]["enabled"])
        self.admin.post("/agents/live/slots/3/enable", None, "slot:Slot")

    # det experiment

    @replay
    def test_experiment_create(self):
        self.user.post("/experiments", {"config": self.config, "validateOnly": True, "modelDefinition": FILES,
                                        "activate": True, "parentId": None, "projectId": None, "template": None,
                                        "unmanaged": None}, f"{EXPERIMENT} config")
        experiment = self.create(activate=False)
        self.assertEqual(self.state_of(experiment), "STATE_PAUSED")
        self.user.post("/experiments", {"config": self.config, "model_definition": FILES, "activate": False,
                                        "validate_only": True}, f"{EXPERIMENT} config")
        self.user.get(f"/experiments/{experiment}/trials", f"trials:[Trial] {PAGE}", offset=0)
        self.kill(experiment)

    @replay
    def test_experiment_lifecycle(self):
        experiment, task, caller = self.running()
        self.user.post(f"/experiments/{experiment}/pause")
        self.assertEqual(caller.get(f"/allocations/{task['allocationId']}/signals/preemption", "preempt",
                                    timeout_seconds=20)["preempt"], True)
        caller.report(f"/allocations/{task['allocationId']}/signals/ack_preemption",
                      {"allocationId": task["allocationId"]})
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_PAUSED")
        self.user.post(f"/experiments/{experiment}/activate")
        self.agent.task_of(experiment)
        self.user.post(f"/experiments/{experiment}/cancel")
        self.kill(experiment)
        self.user.post(f"/experiments/{experiment}/kill")  # it is active already
        self.user.post(f"/experiments/{experiment}/archive")
        self.user.post(f"/experiments/{experiment}/unarchive")
        self.user.call("DELETE", f"/experiments/{experiment}")
        wait_for("the deletion", lambda: self.user.request("GET", f"/api/v1/experiments/{experiment}")[0] == 404, 30)
        replacement = self.create(activate=False)  # for the cleanup of the test
        self._cleanups[-1] = (self.kill, (replacement,), {})

    @replay
    def test_experiment_read(self):
        experiment, task, caller = self.running()
        self.metrics(task, caller, "validation", 20, {"validation_loss": 0.5})
        listed = self.user.get("/experiments", f"experiments:[Experiment] {PAGE}", archived="false", limit=200,
                               offset=0, users=["determined"])
        self.assertIn(experiment, [row["id"] for row in listed["experiments"]])
        self.user.get(f"/experiments/{experiment}", f"{EXPERIMENT} jobSummary?:JobSummary config?")
        trials = self.user.get(f"/experiments/{experiment}/trials", f"trials:[Trial] {PAGE}", offset=0)["trials"]
        self.user.get(f"/trials/{trials[0]['id']}/workloads", f"workloads:[WorkloadContainer] {PAGE}", limit=500,
                      includeBatchMetrics="false", offset=0)
        self.user.get(f"/experiments/{experiment}/checkpoints", f"checkpoints:[Checkpoint] {PAGE}", limit=10,
                      sortByAttr="SORT_BY_SEARCHER_METRIC", orderBy="ORDER_BY_ASC",
                      states=["STATE_COMPLETED", "STATE_PARTIALLY_DELETED"])
        archive = self.user.get(f"/experiments/{experiment}/model_def", "b64Tgz")["b64Tgz"]
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive)), mode="r:gz") as tar:
            self.assertIn("train.py", [name.removeprefix("./") for name in tar.getnames()])
        self.assertEqual(self.user.get(
            f"/experiments/{experiment}/searcher/best_searcher_validation_metric")["metric"], 0.5)
        self.user.call("GET", "/experiments/999999", expect=404)

    @replay
    def test_experiment_files(self):
        experiment = self.create(activate=False)
        tree = self.user.get(f"/experiments/{experiment}/file_tree", "files:[FileNode]")["files"]
        self.assertEqual(sorted(node["path"] for node in tree), ["lib", "train.py"])
        found = self.user.post(f"/experiments/{experiment}/file", {"experimentId": experiment, "path": "lib/a.py"}, "file")
        self.assertEqual(base64.b64decode(found["file"]), b"x = 1\n")
        self.kill(experiment)

    @replay
    def test_experiment_set(self):
        experiment = self.create(activate=False)
        for change in ({"name": "renamed"}, {"description": "new"}, {"labels": ["three"]}, {"notes": "a note"},
                       {"resources": {"priority": 10}}, {"resources": {"weight": 2.5}},
                       {"resources": {"max_slots": 3}},
                       {"checkpointStorage": {"saveExperimentBest": 1, "saveTrialBest": 2, "saveTrialLatest": 3}}):
            self.admin.call("PATCH", f"/experiments/{experiment}", {
                "id": experiment, "checkpointStorage": None, "description": None, "labels": None, "name": None,
                "notes": None, "resources": None, **change}, EXPERIMENT)
        found = self.user.get(f"/experiments/{experiment}", EXPERIMENT)["experiment"]
        self.assertEqual((found["name"], found["description"], found["labels"], found["notes"]),
                         ("renamed", "new", ["three"], "a note"))
        self.kill(experiment)

    @replay
    def test_experiment_labels(self):
        experiment = self.create(activate=False)
        self.assertEqual(sorted(self.user.call("PUT", f"/experiments/{experiment}/labels/four%20more", None,
                                               "labels")["labels"]), ["four more", "one", "two"])
        self.user.call("PUT", f"/experiments/{experiment}/labels/four%20more", None, "labels")
        self.assertEqual(sorted(self.user.call("DELETE", f"/experiments/{experiment}/labels/one", None,
                                               "labels")["labels"]), ["four more", "two"])
        self.assertIn("four more", self.user.get("/experiment/labels", "labels")["labels"])
        self.kill(experiment)

    @replay
    def test_experiment_gc_policy(self):
        experiment, task, caller = self.running()
        for number in range(3):
            self.checkpoint(task, caller, f"00000000-0000-4000-8000-0000000001{number:02}", number + 1)
        preview = self.user.get(f"//experiments/{experiment}/preview_gc", "checkpoints metric_name",
                                save_experiment_best=0, save_trial_best=0, save_trial_latest=1)
        self.assertEqual(len(preview["checkpoints"]), 2)
        for checkpoint in preview["checkpoints"]:
            for key in "TrialID StepsCompleted State UUID Resources ReportTime step".split():
                self.assertIn(key, checkpoint)

    @replay
    def test_experiment_continue_and_fork(self):
        experiment, task, _ = self.running()
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_COMPLETED")
        self.user.post("/experiments/continue", {"id": experiment, "overrideConfig": "{max_restarts: 1}"}, EXPERIMENT)
        again = self.agent.task_of(experiment)
        self.assertEqual(again["trialId"], task["trialId"])
        forked = self.create(parentId=experiment, activate=False, modelDefinition=None)
        self.assertEqual(self.user.get(f"/experiments/{forked}")["experiment"]["forkedFrom"], experiment)
        self.kill(forked)

    @replay
    def test_experiment_move(self):
        workspace = self.user.post("/workspaces", {"name": "moved to"}, "workspace:Workspace")["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {
            "name": "target", "workspaceId": workspace, "description": None, "key": None}, "project:Project")["project"]
        experiment = self.create(activate=False)
        self.user.get("/workspaces", f"workspaces:[Workspace] {PAGE}", name="moved to")
        self.user.get(f"/workspaces/{workspace}/projects", f"projects:[Project] {PAGE}", name="target")
        self.user.post(f"/experiments/{experiment}/move", {"destinationProjectId": project["id"],
                                                           "experimentId": experiment})
        self.assertEqual(self.user.get(f"/experiments/{experiment}")["experiment"]["projectId"], project["id"])
        self.kill(experiment)

    @replay
    def test_experiments_of_a_project(self):
        ids = [self.create(activate=False) for _ in range(2)]

        def many(method, verb, **more):
            results = self.user.call(method, f"/projects/1/experiments/{verb}", {
                "experimentIds": ids, "projectId": 1, "filters": None, **more}, "results:[ActionResult]")["results"]
            self.assertEqual(sorted((r["id"], r["error"]) for r in results), sorted((i, "") for i in ids), verb)
        many("POST", "activate")
        many("POST", "pause")
        many("POST", "cancel")
        many("POST", "kill")
        for experiment in ids:
            self.wait_for_state(experiment, *TERMINAL)
        many("POST", "archive")
        many("POST", "unarchive")
        many("POST", "move", destinationProjectId=1)
        many("DELETE", "delete")

    @replay
    def test_searches_and_runs(self):
        """A search is an experiment, and a run is its trial; the only action on a single one of
        several runs is a kill."""
        results = "results:[ActionResult]"
        experiment = self.create()
        run = self.agent.task_of(experiment)["trialId"]
        several = self.create(config=self.config.replace("name: single", "name: random, max_trials: 2"), activate=False)

        def ask(noun, verb, ids, **more):
            body = {f"{'search' if noun == 'searches' else 'run'}Ids": ids, "projectId": 1, "filter": None, **more}
            return [r["error"] for r in self.user.post(f"/{noun}/{verb}", body, results)["results"]]
        self.assertEqual(ask("searches", "pause", [experiment, several]), ["", ""])
        self.wait_for_state(experiment, "STATE_PAUSED")
        self.assertEqual(ask("runs", "resume", [run], skipMultitrial=False), [""])
        self.assertIn("no run", ask("runs", "pause", [999999])[0])
        self.assertIn("not in project", ask("runs", "pause", [run], projectId=7)[0])
        self.assertIn("no search", ask("searches", "kill", [999999])[0])
        self.user.call("POST", "/runs/kill", {"runIds": None, "projectId": 1}, expect=400)
        self.user.call("POST", "/searches/kill", {"projectId": 1, "filter": "{}"}, expect=400)
        self.assertEqual(ask("searches", "resume", [several]), [""])
        runs = wait_for("two runs", lambda: (lambda t: len(t) == 2 and [x["id"] for x in t])(
            self.user.get(f"/experiments/{several}/trials")["trials"]), 30)
        self.assertIn("has more runs than", ask("runs", "archive", runs[:1])[0])
        self.assertEqual(ask("runs", "kill", runs + [run]), ["", "", ""])
        for ended in (experiment, several):
            self.wait_for_state(ended, *TERMINAL)
        self.assertEqual(ask("runs", "kill", [run]), [""])  # it has ended already
        self.assertEqual(ask("runs", "archive", [run]), [""])
        self.assertEqual(ask("runs", "unarchive", [run]), [""])
        self.assertEqual(ask("searches", "archive", [several]), [""])
        self.assertEqual(ask("searches", "unarchive", [several]), [""])
        self.assertEqual(ask("runs", "move", [run], sourceProjectId=1, destinationProjectId=1), [""])
        self.assertEqual(ask("searches", "move", [several], sourceProjectId=1, destinationProjectId=1), [""])
        self.assertEqual(ask("searches", "cancel", [several]), [""])
        self.assertEqual(ask("runs", "delete", [run]), [""])
        self.assertEqual(ask("searches", "delete", [several]), [""])

    @replay
    def test_search_of_experiments(self):
        """Uses the filters and orders of the web client."""
        experiment, task, caller = self.running(config=self.config.replace("name: contract", "name: needle"))
        self.metrics(task, caller, "validation", 10, {"validation_loss": 0.25})

        def field(column, operator, value=None, location="LOCATION_TYPE_EXPERIMENT"):
            return {"columnName": column, "kind": "field", "location": location, "operator": operator,
                    "type": "COLUMN_TYPE_TEXT", "value": value, "id": "any"}

        def search(*children, expect=200, sort="id=desc", archived=True, **more):
            tree = {"filterGroup": {"kind": "group", "conjunction": "and", "children": children}, "showArchived": archived}
            answer = self.user.call("POST", "/experiments-search", {
                "projectId": None, "limit": 5, "offset": 0, "sort": sort, "filter": json.dumps(tree), **more},
                f"experiments:[FoundExperiment] {PAGE}" if expect == 200 else None, expect=expect)
            return [row["experiment"]["id"] for row in answer["experiments"]] if expect == 200 else answer
        for test in (field("name", "=", "needle"), field("id", "=", experiment), field("tags", "contains", "tw"),
                     field("name", "notContains", "\"quoted\" \\"), field("description", "!=", None),
                     field("validation.validation_loss.min", "<", 0.5, "LOCATION_TYPE_VALIDATIONS"),
                     field("hp.width", "=", 64, "LOCATION_TYPE_HYPERPARAMETERS"), field("endTime", "isEmpty"),
                     {"kind": "group", "conjunction": "or", "children": [field("id", "=", 0), field("name", "contains", "NEED")]},
                     {"kind": "group", "conjunction": "and", "children": []}):
            self.assertIn(experiment, search(test, field("name", "=", "needle")), test)
        for test in (field("name", "=", "hay"), field("endTime", "notEmpty"), field("numTrials", ">", 1)):
            self.assertEqual(search(test, field("id", "=", experiment)), [], test)
        self.assertEqual(search(field("id", "=", experiment), archived=False, projectId=1), [experiment])
        found = self.user.post("/experiments-search", {"sort": "validation.validation_loss.min=asc,id=desc", "limit": 1})
        self.assertEqual(found["experiments"][0]["bestTrial"]["id"], task["trialId"])
        for wrong in (field("nothing", "=", 1), field("name", "like", "x"), field("name", "=", [1]), field("id", "<", "x"),
                      field("validation.loss.mean", "<", 1), {"kind": "group", "conjunction": "xor", "children": []}):
            search(wrong, expect=400)
        for sort in ("id", "id=up", "nothing=asc", "=asc"):
            search(sort=sort, expect=400)
        self.user.call("POST", "/experiments-search", {"filter": "no JSON"}, expect=400)

    # det trial

    @replay
    def test_trial(self):
        experiment, task, caller = self.running()
        trial = task["trialId"]
        self.metrics(task, caller, "training", 10, {"loss": 0.5})
        self.user.get(f"/trials/{trial}", "trial:Trial")
        self.user.get(f"/trials/{trial}/workloads", f"workloads:[WorkloadContainer] {PAGE}", limit=1000,
                      includeBatchMetrics="true")
        self.user.get(f"/trials/{trial}/checkpoints", f"checkpoints:[Checkpoint] {PAGE}", limit=None, offset=0,
                      states=["STATE_COMPLETED"])
        self.user.post(f"/trials/{trial}/kill")
        self.wait_for_state(experiment, *TERMINAL)

    @replay
    def test_trial_logs(self):
        _, task, caller = self.running()
        lines = [{"task_id": task["taskId"], "allocation_id": task["allocationId"], "agent_id": "live", "rank_id": 0,
                  "container_id": "c0ffee00-1", "timestamp": f"2026-11-21T09:00:0{n}.5Z", "level": "LOG_LEVEL_INFO",
                  "stdtype": "stdout", "source": "task", "log": f"line {n}\n"} for n in range(5)]
        caller.post("/task/logs", {"logs": lines})
        self.user.get(f"/tasks/{task['taskId']}/context_directory", "b64Tgz")
        path = f"/trials/{task['trialId']}/logs"
        answer = "id level:LogLevel message timestamp trialId"
        found = wait_for("the lines", lambda: self.user.lines(path, answer), 10)
        self.assertEqual([line["message"] for line in found],
                         [f"[2026-11-21T09:00:0{n}.500000Z] c0ffee00 [rank=0] || INFO: line {n}\n" for n in range(5)])
        for query, count in (({"limit": 2}, 2), ({"orderBy": "ORDER_BY_DESC", "limit": 1}, 1), ({"rankIds": [0]}, 5),
                             ({"agentIds": ["live", "other"]}, 5), ({"containerIds": ["none"]}, 0),
                             ({"levels": ["LOG_LEVEL_ERROR"]}, 0), ({"levels": ["LOG_LEVEL_INFO"]}, 5),
                             ({"sources": ["task"]}, 5), ({"stdtypes": ["stderr"]}, 0), ({"searchText": "line 3"}, 1),
                             ({"searchText": "line [12]", "enableRegex": "true"}, 2),
                             ({"timestampAfter": "2026-11-21T09:00:02.5Z"}, 2),
                             ({"timestampBefore": "2026-11-21T09:00:02.5Z"}, 2)):
            self.assertEqual(len(self.user.lines(path, answer, **query)), count, query)
        fields = self.user.lines(f"{path}/fields", "agentIds containerIds rankIds sources stdtypes")
        self.assertEqual(fields[-1]["rankIds"], [0])
        self.user.lines(f"/tasks/{task['taskId']}/logs", "id level:LogLevel log message taskId timestamp")
        self.user.lines(f"/tasks/{task['taskId']}/logs/fields", "agentIds allocationIds rankIds sources stdtypes")

    @replay
    def test_trial_metrics_of_the_sdk(self):
        _, task, caller = self.running()
        self.metrics(task, caller, "training", 10, {"loss": 0.5})
        self.metrics(task, caller, "validation", 10, {"validation_loss": "NaN"})
        self.metrics(task, caller, "mine", 10, {"made up": {"by": "me"}})
        answer = "metrics:[MetricsReport]"
        for path, query, count in (("training_metrics", {}, 1), ("validation_metrics", {}, 1),
                                   ("trial_metrics", {"group": "mine"}, 1)):
            lines = self.user.lines(f"/trials/metrics/{path}", answer, trialIds=[task["trialId"]], **query)
            self.assertEqual(sum(len(line["metrics"]) for line in lines), count, path)

    @replay
    def test_metrics_side_by_side(self):
        experiment, task, caller = self.running()
        trial = task["trialId"]
        for steps in (10, 20, 30):
            self.metrics(task, caller, "training", steps, {"loss": 1 / steps, "rate": steps})
        self.metrics(task, caller, "validation", 30, {"validation_loss": "NaN", "loss": 0.5})
        answer = "trials:[ComparableTrial]"

        def compare(**query):
            trials = self.user.get("/trials/time-series", answer, trialIds=[trial], **query)["trials"]
            return {g["group"]: {p["batches"]: p["values"] for p in g["data"]} for g in trials[0]["metrics"]}
        self.assertEqual(compare(metricNames=["loss", "rate"], group="training", maxDatapoints=100),
                         {"training": {n: {"loss": 1 / n, "rate": n} for n in (10, 20, 30)}})
        self.assertEqual(compare(metricNames=["loss"], metricType="METRIC_TYPE_VALIDATION"), {"validation": {30: {"loss": 0.5}}})
        self.assertEqual(compare(metricIds=["validation.validation_loss", "training.rate"], startBatches=15, endBatches=30),
                         {"validation": {30: {"validation_loss": "NaN"}}, "training": {20: {"rate": 20}, 30: {"rate": 30}}})
        self.assertEqual(set(compare(metricNames=["loss"])), {"training", "validation"})
        self.assertEqual(compare(metricNames=["none"]), {})
        for wrong in ({"trialIds": [999999]}, {"trialIds": ["x"]}):
            self.user.call("GET", "/trials/time-series", expect=404 if wrong["trialIds"] == [999999] else 400, **wrong)
        for wrong in ({"metricType": "LOSS"}, {"metricIds": ["loss"]}, {"maxDatapoints": -1}, {"maxDatapoints": 10 ** 9}):
            self.user.call("GET", "/trials/time-series", expect=400, trialIds=[trial], metricNames=["loss"], **wrong)
        self.kill(experiment)  # while the trial runs, the names are sent repeatedly
        names = self.user.lines("/experiments/metrics-stream/metric-names", "metricNames:[MetricName] searcherMetrics "
                                "trainingMetrics validationMetrics", ids=[experiment], periodSeconds=1)
        self.assertEqual(len(names), 1)
        self.assertEqual(names[0]["searcherMetrics"], ["validation_loss"])
        self.assertEqual((names[0]["trainingMetrics"], names[0]["validationMetrics"]), (["loss", "rate"], ["loss"]))
        self.user.call("GET", "/experiments/metrics-stream/metric-names", expect=404, ids=[999999])
        self.user.call("GET", "/experiments/metrics-stream/metric-names", expect=400)

    # det checkpoint

    @replay
    def test_checkpoints(self):
        experiment, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000200"
        self.checkpoint(task, caller, uuid, files=(("model.bin", b"weights"), ("state.json", b"{}")))
        checkpoint = self.user.get(f"/checkpoints/{uuid}", "checkpoint:Checkpoint")["checkpoint"]
        self.assertEqual(checkpoint["resources"], {"model.bin": "7", "state.json": "2"})
        self.assertEqual(checkpoint["metadata"], {"steps_completed": 20, "camelCase": "kept"})
        self.assertEqual(checkpoint["training"]["experimentId"], experiment)
        connection, response = self.user.open("GET", f"/checkpoints/{uuid}")
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(response.read()))) as tar:
            self.assertIn("model.bin", [name.removeprefix("./").removeprefix(uuid + "/") for name in tar.getnames()])
        connection.close()
        self.user.call("GET", f"/checkpoints/{NEVER}", expect=404)

    @replay
    def test_checkpoint_metadata(self):
        _, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000210"
        self.checkpoint(task, caller, uuid)
        self.user.post(f"/checkpoints/{uuid}/metadata", {"checkpoint": {
            "uuid": uuid, "metadata": {"steps_completed": 20, "added": 1}, "resources": {}, "training": {},
            "state": "STATE_UNSPECIFIED"}}, "checkpoint?:Checkpoint")
        self.assertEqual(self.user.get(f"/checkpoints/{uuid}")["checkpoint"]["metadata"]["added"], 1)

    @replay
    def test_checkpoint_remove_files(self):
        experiment, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000220"
        self.checkpoint(task, caller, uuid, files=(("keep.bin", b"k"), ("drop.txt", b"d")))
        self.kill(experiment)  # otherwise its trial would restart from it
        self.user.post("/checkpoints/rm", {"checkpointGlobs": ["*.txt"], "checkpointUuids": [uuid]})
        wait_for("the file to be removed", lambda: not (self.storage / uuid / "drop.txt").exists(), 30)
        wait_for("the row", lambda: self.user.get(f"/checkpoints/{uuid}", "checkpoint:Checkpoint")[
            "checkpoint"]["state"] == "STATE_PARTIALLY_DELETED", 30)

    @replay
    def test_checkpoint_delete(self):
        experiment, task, caller = self.running()
        uuids = [f"00000000-0000-4000-8000-00000000023{n}" for n in range(2)]
        for uuid in uuids:
            self.checkpoint(task, caller, uuid)
        self.kill(experiment)
        self.user.call("DELETE", "/checkpoints", {"checkpointUuids": uuids[:1]})
        wait_for("the files to be removed", lambda: not (self.storage / uuids[0]).exists(), 30)
        wait_for("the row", lambda: self.user.get(f"/checkpoints/{uuids[0]}", "checkpoint:Checkpoint")[
            "checkpoint"]["state"] == "STATE_DELETED", 30)

    # det model

    @replay
    def test_models(self):
        _, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000300"
        self.checkpoint(task, caller, uuid)
        model = self.user.post("/models", {
            "name": "net one", "description": "a model", "labels": ["x"], "metadata": {"k": "v"}, "notes": None,
            "workspaceId": None, "workspaceName": None}, "model:Model")["model"]
        self.user.get("/models", f"models:[Model] {PAGE}", archived=None, labels=None, limit=100, offset=0,
                      sortBy="SORT_BY_NAME", orderBy="ORDER_BY_ASC")
        self.user.get("/models/net%20one", "model:Model")
        version = self.user.post("/models/net%20one/versions", {
            "checkpointUuid": uuid, "modelName": "net one", "name": "first", "comment": None, "labels": None,
            "metadata": None, "notes": None}, "modelVersion:ModelVersion")["modelVersion"]
        self.user.get("/models/net%20one/versions", f"model:Model modelVersions:[ModelVersion] {PAGE}", offset=0)
        self.user.get(f"/models/net%20one/versions/{version['version']}", "modelVersion:ModelVersion")
        self.user.call("PATCH", f"/models/net%20one/versions/{version['version']}", {"name": "second", "notes": "n"},
                       "modelVersion:ModelVersion")
        self.user.call("PATCH", "/models/net%20one", {"description": "other", "metadata": {"k": "w"}, "labels": ["y"]},
                       "model:Model")
        self.assertIn("y", self.user.get("/model/labels", "labels")["labels"])
        self.user.post("/models/net%20one/archive")
        self.user.post("/models/net%20one/unarchive")
        self.user.post("/models/net%20one/move", {"destinationWorkspaceId": model["workspaceId"], "modelName": "net one"})
        self.user.call("DELETE", f"/models/net%20one/versions/{version['version']}")
        self.user.call("DELETE", "/models/net%20one")
        self.user.call("GET", "/models/net%20one", expect=404)

    # det job, det resource-pool

    @replay
    def test_jobs(self):
        experiment, _, _ = self.running()
        pools = self.user.get("/resource-pools", f"resourcePools:[ResourcePool] {PAGE}")["resourcePools"]
        self.assertEqual([pool["name"] for pool in pools if pool["defaultComputePool"]], ["default"])
        jobs = self.user.get("/job-queues-v2", f"jobs:[RBACJob] {PAGE}", resourcePool="default", limit=10, offset=0,
                             orderBy="ORDER_BY_ASC")["jobs"]
        job = [row["full"] for row in jobs if row["full"]["entityId"] == str(experiment)][0]
        self.admin.post("/job-queues", {"updates": [{
            "jobId": job["jobId"], "aheadOf": None, "behindOf": None, "priority": 7, "resourcePool": None,
            "weight": None}]})
        self.admin.post("/job-queues", {"updates": [{"job_id": job["jobId"], "weight": 2.0}]})
        self.user.get("/job-queues/stats", "results:[PoolQueueStats]", resourcePools=["default"])

    # det workspace, det project

    @replay
    def test_workspaces_and_projects(self):
        workspace = self.user.post("/workspaces", {
            "name": "team", "agentUserGroup": None, "checkpointStorageConfig": None, "clusterNamespaceMeta": None,
            "clusterQuotaPairs": None, "defaultAuxPool": None, "defaultComputePool": None},
            "workspace:Workspace namespaceBindings")["workspace"]["id"]
        self.user.get("/workspaces", f"workspaces:[Workspace] {PAGE}", limit=None, offset=0, pinned=None,
                      sortBy="SORT_BY_ID", orderBy="ORDER_BY_ASC")
        self.user.get(f"/workspaces/{workspace}", "workspace:Workspace")
        self.user.call("PATCH", f"/workspaces/{workspace}", {"name": "team two"}, "workspace:Workspace")
        project = self.user.post(f"/workspaces/{workspace}/projects", {
            "name": "study", "workspaceId": workspace, "description": "d", "key": None}, "project:Project")["project"]["id"]
        self.user.get(f"/workspaces/{workspace}/projects", f"projects:[Project] {PAGE}", limit=200, offset=0,
                      sortBy="SORT_BY_NAME", orderBy="ORDER_BY_ASC")
        self.user.get(f"/projects/{project}", "project:Project")
        self.user.get("/experiments", f"experiments:[Experiment] {PAGE}", projectId=project)
        self.user.call("PATCH", f"/projects/{project}", {"name": "study two", "description": None, "key": None},
                       "project:Project")
        other = self.user.post("/workspaces", {"name": "another team"})["workspace"]["id"]
        self.user.post(f"/projects/{project}/move", {"destinationWorkspaceId": other, "projectId": project})
        self.assertEqual(self.user.get(f"/projects/{project}")["project"]["workspaceId"], other)
        for path in (f"/projects/{project}", f"/workspaces/{workspace}", f"/workspaces/{other}"):
            self.user.post(path + "/archive")
            self.user.post(path + "/unarchive")
            self.user.call("DELETE", path, None, "completed")
            wait_for("the deletion", lambda: self.user.request("GET", "/api/v1" + path)[0] == 404, 30)

    @replay
    def test_project_notes(self):
        workspace = self.user.post("/workspaces", {"name": "noted"})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {"name": "p", "workspaceId": workspace})["project"]["id"]
        for _ in range(2):
            self.assertEqual(self.user.post(f"/projects/{project}/notes", {"name": "one", "contents": "text"},
                                            "notes:[Note]")["notes"], [{"name": "one", "contents": "text"}])
        notes = self.user.call("PUT", f"/projects/{project}/notes", {
            "notes": [{"name": "two", "contents": "more"}], "projectId": project}, "notes:[Note]")["notes"]
        self.assertEqual(notes, [{"name": "two", "contents": "more"}])
        self.assertEqual(self.user.get(f"/projects/{project}", "project:Project")["project"]["notes"], notes)

    # det template

    @replay
    def test_templates(self):
        template = {"name": "base", "config": {"max_restarts": 3}, "workspaceId": 1}
        self.user.post("/templates/base", template, "template:Template")
        self.user.get("/templates", f"templates:[Template] {PAGE}", sortBy="SORT_BY_NAME", workspaceIds=None)
        self.user.get("/templates/base", "template:Template")
        self.user.call("PATCH", "/templates/base", {"max_restarts": 4, "labels": ["templated"]}, "template:Template")
        experiment = self.create(config=self.config.replace("max_restarts: 0\n", ""), template="base", activate=False)
        self.assertEqual(self.user.get(f"/experiments/{experiment}")["experiment"]["config"]["max_restarts"], 4)
        self.kill(experiment)
        self.user.call("DELETE", "/templates/base")
        self.user.call("GET", "/templates/base", expect=404)

    # det command, det shell, det notebook, det tensorboard, det task

    def command_like(self, kind, launch, **more):
        answer = f"{kind[:-1]}:Command config"
        made = self.user.post(f"/{kind}", {"config": {"description": "by the contract", "resources": {"slots": 0}, **launch},
                                           "files": FILES, "templateName": None, "workspaceId": None, **more},
                              f"{answer} warnings?")[kind[:-1]]
        self.user.get(f"/{kind}", f"{kind}:[Command]", users=["determined"], limit=None, offset=0)
        self.user.get(f"/{kind}/{made['id']}", answer)
        self.user.post(f"/{kind}/{made['id']}/set_priority", {"priority": 60, f"{kind[:-1]}Id": made["id"]},
                       f"{kind[:-1]}?:Command")
        self.user.get(f"/tasks/{made['id']}", "task:Task")
        self.user.lines(f"/tasks/{made['id']}/logs", "id level:LogLevel log message taskId timestamp")
        self.user.post(f"/{kind}/{made['id']}/kill", None, f"{kind[:-1]}?:Command")
        wait_for("the end", lambda: self.user.get(f"/{kind}/{made['id']}")[kind[:-1]]["state"] == "STATE_TERMINATED", 30)

    @replay
    def test_commands(self):
        self.command_like("commands", {"entrypoint": ["echo", "hello"]}, data=None)

    @replay
    def test_generic_tasks(self):
        task = self.user.post("/generic-tasks", {
            "config": "entrypoint: [sleep, '60']\nresources: {slots: 0}\n", "contextDirectory": FILES, "forkedFrom": None,
            "inheritContext": False, "noPause": False, "parentId": None, "projectId": None}, "taskId warnings?")["taskId"]
        self.user.get(f"/tasks/{task}", "task:Task")
        self.user.get(f"/tasks/{task}/config", "config")
        self.user.post(f"/tasks/{task}/pause", {"taskId": task})
        self.user.post(f"/tasks/{task}/unpause", {"taskId": task})
        self.user.post(f"/tasks/{task}/kill", {"taskId": task, "killFromRoot": False})

    # webhooks, resources

    @replay
    def test_webhooks(self):
        receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        self.addCleanup(receiver.server_close)
        self.addCleanup(receiver.shutdown)
        made = self.admin.post("/webhooks", {
            "url": f"http://127.0.0.1:{receiver.server_port}/hook", "webhookType": "WEBHOOK_TYPE_DEFAULT", "name": "hook",
            "mode": "WEBHOOK_MODE_WORKSPACE", "id": None, "workspaceId": None,
            "triggers": [{"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "COMPLETED"},
                          "id": None, "webhookId": None}]}, "webhook:Webhook")["webhook"]
        self.admin.get("/webhooks", "webhooks:[Webhook]")
        self.admin.post(f"/webhooks/{made['id']}/test", None, "completed")
        self.admin.call("DELETE", f"/webhooks/{made['id']}")

    @replay
    def test_resources(self):
        for path, query in (("raw", {"timestamp_after": "2026-11-01T00:00:00Z", "timestamp_before": "2026-11-30T00:00:00Z"}),
                            ("aggregated", {"start_date": "2026-11-01", "end_date": "2026-11-30",
                                            "period": "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY"})):
            url = self.user.url(f"//resources/allocation/{path}", query)
            if not self.nobody.document.find("GET", url):
                raise NotServed(f"GET {url.partition('?')[0]}")
            status, text = self.user.request("GET", url)
            self.assertEqual(status, 200, text)
            self.assertIn(b",", text.splitlines()[0])

    # a trial of the Core API

    @replay
    def test_core_api(self):
        experiment, task, caller = self.running()
        trial, allocation, env = task["trialId"], task["allocationId"], task["env"]
        caller.get("/me", "user:User")
        caller.get(f"/tasks/{task['taskId']}/context_directory", "b64Tgz")
        resources = env["DET_RESOURCES_ID"] if "DET_RESOURCES_ID" in env else task["ranks"][0]["env"]["DET_RESOURCES_ID"]
        caller.report(f"/allocations/{allocation}/acceleratorData", {"allocationId": allocation, "acceleratorData": {
            "acceleratorType": "CPU", "acceleratorUuids": ["cpu-0"], "allocationId": None, "containerId": resources,
            "nodeName": "live", "resourcePool": None, "taskId": task["taskId"]}})
        caller.get(f"/allocations/{allocation}/resources/{resources}/rendezvous", "rendezvousInfo:RendezvousInfo")
        for _ in range(2):
            caller.post("/runs/start", {"runId": trial, "checkpointStorage": {
                "type": "directory", "containerPath": str(self.storage)}}, "storageId?")
        self.assertEqual(caller.get(f"/allocations/{allocation}/signals/preemption", timeout_seconds=0)["preempt"], False)
        caller.call("GET", f"/experiments/{experiment}/searcher/best_searcher_validation_metric", expect=404)
        caller.report(f"/trials/{trial}/runner/metadata", {"state": "training"})
        self.metrics(task, caller, "training", 10, {"loss": 0.5, "inf": "Infinity"})
        self.metrics(task, caller, "validation", 10, {"validation_loss": 0.25})
        self.metrics(task, caller, "cpu", None, {"live": {"cpu_util_simple": 3.5}})
        caller.report(f"/trials/{trial}/progress", {"progress": 0.5, "isRaw": True})
        uuid = "00000000-0000-4000-8000-000000000001"
        self.checkpoint(task, caller, uuid, 10)
        self.assertEqual(caller.get(f"/checkpoints/{uuid}", "checkpoint:Checkpoint")["checkpoint"]["metadata"],
                         {"steps_completed": 10, "camelCase": "kept"})
        self.assertEqual(caller.get(f"/trials/{trial}", "trial:Trial")["trial"]["latestValidation"]["totalBatches"], 10)
        self.assertEqual(caller.get(
            f"/experiments/{experiment}/searcher/best_searcher_validation_metric")["metric"], 0.25)
        # repeated reports count once
        workloads = self.user.get(f"/trials/{trial}/workloads", f"workloads:[WorkloadContainer] {PAGE}")
        self.assertEqual(workloads["pagination"]["total"], 3)
        caller.post(f"/trials/{trial}/early_exit", {"reason": "EXITED_REASON_USER_REQUESTED_STOP"})
        caller.call("POST", f"/trials/{trial}/early_exit", {"reason": "EXITED_REASON_USER_REQUESTED_STOP"}, expect=400)
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_COMPLETED")
        caller.call("POST", f"/trials/{trial}/metrics", {"group": "training", "metrics": {}}, expect=403)

    @replay
    def test_core_api_all_gather(self):
        _, task, caller = self.running()
        allocation, heard = task["allocationId"], []

        def gather(number):
            heard.append(caller.post(f"/allocations/{allocation}/all_gather", {
                "allocationId": allocation, "data": {"rank": number}, "numPeers": 2, "requestUuid": f"uuid-{number}"},
                "data")["data"])
        peers = [threading.Thread(target=gather, args=(n,)) for n in range(2)]
        for peer in peers:
            peer.start()
        for peer in peers:
            peer.join(30)
        self.assertEqual(heard, [[{"rank": 0}, {"rank": 1}]] * 2)

    @replay
    def test_core_api_metadata_of_a_run(self):
        _, task, caller = self.running()
        for metadata in ({"a": {"b": 1}}, {"a": {"b": 1}}):
            self.assertEqual(caller.post(f"/runs/{task['trialId']}/metadata", {"runId": task["trialId"], "metadata": metadata},
                                         "metadata")["metadata"], metadata)
        self.assertEqual(caller.get(f"/runs/{task['trialId']}/metadata", "metadata")["metadata"], {"a": {"b": 1}})

    @replay
    def test_core_api_patch_of_checkpoints(self):
        _, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000002"
        self.checkpoint(task, caller, uuid, files=(("a", b"a"), ("b", b"b")))
        for _ in range(2):
            caller.call("PATCH", "/checkpoints", {"checkpoints": [{"uuid": uuid, "resources": {"resources": {"a": "1"}}}]})
        self.assertEqual(self.user.get(f"/checkpoints/{uuid}")["checkpoint"]["resources"], {"a": "1"})

    @replay
    def test_core_api_alert(self):
        experiment, task, caller = self.running()
        caller.post("/webhooks/custom", {"experimentId": experiment, "trialId": task["trialId"], "data": {
            "title": "look", "description": "at this", "level": "LOG_LEVEL_INFO"}})

    @replay
    def test_core_api_source_of_a_trial(self):
        _, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000003"
        self.checkpoint(task, caller, uuid)
        caller.report("/trial-source-info", {"trialSourceInfo": {
            "trialId": task["trialId"], "checkpointUuid": uuid, "modelId": None, "modelVersion": None,
            "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE"}}, "checkpointUuid trialId")
        self.metrics(task, caller, "validation", 20, {"validation_loss": 0.5})
        self.metrics(task, caller, "mine", 20, {"other": 1})
        self.user.post("/models", {"name": "source of a trial"})
        version = self.user.post("/models/source%20of%20a%20trial/versions", {"checkpointUuid": uuid})["modelVersion"]
        caller.post("/trial-source-info", {"trialSourceInfo": {
            "trialId": task["trialId"], "checkpointUuid": uuid, "modelId": version["model"]["id"], "modelVersion": 1,
            "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE"}})
        for path in (f"/checkpoints/{uuid}/metrics", "/models/source%20of%20a%20trial/versions/1/metrics"):
            for query, groups in (({}, ["mine", "validation"]), ({"metricGroup": "mine"}, ["mine"]),
                                  ({"trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE"}, ["mine", "validation"]),
                                  ({"trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_FINE_TUNING"}, [])):
                reports = self.user.get(path, "metrics:[MetricsReport]", **query)["metrics"]
                self.assertEqual([report["group"] for report in reports], groups, (path, query))
            self.user.call("GET", path, expect=400, trialSourceInfoType="OTHER")
        self.user.call("GET", "/models/source%20of%20a%20trial/versions/7/metrics", expect=404)

    @replay
    def test_core_api_cluster_calls(self):
        """Calls that only launchers on other systems make."""
        _, task, caller = self.running()
        allocation = task["allocationId"]
        resources = task["ranks"][0]["env"].get("DET_RESOURCES_ID") or task["env"]["DET_RESOURCES_ID"]
        self.user.get(f"/allocations/{allocation}", "allocation:Allocation")
        self.user.get(f"/tasks/{task['taskId']}", "task:Task")
        caller.post(f"/allocations/{allocation}/notify_container_running", {
            "allocationId": allocation, "data": {"addr": "127.0.0.1"}, "nodeName": "live", "numPeers": 1, "rank": 0,
            "requestUuid": "uuid-a"}, "data")
        caller.report(f"/allocations/{allocation}/proxy_address", {"allocationId": allocation, "proxyAddress": "127.0.0.1"})
        caller.report(f"/allocations/{allocation}/resources/{resources}/daemon", {
            "allocationId": allocation, "resourcesId": resources})
        caller.report(f"/allocations/{allocation}/signals/pending_preemption", {"allocationId": allocation})
        self.assertTrue(caller.get(f"/allocations/{allocation}/signals/preemption", timeout_seconds=0)["preempt"])

    @replay
    def test_core_api_daemons(self):
        """A machine that only runs daemons is ended with the last machine that does not, and the
        trial completes."""
        second = SimulatedAgent(self.cluster.port, self.agent.caller.token, "second")
        second.start()
        self.addCleanup(second.stop)
        wait_for("the second agent", lambda: len(self.user.get("/agents")["agents"]) == 2, 30)
        experiment = self.create(config=self.config.replace("slots_per_trial: 1", "slots_per_trial: 8"))
        parts = {agent.name: agent.task_of(experiment) for agent in (self.agent, second)}
        resources = parts["second"]["ranks"][0]["env"].get("DET_RESOURCES_ID") or parts["second"]["env"]["DET_RESOURCES_ID"]
        env = parts["second"]["env"]
        caller = self.nobody.caller(env["DET_SESSION_TOKEN"], task=True)
        caller.report(f"/allocations/{env['DET_ALLOCATION_ID']}/resources/{resources}/daemon", {
            "allocationId": env["DET_ALLOCATION_ID"], "resourcesId": resources})
        caller.call("POST", f"/allocations/{env['DET_ALLOCATION_ID']}/resources/none/daemon", expect=404)
        self.agent.end(parts["live"])
        self.wait_for_state(experiment, "STATE_COMPLETED")

    @replay
    def test_core_api_unmanaged(self):
        create = {"activate": None, "config": self.config, "modelDefinition": None, "parentId": None, "projectId": None,
                  "template": None, "unmanaged": True, "validateOnly": None}
        self.user.post("/experiments", create, f"{EXPERIMENT} config")
        for _ in range(2):
            experiment = self.user.call("PUT", "/experiments/by-external-id/run%201", create,
                                        f"{EXPERIMENT} config")["experiment"]["id"]
        trial = self.user.post("/trials", {"experimentId": experiment, "hparams": {"a": 1}, "unmanaged": True},
                               "trial:Trial")["trial"]["id"]
        ids = {self.user.call("PUT", "/trials", {"createTrialRequest": {
            "experimentId": experiment, "hparams": {"a": 2}, "unmanaged": True}, "externalTrialId": "t 1"},
            "trial:Trial")["trial"]["id"] for _ in range(2)}
        self.assertEqual(len(ids), 1)
        named = self.user.get("/trials/by-external-id/run%201/t%201", "trial:Trial")["trial"]
        self.assertEqual((named["id"], named["experimentId"]), (ids.pop(), experiment))
        self.user.call("GET", "/trials/by-external-id/run%201/none", expect=404)
        self.user.call("GET", "/trials/by-external-id/none/t%201", expect=404)
        self.user.post(f"/trials/{trial}/start", {"trialId": trial, "resume": False},
                       "stepsCompleted trialRunId latestCheckpoint?")
        self.user.call("PATCH", f"/trials/{trial}", {"trialId": trial, "state": "STATE_RUNNING"}, "trial:Trial")
        for _ in range(2):
            self.user.post(f"/trials/{trial}/metrics", {"group": "training", "metrics": {
                "trialId": trial, "trialRunId": 1, "stepsCompleted": 1, "reportTime": "2026-11-21T09:00:00Z",
                "metrics": {"avgMetrics": {"loss": 1.5}, "batchMetrics": None}}})
        task = self.user.get(f"/trials/{trial}", "trial:Trial")["trial"]["taskIds"][0]
        url = "//task-logs"
        if not self.nobody.document.find("POST", self.user.url(url, {})):
            raise NotServed("POST /task-logs")
        status, answer = self.user.request("POST", "/task-logs", json.dumps([{
            "task_id": task, "timestamp": "2026-11-21T09:00:00Z", "log": "hello\n", "level": "INFO"}]))
        self.assertEqual(status, 200, answer)
        self.user.call("PATCH", f"/trials/{trial}", {"trialId": trial, "state": "STATE_COMPLETED"}, "trial:Trial")
        self.assertEqual(self.user.get(f"/trials/{trial}")["trial"]["state"], "STATE_COMPLETED")


if __name__ == "__main__":
    unittest.main(verbosity=2)
