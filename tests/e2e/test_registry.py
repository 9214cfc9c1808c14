"""The registry and administration of a real muster-master: models, templates, webhooks, tokens, the
audit trail and the master's own log. No agent runs here; where a test needs one, it sends the
agent's messages itself."""

import csv
import hashlib
import hmac
import io
import json
import threading
import time
import unittest
import uuid

from cluster import PASSWORD, Cluster, wait_for
from test_api import CONFIG, Api, FakeAgent
from webhook_receiver import WebhookReceiver

MODEL_KEYS = "id name metadata creationTime lastUpdatedTime numVersions username userId archived workspaceId".split()
VERSION_KEYS = "id version model checkpoint creationTime lastUpdatedTime".split()


class Registry(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=())
        cls.cluster.start_master()
        cls.port = cls.cluster.port
        cls.user = Api(cls.port, cls.login("determined"))
        cls.admin = Api(cls.port, cls.login("admin"))
        token = (cls.cluster.folder / "master" / "agent.token").read_text().strip()
        cls.agent = FakeAgent(Api(cls.port, token))
        cls.agent.sync()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    @classmethod
    def login(cls, user, password=PASSWORD):
        status, answer = Api(cls.port).call("POST", "/api/v1/auth/login",
                                            {"username": user, "password": password, "isHashed": False})
        assert status == 200, answer
        return answer["token"]

    def refused(self, status, caller, method, path, body=None):
        got, answer = caller.call(method, "/api/v1" + path, body)
        self.assertEqual(got, status, answer)
        return answer["error"]["error"]

    def make_user(self, name, **more):
        self.admin.post("/users", {"user": {"username": name, "active": True, **more}, "password": PASSWORD,
                                   "isHashed": False})
        return Api(self.port, self.login(name))

    def run_trial(self, config=CONFIG, **more):
        """Submits an experiment, starts it and reports one checkpoint; returns (experiment, task,
        its caller, the checkpoint)."""
        experiment = self.user.post("/experiments", {"config": config, "activate": True, **more})["experiment"]["id"]
        task = self.agent.wait_for("RUN")
        self.agent.say(task, "RUNNING")
        caller = Api(self.port, task["env"]["DET_SESSION_TOKEN"], task=True)
        checkpoint = str(uuid.uuid4())
        caller.post("/checkpoints", {
            "uuid": checkpoint, "taskId": task["taskId"], "allocationId": task["allocationId"],
            "metadata": {"steps_completed": 7}, "resources": {"weights": "10"}, "state": "STATE_COMPLETED",
            "reportTime": "2026-11-21T09:00:00Z", "training": {}})
        return experiment, task, caller, checkpoint

    def end_trial(self, experiment, task, exit_code=0, state="COMPLETED"):
        self.agent.say(task, "EXITED", exit_code=exit_code)
        wait_for(f"experiment {experiment} to be {state}", lambda: self.user.get(
            f"/experiments/{experiment}")["experiment"]["state"] == f"STATE_{state}", 30)

    # models

    def at_once(self, path, bodies):
        start, answers = threading.Barrier(len(bodies)), []

        def call(body):
            start.wait(20)
            answers.append(self.user.call("POST", "/api/v1" + path, body))

        threads = [threading.Thread(target=call, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return answers

    def test_concurrent_calls_for_one_name(self):
        """One call gets the name; the error of the others speaks of the name, not of the database.
        """
        for name in (f"race-{i}" for i in range(6)):
            for path, bodies in (("/models", [{"name": name, "notes": str(i)} for i in range(12)]),
                                 (f"/templates/{name}", [{"config": {"max_restarts": i}} for i in range(12)])):
                answers = self.at_once(path, bodies)
                self.assertEqual(sorted(status for status, _ in answers), [200] + [409] * 11, answers)
                self.assertNotIn("UNIQUE", json.dumps(answers))
            self.user.ok("DELETE", f"/models/{name}")
            self.user.ok("DELETE", f"/templates/{name}")

    def test_models(self):
        experiment, task, _, checkpoint = self.run_trial()
        self.end_trial(experiment, task)
        wanted = {"name": "mammals/one".replace("/", "-"), "description": "of fur", "metadata": {"a": {"b": 1}},
                  "labels": ["x", "y"], "notes": None, "workspaceId": None, "username": "determined"}
        model = self.user.post("/models", wanted)["model"]
        for key in MODEL_KEYS:
            self.assertIsNotNone(model.get(key), key)
        self.assertEqual((model["workspaceId"], model["numVersions"], model["metadata"]), (1, 0, {"a": {"b": 1}}))
        self.assertIn("already", self.refused(409, self.user, "POST", "/models", wanted))  # as with Determined
        self.refused(400, self.user, "POST", "/models", {"name": "123"})
        self.refused(400, self.user, "POST", "/models", {"name": "a/b"})

        versions = f"/models/{model['name']}/versions"
        first = self.user.post(versions, {"checkpointUuid": checkpoint, "name": "v", "comment": "c", "labels": ["z"]})
        first = first["modelVersion"]
        for key in VERSION_KEYS:
            self.assertIsNotNone(first.get(key), key)
        self.assertEqual((first["version"], first["model"]["id"]), (1, model["id"]))
        training = first["checkpoint"]["training"]
        self.assertEqual((training["experimentId"], first["checkpoint"]["uuid"]), (experiment, checkpoint))
        self.assertEqual(training["experimentConfig"]["name"], "api test")
        again = self.user.post(versions, {"checkpoint_uuid": checkpoint, "name": "v", "comment": "c", "labels": ["z"]})
        self.assertEqual(again["modelVersion"]["version"], 1, "a repetition")
        second = self.user.post(versions, {"checkpointUuid": checkpoint, "comment": "other"})["modelVersion"]
        self.assertEqual(second["version"], 2)
        listed = self.user.get(f"/models/{model['id']}/versions?sortBy=SORT_BY_VERSION&orderBy=ORDER_BY_ASC&limit=1")
        self.assertEqual((listed["model"]["numVersions"], [v["version"] for v in listed["modelVersions"]],
                          listed["pagination"]["total"]), (2, [1], 2))
        self.refused(404, self.user, "POST", versions, {"checkpointUuid": str(uuid.uuid4())})

        # Checkpoints in the registry are kept.
        self.user.ok("PATCH", f"{versions}/2", {"notes": "n", "metadata": {"k": 2}})
        self.assertEqual(self.user.get(f"{versions}/2")["modelVersion"]["notes"], "n")
        self.user.ok("DELETE", f"{versions}/2")
        self.refused(404, self.user, "GET", f"{versions}/2")
        third = self.user.post(versions, {"checkpointUuid": checkpoint, "comment": "third"})["modelVersion"]
        self.assertEqual(third["version"], 3, "a version number is never reused")

        self.user.ok("PATCH", f"/models/{model['id']}", {"name": "mammals", "labels": ["y", "w"], "description": None})
        renamed = self.user.get("/models/mammals")["model"]
        self.assertEqual((renamed["description"], renamed["labels"]), ("of fur", ["y", "w"]))
        self.assertEqual(self.user.get("/model/labels")["labels"], ["w", "y"])
        found = self.user.get("/models?labels=y&labels=w&name=MAMM&users=determined&archived=false")
        self.assertEqual([m["id"] for m in found["models"]], [model["id"]])
        self.assertEqual(self.user.get("/models?labels=x")["models"], [])
        self.user.post("/models/mammals/archive")
        self.assertIn("archived", self.refused(409, self.user, "POST", "/models/mammals/versions",
                                               {"checkpointUuid": checkpoint, "comment": "late"}))
        self.user.post("/models/mammals/unarchive")

        # a workspace of its own, which other users cannot see
        workspace = self.admin.post("/workspaces", {"name": "closed"})["workspace"]["id"]
        self.admin.ok("PATCH", f"/workspaces/{workspace}", {"defaultRole": "none"})
        self.refused(404, self.user, "POST", "/models/mammals/move", {"destinationWorkspaceId": workspace})
        self.admin.post("/models/mammals/move", {"destinationWorkspaceId": workspace})
        self.refused(404, self.user, "GET", "/models/mammals")
        self.assertEqual(self.user.get("/models")["pagination"]["total"], 0)
        self.assertIn("models", self.refused(400, self.admin, "DELETE", f"/workspaces/{workspace}"))
        self.admin.ok("DELETE", "/models/mammals")
        self.admin.ok("DELETE", f"/workspaces/{workspace}")

    # templates

    def test_templates(self):
        template = {"description": "from the template", "labels": ["two", "three"], "max_restarts": 3,
                    "resources": {"slots_per_trial": 1, "shm_size": 1024},
                    "hyperparameters": {"width": 1, "depth": 2},
                    "environment": {"environment_variables": ["A=1", "B=1"]},
                    "bind_mounts": [{"host_path": "/a", "container_path": "/data"}]}
        made = self.user.post("/templates/base", {"name": "base", "config": template, "workspaceId": 0})["template"]
        self.assertEqual((made["name"], made["workspaceId"], made["config"]), ("base", 1, template))
        self.user.post("/templates/base", {"name": "base", "config": template})
        self.refused(409, self.user, "POST", "/templates/base", {"config": {"max_restarts": 1}})
        config = CONFIG + ("environment: {environment_variables: [B=2]}\n"
                           "bind_mounts: [{host_path: /b, container_path: /data}, {host_path: /c, container_path: /c}]\n")
        answer = self.user.post("/experiments", {"config": config, "template": "base", "validateOnly": True})["config"]
        self.assertEqual(answer["description"], "by the test of the API", "the submission wins over the template")
        self.assertEqual(answer["max_restarts"], 0)
        self.assertEqual(answer["labels"], ["one", "two", "three"])
        self.assertEqual((answer["resources"]["slots_per_trial"], answer["resources"]["shm_size"]), (2, 1024))
        self.assertEqual({k: v["val"] for k, v in answer["hyperparameters"].items()}, {"width": 64, "depth": 2})
        self.assertEqual(answer["environment"]["environment_variables"], ["A=1", "B=1", "B=2"])
        self.assertEqual([m["host_path"] for m in answer["bind_mounts"]], ["/b", "/c"])
        self.assertIn("not found", self.refused(404, self.user, "POST", "/experiments",
                                                {"config": CONFIG, "template": "nope"}))
        odd = {"config": "# for all\nmax_restarts: 2\nresource: {}\n", "validateOnly": True}
        self.assertEqual(self.user.ok("PUT", "/templates/base", odd),
                         {"warningTexts": ['config:3:1: resource: unknown key; did you mean "resources"?']})
        self.assertIn("config:1:", self.refused(400, self.user, "PUT", "/templates/base", {"config": "a: ]"}))
        self.assertEqual(self.user.get("/templates/base")["template"]["config"], template)
        written = self.user.ok("PUT", "/templates/base", {"config": "# for all\nmax_restarts: 2\n"})
        self.assertEqual((written["template"]["config"], "warningTexts" in written), ({"max_restarts": 2}, False))
        changed = self.user.ok("PATCH", "/templates/base", {"max_restarts": 1})["template"]
        self.assertEqual(changed["config"], {"max_restarts": 1})
        self.user.ok("PUT", "/templates/other", {"name": "other", "config": {}})
        listed = self.user.get("/templates?name=bas")
        self.assertEqual(([t["name"] for t in listed["templates"]], listed["pagination"]["total"]), (["base"], 1))
        viewer = self.make_user("template-viewer")
        self.admin.ok("PUT", f"/workspaces/1/members/{viewer.get('/me')['user']['id']}", {"role": "viewer"})
        self.assertEqual(viewer.get("/templates/base")["template"]["name"], "base")
        self.refused(403, viewer, "PATCH", "/templates/base", {"max_restarts": 2})
        self.refused(403, viewer, "DELETE", "/templates/base")
        self.user.ok("DELETE", "/templates/base")
        self.refused(404, self.user, "GET", "/templates/base")

    # webhooks

    def hook(self, sink, trigger, condition, caller=None, **more):
        return (caller or self.admin).post("/webhooks", {
            "url": sink.url, "webhookType": "WEBHOOK_TYPE_DEFAULT", "mode": "WEBHOOK_MODE_WORKSPACE",
            "name": f"hook-{uuid.uuid4()}", "triggers": [{"triggerType": trigger, "condition": condition}],
            **more})["webhook"]

    def test_webhook_survives_failures_and_a_kill(self):
        sink = WebhookReceiver(fails=2)
        self.addCleanup(sink.close)
        hook = self.hook(sink, "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", {"state": "COMPLETED"})
        experiment, task, _, _ = self.run_trial()
        self.end_trial(experiment, task)
        wait_for("the first attempt", lambda: len(sink.requests) >= 1, 20)
        self.cluster.master.kill9()
        self.cluster.start_master()
        wait_for("the event to be accepted", sink.taken, 40)
        key = (self.cluster.folder / "master" / "webhook.key").read_text().strip().encode()
        for headers, body in sink.requests:
            stamp = headers["X-Determined-AI-Signature-Timestamp"]
            self.assertEqual(headers["X-Determined-AI-Signature"],
                             hmac.new(key, stamp.encode() + b"," + body, hashlib.sha256).hexdigest())
        event = sink.taken()[0]
        self.assertEqual((event["event_type"], event["condition"]), ("EXPERIMENT_STATE_CHANGE", {"state": "COMPLETED"}))
        about = event["event_data"]["experiment"]
        self.assertEqual((about["id"], about["state"], about["name"], about["slots_per_trial"], about["workspace"]),
                         (experiment, "COMPLETED", "api test", 2, "Uncategorized"))
        time.sleep(3)
        self.assertEqual(len(sink.taken()), 1, "an accepted event is not sent again")
        self.assertEqual({e for e in sink.seen}, {event["event_id"]}, "every attempt sends the same event")
        self.admin.ok("DELETE", f"/webhooks/{hook['id']}")

    def test_webhooks_of_programs_lines_and_metrics(self):
        sink = WebhookReceiver()
        self.addCleanup(sink.close)
        named = self.hook(sink, "TRIGGER_TYPE_CUSTOM", {}, mode="WEBHOOK_MODE_SPECIFIC")
        other = self.hook(sink, "TRIGGER_TYPE_CUSTOM", {}, mode="WEBHOOK_MODE_SPECIFIC")
        line = self.hook(sink, "TRIGGER_TYPE_TASK_LOG", {"regex": "out of [a-z]+"})
        metric = self.hook(sink, "TRIGGER_TYPE_METRIC_THRESHOLD_EXCEEDED", {"metric": "validation_loss", "below": 0.5})
        config = CONFIG + f"integrations: {{webhooks: {{webhook_name: [{named['name']}]}}}}\n"
        experiment, task, caller, _ = self.run_trial(config)
        alert = {"experimentId": experiment, "trialId": task["trialId"],
                 "data": {"title": "hot", "description": "very", "level": "LOG_LEVEL_WARNING"}}
        caller.post("/webhooks/custom", alert)
        caller.post("/webhooks/custom", alert)
        self.refused(403, caller, "POST", "/webhooks/custom", {**alert, "experimentId": experiment + 1})
        entry = {"task_id": task["taskId"], "allocation_id": task["allocationId"], "agent_id": "fake", "rank_id": 0,
                 "container_id": "c", "timestamp": "2026-11-21T09:00:00Z", "level": "LOG_LEVEL_INFO"}
        for n in range(3):
            caller.post("/task/logs", {"logs": [{**entry, "log": "we ran out of memory\n", "sequence": n}]})
        for steps, loss in ((1, 0.9), (2, 0.4), (3, 0.3)):
            caller.post(f"/trials/{task['trialId']}/metrics", {"group": "validation", "metrics": {
                "trialId": task["trialId"], "trialRunId": 1, "stepsCompleted": steps,
                "metrics": {"avgMetrics": {"validation_loss": loss}}}})
        wait_for("three events", lambda: len(sink.taken()) >= 3, 20)
        time.sleep(2)
        events = {e["event_type"]: e for e in sink.taken()}
        self.assertEqual(len(sink.taken()), 3, "alerts are not repeated; the other triggers fire once for a trial")
        self.assertEqual(events["CUSTOM"]["event_data"]["custom_data"],
                         {"title": "hot", "description": "very", "level": "WARNING"})
        self.assertEqual(events["CUSTOM"]["event_data"]["experiment"]["trial_id"], task["trialId"])
        self.assertEqual(events["TASK_LOG"]["event_data"]["task_log"],
                         {"task_id": task["taskId"], "node_name": "fake", "triggering_log": "we ran out of memory"})
        self.assertEqual(events["METRIC_THRESHOLD_EXCEEDED"]["event_data"]["metric"],
                         {"name": "validation_loss", "value": 0.4, "steps_completed": 2})
        self.end_trial(experiment, task)
        for hook in (named, other, line, metric):
            self.admin.ok("DELETE", f"/webhooks/{hook['id']}")

    def test_webhook_calls(self):
        sink = WebhookReceiver()
        self.addCleanup(sink.close)
        self.refused(403, self.user, "POST", "/webhooks", {"url": sink.url, "name": "x", "triggers": [
            {"triggerType": "TRIGGER_TYPE_CUSTOM", "condition": {}}], "mode": "WEBHOOK_MODE_SPECIFIC"})
        for bad in ({"url": "file:///etc/passwd"}, {"url": "no address"}, {"triggers": []},
                    {"triggers": [{"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "("}}]},
                    {"triggers": [{"triggerType": "TRIGGER_TYPE_CUSTOM", "condition": {}}]},
                    {"triggers": [{"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "?"}}]}):
            good = {"url": sink.url, "name": "bad", "webhookType": "WEBHOOK_TYPE_DEFAULT", "triggers": [
                {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "ERROR"}}]}
            self.refused(400, self.admin, "POST", "/webhooks", {**good, **bad})
        hook = self.hook(sink, "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", {"state": "ERROR"},
                         webhookType="WEBHOOK_TYPE_SLACK")
        self.assertIn(hook["id"], [h["id"] for h in self.admin.get("/webhooks")["webhooks"]])
        self.assertEqual(self.user.get("/webhooks")["webhooks"], [])
        self.refused(404, self.user, "GET", f"/webhooks/{hook['id']}")
        self.assertTrue(self.admin.post(f"/webhooks/{hook['id']}/test")["completed"])
        self.assertIn("blocks", json.loads(sink.requests[-1][1]))
        self.admin.ok("PATCH", f"/webhooks/{hook['id']}", {"url": "http://127.0.0.1:9/"})
        self.assertIn("reached", self.refused(400, self.admin, "POST", f"/webhooks/{hook['id']}/test"))

        # A webhook of a workspace, made by its administrator, cannot send into private networks.
        workspace = self.user.post("/workspaces", {"name": "hooks"})["workspace"]["id"]
        own = self.hook(sink, "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", {"state": "ERROR"}, self.user,
                        workspaceId=workspace)
        before = len(sink.requests)
        self.assertIn("private", self.refused(400, self.user, "POST", f"/webhooks/{own['id']}/test"))
        self.assertEqual(len(sink.requests), before)
        self.user.ok("DELETE", f"/workspaces/{workspace}")
        self.refused(404, self.admin, "GET", f"/webhooks/{own['id']}")
        self.admin.ok("DELETE", f"/webhooks/{hook['id']}")

    # identity

    def test_tokens(self):
        person = self.make_user("robot-keeper")
        me = person.get("/me")["user"]["id"]
        made = person.post("/tokens", {"userId": me, "lifespan": "72h", "description": "ci"})
        robot = Api(self.port, made["token"])
        self.assertEqual(robot.get("/me")["user"]["id"], me)
        info = person.get("/tokens")["tokenInfo"]
        self.assertEqual([(t["id"], t["description"], t["revoked"], t["tokenType"]) for t in info],
                         [(made["tokenId"], "ci", False, "TOKEN_TYPE_ACCESS_TOKEN")])
        self.assertNotIn(made["token"], json.dumps(info))
        self.refused(403, self.user, "POST", "/tokens", {"userId": me})
        self.refused(404, self.user, "PATCH", f"/tokens/{made['tokenId']}", {"setRevoked": True})
        self.refused(400, person, "POST", "/tokens", {"lifespan": "tomorrow"})
        forever = person.post("/tokens", {"lifespan": "-1"})["tokenId"]
        self.assertIsNone(person.get(f"/tokens?tokenIds={forever}")["tokenInfo"][0]["expiry"])
        person.ok("PATCH", f"/tokens/{made['tokenId']}", {"description": "ci 2", "setRevoked": False})
        revoked = person.ok("PATCH", f"/tokens/{made['tokenId']}", {"setRevoked": True})["tokenInfo"]
        self.assertEqual((revoked["revoked"], revoked["description"]), (True, "ci 2"))
        self.assertEqual(robot.call("GET", "/api/v1/me")[0], 401)
        self.assertEqual([t["id"] for t in person.get("/tokens")["tokenInfo"]], [forever])
        self.assertEqual(len(person.get("/tokens?showInactive=true")["tokenInfo"]), 2)
        self.refused(409, person, "PATCH", f"/tokens/{made['tokenId']}", {"description": "late"})
        short = person.post("/tokens", {"lifespan": "200ms"})["token"]
        time.sleep(0.3)
        self.assertEqual(Api(self.port, short).call("GET", "/api/v1/me")[0], 401)
        # Deactivation takes effect at once; reactivation does not restore sessions.
        for active in (False, True):
            self.admin.ok("PATCH", f"/users/{me}", {"active": active})
            self.assertEqual(person.call("GET", "/api/v1/me")[0], 401)
        person = Api(self.port, self.login("robot-keeper"))
        self.assertEqual(person.call("GET", "/api/v1/me")[0], 200)
        # A new password ends all other sessions.
        self.admin.ok("PATCH", f"/users/{me}", {"password": "something else", "isHashed": False})
        self.assertEqual(person.call("GET", "/api/v1/me")[0], 401)

    def test_users(self):
        person = self.make_user("linked", agentUserGroup={"agentUid": 1001, "agentGid": 1002, "agentUser": "a",
                                                          "agentGroup": "b"})
        user = person.get("/me")["user"]
        self.assertEqual(user["agentUserGroup"]["agentGid"], 1002)
        self.assertIsNotNone(user["lastAuthAt"])
        self.refused(403, person, "PATCH", f"/users/{user['id']}", {"agentUserGroup": user["agentUserGroup"]})
        for part in ({"agentUid": 0, "agentGid": 0}, {"agentUser": "a"}, {},
                     {"agentUid": 0, "agentUser": "", "agentGid": 0, "agentGroup": "a"}):
            self.refused(400, self.admin, "PATCH", f"/users/{user['id']}", {"agentUserGroup": part})
        for name, number in (("agentUid", 0), ("agentUid", 999), ("agentGid", 0), ("agentGid", 6)):
            answer = self.refused(400, self.admin, "PATCH", f"/users/{user['id']}",
                                  {"agentUserGroup": {**user["agentUserGroup"], name: number}})
            self.assertIn("tasks cannot run as root or as an account of the system", str(answer))
        person.post("/users/setting", {"settings": [{"key": "k", "storagePath": "p", "value": "1"}]})
        person.post("/users/setting", {"settings": [{"key": "k", "storagePath": "p", "value": "2"}]})
        self.assertEqual(person.get("/users/setting")["settings"], [{"key": "k", "storagePath": "p", "value": "2"}])
        self.assertEqual(self.user.get("/users/setting")["settings"], [])
        person.post("/users/setting/reset")
        self.assertEqual(person.get("/users/setting")["settings"], [])

    def test_login_throttle(self):
        self.make_user("guessed")
        for _ in range(10):
            status, _ = Api(self.port).call("POST", "/api/v1/auth/login", {"username": "guessed", "password": "no"})
            self.assertEqual(status, 401)
        connection, response = Api(self.port).open("POST", "/api/v1/auth/login",
                                                   {"username": "guessed", "password": PASSWORD, "isHashed": False})
        response.read()
        self.assertEqual(response.status, 429)
        self.assertTrue(1 < int(response.getheader("Retry-After")) <= 60)
        connection.close()
        self.login("determined")  # other users can still sign in

    def test_audit(self):
        secret = "xyzzy-" + str(uuid.uuid4())
        person = self.make_user("audited")
        identity = person.get("/me")["user"]["id"]
        self.admin.ok("PATCH", f"/users/{identity}", {"displayName": "Aud", "password": secret, "isHashed": False})
        person = Api(self.port, self.login("audited", secret))
        workspace = person.post("/workspaces", {"name": "audited"})["workspace"]["id"]
        self.refused(403, person, "POST", "/users", {"user": {"username": "no"}})
        Api(self.port).call("POST", "/api/v1/auth/login", {"username": "audited", "password": "wrong"})

        def trail():
            return self.admin.get("/audit?user=audited&orderBy=ORDER_BY_ASC")["audit"]
        wait_for("the rows of refusals, which are written asynchronously", lambda: len(trail()) >= 5, 10)
        rows = trail()
        seen = [(r["method"], r["path"], r["status"]) for r in rows]
        self.assertEqual(seen, [("POST", "/api/v1/auth/login", 200), ("POST", "/api/v1/auth/login", 200),
                                ("POST", "/api/v1/workspaces", 200), ("POST", "/api/v1/users", 403),
                                ("POST", "/api/v1/auth/login", 401)])
        self.assertEqual(rows[2]["detail"], "name=audited")
        self.assertEqual(rows[2]["address"], "127.0.0.1")
        mine = self.admin.get(f"/audit?user=admin&path=/users/{identity}&method=PATCH")["audit"]
        self.assertEqual(mine[0]["detail"], "displayName=Aud, password, isHashed=false")
        everything = json.dumps(self.admin.get("/audit?limit=0"))
        self.assertNotIn(secret, everything)
        self.assertNotIn(PASSWORD, everything)
        self.refused(403, person, "GET", "/audit")
        self.assertEqual(self.admin.get("/audit?since=2100-01-01T00:00:00Z")["pagination"]["total"], 0)
        self.refused(400, self.admin, "GET", "/audit?since=yesterday")
        for order, ids in (("", [r["id"] for r in reversed(rows)]), ("&orderBy=ORDER_BY_ASC", [r["id"] for r in rows])):
            page, found = self.admin.get(f"/audit?user=audited&limit=2{order}"), []
            self.assertEqual((page["pagination"]["total"], page["totalIsLeast"]), (len(ids), False))
            while True:
                found += [r["id"] for r in page["audit"]]
                if not page["nextCursor"]:
                    break
                page = self.admin.get(f"/audit?user=audited&limit=2{order}&cursor={page['nextCursor']}")
                self.assertTrue(page["totalIsLeast"])
            self.assertEqual(found, ids)
        self.refused(400, self.admin, "GET", "/audit?cursor=x")
        person.ok("DELETE", f"/workspaces/{workspace}")

    # the master

    def test_master(self):
        entries = [line["logEntry"] for line in self.admin.lines("/master/logs?offset=-3")]
        self.assertTrue(1 <= len(entries) <= 3)
        self.assertTrue(all(e["level"].startswith("LOG_LEVEL_") and e["message"] for e in entries))
        followed = []
        connection, response = self.admin.open("GET", "/api/v1/master/logs?follow=true&offset=-1&limit=2")
        follower = threading.Thread(target=lambda: followed.append(response.read()))
        follower.start()
        self.admin.ok("PATCH", "/master/config", {"config": {"log": {"level": "info"}}})
        follower.join(10)
        connection.close()
        self.assertIn(b"the log level was changed", followed[0])
        self.refused(400, self.admin, "PATCH", "/master/config", {"config": {"log": {"level": "loud"}}})
        config = self.admin.get("/master/config")["config"]
        self.assertEqual(config["log"]["level"], "info")
        key = (self.cluster.folder / "master" / "webhook.key").read_text().strip()
        self.assertNotIn(key, json.dumps(config))

        self.assertIsNone(self.admin.get("/master/cluster_message")["clusterMessage"])
        self.refused(403, self.user, "GET", "/master/cluster_message")
        self.refused(403, self.user, "PUT", "/master/cluster_message", {"message": "x"})
        self.refused(400, self.admin, "PUT", "/master/cluster_message", {"message": "x" * 251})
        self.refused(400, self.admin, "PUT", "/master/cluster_message",
                     {"message": "x", "endTime": "2020-01-01T00:00:00Z"})
        self.admin.ok("PUT", "/master/cluster_message", {"message": "soon", "startTime": "2100-01-01T00:00:00Z",
                                                         "endTime": None})
        self.assertIsNone(self.user.get("/master")["clusterMessage"])
        self.assertEqual(self.admin.get("/master/cluster_message")["clusterMessage"]["message"], "soon")
        self.admin.ok("PUT", "/master/cluster_message", {"message": "now", "duration": "1h"})
        self.assertEqual(self.user.get("/master")["clusterMessage"]["message"], "now")
        self.assertEqual(Api(self.port).get("/master")["clusterMessage"]["message"], "now")
        self.admin.ok("DELETE", "/master/cluster_message")
        self.assertIsNone(Api(self.port).get("/master")["clusterMessage"])
        self.assertEqual(self.user.get("/master/telemetry")["enabled"], False)

    def test_resources(self):
        experiment, task, _, _ = self.run_trial()
        time.sleep(1)
        self.end_trial(experiment, task)
        span = "timestamp_after=2020-01-01T00:00:00Z&timestamp_before=2100-01-01T00:00:00Z"
        status, text = self.user.call("GET", f"/resources/allocation/raw?{span}")
        self.assertEqual(status, 200)
        rows = [r for r in csv.DictReader(io.StringIO(text.decode())) if int(r["experiment_id"]) == experiment]
        self.assertEqual([(r["username"], r["slots"], r["labels"]) for r in rows], [("determined", "2", "one,two")])
        seconds = float(rows[0]["seconds"])
        self.assertGreaterEqual(seconds, 1)
        entry = [e for e in self.user.get(f"/resources/allocation/raw?{span}")["resourceEntries"]
                 if e["experimentId"] == experiment][0]
        self.assertEqual((entry["slots"], entry["labels"]), (2, ["one", "two"]))
        self.user.ok("PUT", f"/experiments/{experiment}/labels/%3D1%2B1")
        today = time.strftime("%Y-%m-%d", time.gmtime(time.time()))
        daily = f"start_date={today}&end_date={today}&period=RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY"
        status, text = self.user.call("GET", f"/resources/allocation/aggregated?{daily}")
        sums = {(r["aggregation_type"], r["aggregation_key"]): float(r["seconds"])
                for r in csv.DictReader(io.StringIO(text.decode()))}
        self.assertIn(("experiment_label", "'=1+1"), sums)  # a spreadsheet would compute this cell
        self.assertGreaterEqual(sums["total", "total"] + 0.01, 2 * seconds)
        self.assertAlmostEqual(sums["total", "total"], sums["username", "determined"], 3)
        month = f"startDate={today[:7]}&endDate={today[:7]}&period=RESOURCE_ALLOCATION_AGGREGATION_PERIOD_MONTHLY"
        months = self.user.get(f"/resources/allocation/aggregated?{month}")["resourceEntries"]
        self.assertEqual([m["periodStart"] for m in months], [today[:7]])
        self.assertGreaterEqual(months[0]["seconds"] + 0.01, sums["total", "total"])
        self.assertEqual(self.user.call("GET", "/resources/allocation/aggregated?start_date=x")[0], 400)
        self.assertEqual(self.user.get("/workspaces/1/available-resource-pools")["resourcePools"], ["default"])
        self.assertEqual(self.user.get("/resource-pools/default/workspace-bindings")["workspaceIds"], [])
        self.refused(404, self.user, "GET", "/resource-pools/nope/workspace-bindings")


if __name__ == "__main__":
    unittest.main()
