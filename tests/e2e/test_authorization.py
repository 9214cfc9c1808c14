"""A user learns nothing about the objects of another team, whichever parameter names them.

The routes and their parameters come from the OpenAPI document. Each parameter of a path, and
each parameter of a query or body whose name is that of an id, gets the id of an object of
another team, and then an id that does not exist: both answers must be the same. A new call with
such a parameter fails the test until ROWS or FREE has it.
"""

import json
import re
import unittest
import urllib.parse

from cluster import PASSWORD, Cluster, wait_for
from det import Det, SimulatedAgent

MARK = "zqxsecret"  # occurs in every object of the other team
UUID, NO_UUID = "10000000-0000-4000-8000-000000000001", "20000000-0000-4000-8000-000000000002"
CONFIG = """\
name: {mark}
entrypoint: x
labels: [{mark}]
hyperparameters: {{{mark}: 1}}
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: loss}}
"""
ID = re.compile(r"(^(id|ids|uuid|template|workspaceName|forkedFrom|updates|createTrialRequest|trialSourceInfo|checkpoints|trials)"
                r"|[a-z]Ids?|[uU]uids?|[a-z]Globs|templateName)$")

# Parameters that never name an object of another team.
FREE_NAMES = {
    "userId": "all users know the users", "userIds": "all users know the users",
    "agentId": "all users know the agents", "agentIds": "all users know the agents",
    "labels.agentId": "selects values of a trial in the path", "labels.gpuUuid": "the same",
    "containerIds": "a filter of the lines of one log", "allocationIds": "a filter of the lines of one log",
    "rankIds": "a filter of the lines of one log", "requestUuid": "the caller's own, one of its ranks",
    "externalTaskId": "a name that the caller gives (attack_names)", "externalExperimentId": "the same",
    "externalTrialId": "the same", "metricIds": "names of metrics of the given trials",
    "modelVersionNum": "checked after its model", "slotId": "all users know the agents",
    "trialRunId": "checked after its trial", "storageId": "one that the trial itself has named",
    "digest": "checked after its trial",
    "resourcesId": "checked after its allocation", "label": "checked after its experiment",
    "username": "all users know the users", "resourcePoolName": "all users know the pools",
    "groupId": "there are no such objects", "key": "there are no such objects",
    "workloadType": "there are no such objects", "clientId": "there are no such objects",
}
# The parameter repeats the path, or the call does not read it.
REPEATS = {"PATCH /experiments/{experimentId}": {"id"}, "POST /webhooks": {"id"}, "GET /tokens": set(),
           "POST /runs/{trialId}/metadata": {"runId"},
           **{f"POST /{noun}s/{{taskId}}/set_priority": {f"{noun}Id"}
              for noun in ("command", "shell", "notebook", "tensorboard")},
           **{f"POST /{noun}s": {"experimentIds", "trialIds", "templateName", "workspaceId"}
              for noun in ("shell", "notebook", "tensorboard")},  # refused with any value
           "POST /commands": {"experimentIds", "trialIds"},  # only for a TensorBoard
           "PATCH /models/{modelName}": {"workspaceId", "workspaceName"}}
ONLY_MOVES = {"destinationProjectId", "sourceProjectId", "projectId"}  # calls on many objects, which accept some of them

PLAIN = "name: n\nentrypoint: x\nresources: {slots_per_trial: 1}\nsearcher: {name: single, metric: loss}\n"
NEW = [{"config": PLAIN, "projectId": "$project"}, {"config": PLAIN, "parentId": "$experiment"},
       {"config": PLAIN, "template": "$template"}]
# A source_checkpoint_uuid that this master does not know may exist in the storage, so only a known
# one is refused.
SOURCES = [{"config": PLAIN.replace("metric: loss", "metric: loss, source_trial_id: $trial")},
           {"config": PLAIN.replace("metric: loss", "metric: loss, source_experiment_id: $experiment")}]
BULK = [{"experimentIds": ["$experiment"]}, {"experimentIds": ["$experiment"], "projectId": "$project"}]
ELSEWHERE = [{"experimentIds": ["$mine"], "destinationProjectId": "$project"}]
TRIALS = [{"trialIds": ["$trial"]}]

# The queries (GET) or bodies of each call that name objects of another team. "$trial" stands for
# the id of a trial, and so on.
ROWS = {
    "GET /tokens": [{"tokenIds": ["$token"]}],
    "PATCH /tokens/{tokenId}": [{"tokenId": "$token", "description": "x"}],
    "GET /experiments": [{"projectId": "$project"}],
    "POST /experiments": NEW + SOURCES,
    "POST /experiments/preview": NEW + SOURCES,
    "PUT /experiments/by-external-id/{externalExperimentId}": NEW,
    "POST /experiments/continue": [{"id": "$experiment"}],
    **{f"{method} /experiments/{verb}": BULK for method, verb in (
        ("POST", "pause"), ("POST", "activate"), ("POST", "cancel"), ("POST", "kill"), ("POST", "archive"),
        ("POST", "unarchive"), ("DELETE", "delete"))},
    "PUT /experiments/retain_logs": [{**row, "numDays": 3} for row in BULK],
    "POST /experiments/move": ELSEWHERE + [{"experimentIds": ["$experiment"], "destinationProjectId": "$here"}],
    **{f"POST /searches/{verb}": [{"searchIds": ["$experiment"]}, {"searchIds": ["$experiment"], "projectId": "$project"}]
       for verb in ("pause", "resume", "cancel", "kill", "archive", "unarchive", "delete")},
    **{f"POST /runs/{verb}": [{"runIds": ["$trial"]}, {"runIds": ["$trial"], "projectId": "$project"}]
       for verb in ("pause", "resume", "kill", "archive", "unarchive", "delete")},
    "POST /searches/move": [{"searchIds": ["$mine"], "destinationProjectId": "$project"},
                            {"searchIds": ["$experiment"], "sourceProjectId": "$project", "destinationProjectId": "$here"}],
    "POST /runs/move": [{"runIds": ["$mytrial"], "destinationProjectId": "$project"},
                        {"runIds": ["$trial"], "sourceProjectId": "$project", "destinationProjectId": "$here"}],
    "POST /experiments-search": [{"projectId": "$project"}],
    "GET /experiments/metrics-stream/metric-names": [{"ids": ["$experiment"]}, {"ids": ["$mine", "$experiment"]}],
    "GET /experiment/labels": [{"projectId": "$project"}],
    "POST /experiments/{experimentId}/move": [{"destinationProjectId": "$project"}],
    **{f"GET /trials/metrics/{kind}_metrics": TRIALS + [{"trialIds": ["$mytrial", "$trial"]}]
       for kind in ("training", "validation", "trial")},
    "GET /trials/time-series": [{"trialIds": ["$trial"], "metricNames": [MARK, "loss"], "startBatches": 0}],
    "POST /trials": [{"experimentId": "$unmanaged", "hparams": {}}],
    "PUT /trials": [{"createTrialRequest": {"experimentId": "$unmanaged"}, "externalTrialId": MARK}],
    "POST /runs/start": [{"runId": "$detached"}],
    "POST /trial-source-info": [{"trialSourceInfo": {"trialId": trial, "checkpointUuid": checkpoint,
                                                     "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE"}}
                                for trial, checkpoint in (("$mydetached", "$checkpoint"), ("$detached", UUID[:-1] + "9"))],
    "POST /checkpoints": [{"uuid": NO_UUID[:-1] + "3", "taskId": "$detachedtask", "allocationId": "", "state": "STATE_COMPLETED",
                           "resources": {}, "metadata": {"steps_completed": 1}, "reportTime": "2026-11-21T09:00:02Z",
                           "training": {}}],
    "DELETE /checkpoints": [{"checkpointUuids": ["$checkpoint"]}],
    "PATCH /checkpoints": [{"checkpoints": [{"uuid": "$checkpoint", "resources": {"resources": {}}}]}],
    "POST /checkpoints/rm": [{"checkpointUuids": ["$checkpoint"], "checkpointGlobs": ["*"]}],
    "POST /experiments/{experimentId}/history": [],  # trial numbers are local to the import and come after its experiment
    "GET /models": [{"workspaceIds": ["$workspace"]}, {"workspaceName": ["$workspacename"]}, {"id": "$model"}],
    "POST /models": [{"name": "other", "workspaceId": "$workspace"}, {"name": "other", "workspaceName": "$workspacename"}],
    "POST /models/{modelName}/move": [{"destinationWorkspaceId": "$workspace"}],
    "POST /models/{modelName}/versions": [{"checkpointUuid": "$checkpoint"}],
    "GET /model/labels": [{"workspaceId": "$workspace"}],
    "GET /templates": [{"workspaceIds": ["$workspace"]}],
    **{f"{method} /templates/{{templateName}}": [{"workspaceId": "$workspace"}] for method in ("GET", "PATCH", "DELETE")},
    **{f"{method} /templates/{{templateName}}": [{"config": {}, "workspaceId": "$workspace"}] for method in ("POST", "PUT")},
    "PATCH /template/rename": [{"oldName": "$template", "newName": "x"}],
    "POST /webhooks": [{"name": "w", "url": "https://example.com/x", "workspaceId": "$workspace", "mode": "WEBHOOK_MODE_WORKSPACE",
                        "webhookType": "WEBHOOK_TYPE_DEFAULT", "triggers": [
                            {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "COMPLETED"}}]}],
    "POST /webhooks/custom": [{"experimentId": "$experiment", "data": {"title": "t", "level": "LOG_LEVEL_INFO"}},
                              {"trialId": "$trial", "data": {"title": "t", "level": "LOG_LEVEL_INFO"}}],
    **{f"GET /{noun}": [{"workspaceId": "$workspace"}] for noun in (
        "generic-tasks", "commands", "shells", "notebooks", "tensorboards")},
    "POST /generic-tasks": [{"config": "entrypoint: x\n", "projectId": "$project"},
                            {"config": "entrypoint: x\n", "parentId": "$generic"},
                            {"config": "entrypoint: x\n", "parentId": "$generic", "inheritContext": True},
                            {"forkedFrom": "$generic", "config": ""}],
    "POST /commands": [{"config": {"entrypoint": ["x"]}, "workspaceId": "$workspace"},
                       {"config": {"entrypoint": ["x"]}, "templateName": "$template"}],
    "POST /projects/{projectId}/move": [{"destinationWorkspaceId": "$workspace"}],
    "POST /job-queues": [{"updates": [{"jobId": "$job", "priority": 50}]},
                         {"updates": [{"jobId": "$myjob", "aheadOf": "$job"}]},
                         {"updates": [{"jobId": "$myjob", "behindOf": "$job"}]}],
    "GET /events": [],  # each event is authorized for the caller by itself (unit.test_http_events)
}
# Rows whose path names an object of the caller, so that the body decides.
OWN_PATH = {"POST /experiments/{experimentId}/move": {"experimentId": "$mine"},
            "POST /projects/{projectId}/move": {"projectId": "$here"},
            "POST /models/{modelName}/move": {"modelName": "$mymodel"},
            "POST /models/{modelName}/versions": {"modelName": "$mymodel"},
            **{f"{method} /templates/{{templateName}}": {"templateName": "ours"} for method in ("POST", "PUT")},
            "PUT /experiments/by-external-id/{externalExperimentId}": {"externalExperimentId": "ours"}}
PATHS = {"experimentId": "experiment", "trialId": "trial", "taskId": "task", "allocationId": "allocation",
         "workspaceId": "workspace", "projectId": "project", "checkpointUuid": "checkpoint", "modelName": "model",
         "templateName": "template", "webhookId": "webhook", "tokenId": "token"}


class Authorization(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=())
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        cls.nobody = Det(cls.cluster.port)
        cls.document = cls.nobody.document
        cls.admin = cls.login("admin")
        for user in ("owner", "stranger"):
            cls.admin.post("/users", {"user": {"username": user, "admin": False, "active": True}, "password": PASSWORD})
        cls.owner, cls.stranger = cls.login("owner"), cls.login("stranger")
        cls.live = SimulatedAgent(cls.cluster.port, (cls.cluster.folder / "master" / "agent.token").read_text().strip())
        cls.live.start()
        cls.addClassCleanup(cls.live.stop)
        wait_for("the agent", lambda: cls.admin.get("/agents")["agents"], 30)
        cls.real = cls.things(cls.owner, MARK, UUID)
        mine = cls.things(cls.stranger, "plain", UUID[:-1] + "9")
        # A trial of the other team uses the caller's checkpoint, which it saw earlier.
        for role in ("viewer", "none"):
            cls.stranger.call("PATCH", f"/workspaces/{mine['workspace']}", {"defaultRole": role})
            if role == "viewer":
                cls.owner.post("/trial-source-info", {"trialSourceInfo": {
                    "trialId": cls.real["trial"], "checkpointUuid": mine["checkpoint"],
                    "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE"}})
        cls.checkpoint = mine["checkpoint"]
        shared = {"here": mine["project"], "mine": mine["experiment"], "mytrial": mine["trial"], "myjob": mine["job"],
                  "mymodel": mine["model"], "mydetached": mine["detached"]}
        cls.real.update(shared)
        cls.nowhere = {name: "999999" if isinstance(value, int) else NO_UUID if name in ("checkpoint", "job") else "no-such-thing"
                       for name, value in cls.real.items()}
        cls.nowhere.update({"task": "999.999", "generic": "999.999", "detachedtask": "999.999", "allocation": "999.999.1"}, **shared)
        cls.callers = {"user": cls.stranger, "task": cls.nobody.caller(mine["secret"], task=True)}

    @classmethod
    def login(cls, user):
        return cls.nobody.caller(cls.nobody.post("/auth/login", {"username": user, "password": PASSWORD})["token"])

    @classmethod
    def things(cls, user, mark, uuid):
        """Creates one object of each kind in a workspace that no other user sees; returns their
        ids."""
        config = CONFIG.format(mark=mark)
        workspace = user.post("/workspaces", {"name": mark, "defaultRole": "none"})["workspace"]["id"]
        project = user.post(f"/workspaces/{workspace}/projects", {"name": mark})["project"]["id"]
        made = user.post("/experiments", {"config": config, "projectId": project, "activate": True})["experiment"]
        running = cls.live.task_of(made["id"])
        task = cls.nobody.caller(running["env"]["DET_SESSION_TOKEN"], task=True)
        trial = running["trialId"]
        task.post("/checkpoints", {
            "uuid": uuid, "taskId": running["taskId"], "allocationId": running["allocationId"], "metadata": {"steps_completed": 1},
            "resources": {mark: "1"}, "state": "STATE_COMPLETED", "reportTime": "2026-11-21T09:00:02Z", "training": {}})
        for group in ("training", "validation"):
            task.post(f"/trials/{trial}/metrics", {"group": group, "metrics": {
                "trialId": trial, "trialRunId": 1, "stepsCompleted": 1, "metrics": {"avgMetrics": {"loss": 1.0, mark: 2.0}}}})
        unmanaged = user.post("/experiments", {"config": config, "projectId": project, "unmanaged": True,
                                               "externalExperimentId": mark})["experiment"]["id"]
        detached = user.post("/trials", {"experimentId": unmanaged, "hparams": {mark: 1}, "unmanaged": True})["trial"]
        model = user.post("/models", {"name": mark, "workspaceId": workspace})["model"]["id"]
        user.post(f"/models/{model}/versions", {"checkpointUuid": uuid, "name": mark})
        user.post(f"/templates/{mark}", {"config": {"description": mark}, "workspaceId": workspace})
        hook = user.post("/webhooks", {**ROWS["POST /webhooks"][0], "workspaceId": workspace, "name": mark})["webhook"]["id"]
        me = user.get("/me")["user"]["id"]
        user.post("/tokens", {"userId": me, "description": mark})
        token = user.get("/tokens")["tokenInfo"][0]["id"]
        generic = user.post("/generic-tasks", {"config": f"description: {mark}\nentrypoint: x\n", "projectId": project})["taskId"]
        jobs = {row["full"]["entityId"]: row["full"]["jobId"] for row in user.get("/job-queues-v2")["jobs"] if "full" in row}
        return {"workspace": workspace, "workspacename": mark, "project": project, "experiment": made["id"], "trial": trial,
                "task": running["taskId"], "allocation": running["allocationId"], "checkpoint": uuid, "unmanaged": unmanaged,
                "detached": detached["id"], "detachedtask": detached["taskId"], "model": model, "template": mark, "webhook": hook,
                "token": token, "generic": generic, "job": jobs[str(made["id"])], "secret": running["env"]["DET_SESSION_TOKEN"]}

    # requests

    def fill(self, value, things):
        if isinstance(value, dict):
            return {key: self.fill(item, things) for key, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item, things) for item in value]
        if not isinstance(value, str):
            return value
        whole = re.fullmatch(r"\$([a-z]+)", value)
        if whole and whole[1] in things:
            found = things[whole[1]]
            return int(found) if isinstance(self.real[whole[1]], int) else found
        return re.sub(r"\$([a-z]+)", lambda m: str(things.get(m[1], m[0])), value)

    def ask(self, caller, call, row, things, own=()):
        method, template = call.split(" ", 1)
        path = template if template.startswith(("/checkpoints/{", "/experiments/{experimentId}/preview_gc")) and \
            template in self.document.text["paths"] else None
        path = path or ("/api/v1" + template if "/api/v1" + template in self.document.text["paths"] else template)
        for name in re.findall(r"{(\w+)}", template):
            value = dict(own).get(name) or ("$" + PATHS[name] if name in PATHS else "1")
            path = path.replace("{%s}" % name, urllib.parse.quote(str(self.fill(value, things)), safe=""))
        row = self.fill(row, things)
        if method == "GET" or (row and set(row) == {"workspaceId"}):
            path += "?" + urllib.parse.urlencode(row or {}, doseq=True)
            row = {} if method == "PATCH" else None
        status, answer = caller.request(method, path, row, timeout=12)
        return status, answer if isinstance(answer, str) else json.dumps(answer) if not isinstance(answer, bytes) else repr(answer)

    def shape(self, answer, things):
        """Returns the answer without the ids that the request named."""
        answer = re.sub("|".join(re.escape(str(value)) for value in sorted(map(str, things.values()), key=len, reverse=True)), "#",
                        answer)
        return re.sub(r"#+", "#", re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z|\d+", "#", answer))

    def same(self, caller, call, row, own=()):
        there, absent = (self.ask(caller, call, row, things, own) for things in (self.real, self.nowhere))
        where = f"{call} {json.dumps(row)[:200]}"
        self.assertLess(there[0], 500, f"{where}: {there}")
        self.assertEqual(there[0], absent[0], f"{where}: {there} | {absent}")
        self.assertEqual(self.shape(there[1], self.real), self.shape(absent[1], self.nowhere), where)
        leaked = there[1].replace(MARK, "", 1) if row and MARK in json.dumps(self.fill(row, self.real)) else there[1]
        self.assertNotIn(MARK, leaked if there[0] < 300 else "", where)
        return there

    def calls(self):
        """Returns (name without /api/v1, operation) of the calls for users, or for tasks."""
        for method, path, operation in self.document.routes:
            schemes = {name for scheme in operation["security"] for name in scheme}
            if schemes & {"user", "task"}:
                yield f"{method} {path.removeprefix('/api/v1')}", operation, schemes

    def names(self, operation):
        """Returns the parameters of its query and body that are ids, by their names."""
        names = {p["name"] for p in operation["parameters"] if p["in"] == "query"}
        if "requestBody" in operation:
            schema = self.document.resolve(next(iter(operation["requestBody"]["content"].values()))["schema"])
            names |= set(schema.get("properties", {}))
        path = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        return {name for name in names if ID.search(name) and name not in FREE_NAMES} - path

    # tests

    def test_every_parameter_is_listed(self):
        known = set()
        for call, operation, schemes in self.calls():
            known.add(call)
            if "user" not in schemes:
                continue  # a task names its own allocation, which core_caller() checks
            for name in {p["name"] for p in operation["parameters"] if p["in"] == "path"}:
                self.assertTrue(name in PATHS or name in FREE_NAMES or name.startswith("external"), f"{call}: path {name}")
            used = {key for row in ROWS.get(call, []) for key in row}
            missing = self.names(operation) - used - REPEATS.get(call, set())
            if re.match(r"\w+ /(experiments|searches|runs)/[a-z_]+$", call) and not call.endswith("/move"):
                missing -= ONLY_MOVES
            if call.endswith("s/move"):
                missing -= {"projectId"}  # moves name the source
            if "/projects/{projectId}/experiments/" in call and not call.startswith("GET"):
                continue  # the project of the path is checked first
            if not ROWS.get(call, missing):
                continue  # listed in FREE, with the reason why there is no row
            with self.subTest(call=call):
                self.assertFalse(missing, f"{call} has no row in ROWS for {sorted(missing)}")
        self.assertFalse(set(ROWS) - known, "ROWS has calls that do not exist")

    def test_paths(self):
        """For each kind of caller, an object in the path is reported as not found."""
        for call, operation, schemes in self.calls():
            names = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
            if not names or names[0] not in PATHS or "all_gather" in call or "preemption" in call or "/rendezvous" in call:
                continue
            body = None
            if "requestBody" in operation:
                body = self.example(next(iter(operation["requestBody"]["content"].values()))["schema"])
            if call.endswith(" /templates/{templateName}") and call.startswith(("POST", "PUT")):
                continue  # creates the caller's own object (attack_names)
            for kind in sorted(schemes & set(self.callers)):
                with self.subTest(call=call, caller=kind):
                    status, answer = self.same(self.callers[kind], call, body)
                    self.assertIn(status, (400, 403, 404), f"{call} by {kind}: {answer[:300]}")

    def test_queries_and_bodies(self):
        for call, rows in ROWS.items():
            for row in rows:
                with self.subTest(call=call, row=row):
                    status, answer = self.same(self.stranger, call, row, OWN_PATH.get(call, {}))
                    if status == 400:
                        self.assertRegex(answer, "there is no|there are no", f"{call} {row}: {answer[:300]}")

    def test_zz_nothing_changed(self):
        """After all attempts the owner finds every object unchanged."""
        found = self.owner.get(f"/experiments/{self.real['experiment']}")["experiment"]
        self.assertEqual((found["name"], found["archived"], found["projectId"]), (MARK, False, self.real["project"]))
        self.assertIn(found["state"], ("STATE_RUNNING", "STATE_STARTING", "STATE_QUEUED", "STATE_PULLING"))
        self.assertEqual(self.owner.get(f"/checkpoints/{UUID}")["checkpoint"]["state"], "STATE_COMPLETED")
        self.assertEqual(self.owner.get(f"/templates/{MARK}")["template"]["config"], {"description": MARK})
        self.assertEqual(len(self.owner.get(f"/models/{self.real['model']}/versions")["modelVersions"]), 1)

    def test_users_of_a_checkpoint(self):
        for path in (f"/checkpoints/{self.checkpoint}/metrics", f"/models/{self.real['mymodel']}/versions/1/metrics"):
            self.assertNotIn(MARK, json.dumps(self.stranger.get(path)), path)
        self.assertIn(MARK, json.dumps(self.admin.get(f"/checkpoints/{self.checkpoint}/metrics")))

    def test_lists(self):
        """Lists without a parameter do not show the objects either."""
        for call, operation, schemes in self.calls():
            if not call.startswith("GET ") or "{" in call or "user" not in schemes or "/events" in call:
                continue
            status, answer = self.ask(self.stranger, call, None, self.real)
            self.assertNotIn(MARK, answer, call)

    def example(self, schema):
        schema = self.document.resolve(schema)
        if "oneOf" in schema:
            return self.example(schema["oneOf"][0])
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type", "object")
        kind = kind if isinstance(kind, str) else kind[0]
        if kind == "object":
            return {name: self.example(schema["properties"][name]) for name in schema.get("required", [])}
        text = "2026-11-21T09:00:00Z" if schema.get("format") == "date-time" else "1"
        return {"array": [], "string": text, "integer": 1, "number": 1.5, "boolean": False, "null": None}[kind]


if __name__ == "__main__":
    unittest.main(verbosity=2)
