"""Every call of the OpenAPI document, by every kind of caller, with every kind of invalid input.

Each answer has the right status and an error body; no internal error occurs, and no call blocks.
The cases are generated from the document, so a new call is covered as soon as it is served.
"""

import http.client
import json
import pathlib
import unittest
import urllib.parse

from cluster import PASSWORD, Cluster, wait_for
from det import Det, SimulatedAgent
from openapi import SchemaError, is_type

PATIENCE = 15  # longest time for any answer, in seconds
CONFIG = """\
name: matrix
entrypoint: python3 train.py
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: loss}}
checkpoint_storage: {{type: directory, container_path: {storage}}}
"""
UUID = "00000000-0000-4000-8000-000000000001"
NOWHERE = {"integer": "999999", "string": "nothing-of-this-name"}

# A caller with read access can still post these: queries, and changes of the caller's own objects.
HARMLESS = {"POST /api/v1/auth/login", "POST /api/v1/auth/logout", "POST /api/v1/experiments/{experimentId}/file",
            "POST /api/v1/projects/{projectId}/experiments/{verb}"}
# Calls whose body is a list.
LISTS = {"POST /task-logs"}
# Calls that wait for something: the test sends these only with input that is refused.
WAIT = ("/rendezvous", "/all_gather", "/notify_container_running", "/sync")

TEXTS = ["", "'; DROP TABLE users; --", "%", "../../etc/passwd", "\N{ROCKET}\N{COMBINING ACUTE ACCENT}", "a" * 6000, "[", "NOPE"]
NUMBERS = ["x", "1.5", "99999999999999999999", "-99999999999999999999", "0x10", "1 "]
BROKEN = [b"{", b"[]", b'"text"', b"7", b"\x00", b'{"a": "\xff\xfe"}', b'{"a": 1, "a": 2}', b"[" * 50000, b"{}{}", b'{"a": NaN}',
          b'{"a": "\\ud800"}']
OTHER_TYPES = [{}, [], "text", 7, 1.5, True, [{}], {"a": {}}, "99999999999999999999", -1, "", "\0"]


class ApiRobustness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(), master_flags=(
            "--storage-allow", pathlib.Path("storage").resolve(), "--metrics", "token"))
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        cls.nobody = Det(cls.cluster.port)
        cls.document = cls.nobody.document
        cls.admin = cls.login("admin")
        cls.admin.post("/users", {"user": {"username": "viewer", "admin": False, "active": True}, "password": PASSWORD})
        cls.admin.post("/users", {"user": {"username": "victim", "admin": False, "active": True}, "password": PASSWORD})
        cls.editor, cls.viewer = cls.login("determined"), cls.login("viewer")
        viewer = cls.viewer.get("/me")["user"]["id"]
        cls.admin.call("PUT", f"/workspaces/1/members/{viewer}", {"role": "viewer"})
        cls.agent_token = (cls.cluster.folder / "master" / "agent.token").read_text().strip()
        cls.live = SimulatedAgent(cls.cluster.port, cls.agent_token)
        cls.live.start()
        cls.addClassCleanup(cls.live.stop)
        wait_for("the agent", lambda: cls.admin.get("/agents")["agents"], 30)
        cls.begin()

    @classmethod
    def begin(cls):
        """Objects that the calls can name, and a running task."""
        storage = pathlib.Path("storage").resolve()
        storage.mkdir(exist_ok=True)
        cls.experiment = cls.editor.post("/experiments", {"config": CONFIG.format(storage=storage), "activate": True})[
            "experiment"]["id"]
        cls.running = cls.live.task_of(cls.experiment)
        cls.task = cls.nobody.caller(cls.running["env"]["DET_SESSION_TOKEN"], task=True)
        cls.task.post("/checkpoints", {
            "uuid": UUID, "taskId": cls.running["taskId"], "allocationId": cls.running["allocationId"],
            "metadata": {"steps_completed": 1}, "resources": {"a": "1"}, "state": "STATE_COMPLETED",
            "reportTime": "2026-11-21T09:00:02Z", "training": {}})
        workspace = cls.admin.post("/workspaces", {"name": "victim"})["workspace"]["id"]
        project = cls.admin.post(f"/workspaces/{workspace}/projects", {"name": "victim"})["project"]["id"]
        cls.real = {"experimentId": cls.experiment, "trialId": cls.running["trialId"], "runId": cls.running["trialId"],
                    "taskId": cls.running["taskId"], "allocationId": cls.running["allocationId"], "agentId": "live",
                    "slotId": 3, "workspaceId": workspace, "projectId": project, "username": "victim", "checkpointUuid": UUID,
                    "userId": cls.admin.get("/users/victim/by-username")["user"]["id"], "label": "one", "version": 1}

    @classmethod
    def login(cls, user):
        return cls.nobody.caller(cls.nobody.post("/auth/login", {"username": user, "password": PASSWORD})["token"])

    # requests

    def path(self, path, operation, real=True, **instead):
        """Returns the path with a value for each {..}: the id of an existing object, or of none."""
        for parameter in operation["parameters"]:
            if parameter["in"] == "path":
                name = parameter["name"]
                value = instead.get(name, self.real.get(name) if real else None)
                if value is None:
                    value = NOWHERE[parameter["schema"].get("type", "string")]
                path = path.replace("{%s}" % name, urllib.parse.quote(str(value), safe="%"))
        return path

    def ask(self, caller, method, path, body=None, where=""):
        """Returns (status, answer); reads at most a part of the answer, since some never end."""
        if "preemption" in path:
            path += ("&" if "?" in path else "?") + "timeout_seconds=0"
        where = f"{where} {method} {path[:160]}"
        try:
            connection, response = caller.open(method, path, body, PATIENCE)
            endless = response.headers.get("Content-Type", "").startswith("text/event-stream")
            data = b"" if endless else response.read()
            connection.close()
        except (OSError, http.client.HTTPException) as failed:
            raise AssertionError(f"{where} {str(body)[:80]}: {failed!r}") from None
        if response.status >= 500:
            raise AssertionError(f"{where} {str(body)[:200]}: {response.status} {data[:300]}")
        if response.status >= 400:
            try:
                self.document.check_error(json.loads(data), where)
            except ValueError:
                raise SchemaError(f"{where}: {response.status} without an error in JSON: {data[:100]}") from None
        return response.status, data

    def who_may(self, operation):
        """Returns a caller who may make the call."""
        schemes = {name for scheme in operation["security"] for name in scheme}
        if not schemes or schemes & {"user", "admin"}:
            return self.admin
        return self.task if "task" in schemes else self.nobody.caller(self.agent_token)

    def expect(self, allowed, caller, method, path, body=None, where=""):
        status, answer = self.ask(caller, method, path, body, where)
        self.assertIn(status, allowed, f"{where} {method} {path[:160]} {str(body)[:120]}: {answer[:300]}")

    def alive(self):
        self.assertIsNone(self.cluster.master.process.poll(), self.cluster.master.tail())
        self.nobody.get("//info")

    # permissions

    def test_callers(self):
        """A call without a token gets 401, and one with a token of another kind 403; any other call
        gets neither of the two."""
        agent = self.nobody.caller(self.agent_token)
        callers = {"nobody": (self.nobody, None), "unknown": (self.nobody.caller("0" * 64), None),
                   "viewer": (self.viewer, "user"), "editor": (self.editor, "user"), "admin": (self.admin, "admin"),
                   "task": (self.task, "task"), "agent": (agent, "agent")}
        for method, template, operation in self.document.routes:
            if template.endswith(WAIT[3]) or template.endswith("/auth/logout"):
                continue
            schemes = {name for scheme in operation["security"] for name in scheme}
            path = self.path(template, operation, real=False)
            for name, (caller, kind) in callers.items():
                status, answer = self.ask(caller, method, path, None, name)
                if not schemes:
                    self.assertNotEqual(status, 401, (name, method, template))
                elif kind is None:
                    self.assertEqual(status, 401, (name, method, template, answer))
                elif kind not in schemes and not (kind == "admin" and "user" in schemes):
                    self.assertEqual(status, 403, (name, method, template, answer))
                else:
                    self.assertNotEqual(status, 401, (name, method, template, answer))
        self.alive()

    def test_viewers_change_nothing(self):
        before = self.admin.get(f"/experiments/{self.experiment}")["experiment"]
        for method, template, operation in self.document.routes:
            call = f"{method} {template}"
            schemes = {name for scheme in operation["security"] for name in scheme}
            if method == "GET" or "user" not in schemes or call in HARMLESS:
                continue
            if "experimentId" not in template and "trialId" not in template and "taskId" not in template \
                    and "checkpoint" not in template:
                continue
            status, answer = self.ask(self.viewer, method, self.path(template, operation), None, "viewer")
            self.assertGreaterEqual(status, 400, (call, answer))
        after = self.admin.get(f"/experiments/{self.experiment}")["experiment"]
        for key in ("state", "name", "labels", "notes", "archived", "projectId", "checkpointCount"):
            self.assertEqual(before[key], after[key])

    # invalid input

    def test_methods(self):
        for template, item in self.document.text["paths"].items():
            path = self.path(template, next(iter(item.values())), real=False)
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - {name.upper() for name in item}:
                found = self.document.find(method, path)
                if found:
                    continue  # the next path with {..}
                self.expect((405,), self.admin, method, path)

    def test_paths(self):
        for method, template, operation in self.document.routes:
            caller = self.who_may(operation)
            for parameter in operation["parameters"]:
                if parameter["in"] != "path" or template.endswith(WAIT[3]):
                    continue
                number = parameter["schema"].get("type") == "integer"
                for value in (NUMBERS + ["-1"] if number else []) + TEXTS[1:]:
                    path = self.path(template, operation, **{parameter["name"]: urllib.parse.quote(value, safe="")})
                    status, answer = self.ask(caller, method, path)
                    if number and status not in (400, 404, 403, 409):
                        self.assertEqual((method, status), ("DELETE", 200), (template, value, answer))
                for value in ("%00", "%zz", "%"):
                    self.expect((400, 404), caller, method, self.path(template, operation, **{parameter["name"]: value}))
        self.alive()

    def test_queries(self):
        for method, template, operation in self.document.routes:
            caller, path = self.who_may(operation), self.path(template, operation, real=method == "GET")
            if template.endswith(WAIT):
                continue
            names = [p for p in operation["parameters"] if p["in"] == "query"]
            for parameter in names:
                schema = self.document.resolve(parameter["schema"])
                schema = self.document.resolve(schema.get("items", schema))
                kind = schema.get("type")
                values = NUMBERS if kind == "integer" else TEXTS
                for value in values + ["-1", "-2", "0"]:
                    if parameter["name"] == "follow" and value not in TEXTS:
                        continue
                    query = urllib.parse.urlencode({parameter["name"]: value})
                    status, answer = self.ask(caller, method, f"{path}?{query}")
                    if status == 200 and kind == "integer" and value == "x" and method == "GET":
                        self.fail(f"{template}?{query} is not refused: {answer[:200]}")
                self.expect((400,), caller, method, f"{path}?{parameter['name']}=%zz")
                self.expect((400,), caller, method, f"{path}?{parameter['name']}=%00")
                self.expect((400, 413), caller, method, path + "?" + "&".join([f"{parameter['name']}=1"] * 300))
            if method == "GET":
                plain, answer = self.ask(caller, method, path)
                media, content = self.document.content(operation)
                if plain == 200 and media == "application/json" and "x-muster-stream" not in content:
                    self.document.check_answer(operation, json.loads(answer), template)
                status, answer = self.ask(caller, method, path + "?nothing_of_this_name=1&%F0%9F%9A%80=2")
                self.assertIn(status, (plain, 429), (template, answer[:200]))
        self.alive()

    def test_pages(self):
        """A page never has more rows than requested, wherever it begins."""
        for method, template, operation in self.document.routes:
            if method != "GET" or not {"limit", "offset"} <= {p["name"] for p in operation["parameters"]}:
                continue
            path = self.path(template, operation)
            for offset, limit in ((0, 1), (1, 1), (-1, 1), (10 ** 6, 5), (0, -1), (-5, -5), (0, 0), (0, -2)):
                status, answer = self.ask(self.admin, method, f"{path}?offset={offset}&limit={limit}")
                if status != 200 or "x-muster-stream" in self.document.content(operation)[1]:
                    continue
                answer = json.loads(answer)
                rows = next(value for value in answer.values() if isinstance(value, list))
                page = answer["pagination"]
                self.assertEqual(page["endIndex"] - page["startIndex"], len(rows), (template, offset, limit, page))
                self.assertLessEqual(page["endIndex"], page["total"], (template, offset, limit, page))
                self.assertGreaterEqual(page["startIndex"], 0, (template, offset, limit, page))
                if limit > 0:
                    self.assertLessEqual(len(rows), limit, (template, offset, limit))

    def test_bodies(self):
        """A body that is not a JSON object is refused before its content is examined."""
        for method, template, operation in self.document.routes:
            if method == "GET":
                continue
            caller, path = self.who_may(operation), self.path(template, operation, real=False)
            for body in BROKEN:
                call = f"{method} {template}"
                if "requestBody" not in operation or (call in LISTS and body.startswith(b"[")):
                    self.ask(caller, method, path, body)
                else:
                    self.expect((400, 404, 403, 413, 429), caller, method, path, body)
        self.alive()

    def test_types(self):
        """Each field of a body in turn has a wrong type."""
        for method, template, operation in self.document.routes:
            if "requestBody" not in operation or template.endswith(WAIT):
                continue
            schema = self.document.resolve(operation["requestBody"]["content"]["application/json"]["schema"])
            caller, path = self.who_may(operation), self.path(template, operation)
            good = self.example(schema)
            for name in schema.get("properties", {}):
                for value in OTHER_TYPES:
                    if name == "filters" and isinstance(value, dict):
                        continue  # every allowed type
                    status, answer = self.ask(caller, method, path, json.dumps({**good, name: value}))
                    if not template.endswith("/auth/login"):  # where 401 means a wrong password
                        self.assertNotEqual(status, 401, f"{method} {template}")
                    if not self.may_be(schema["properties"][name], value):
                        self.assertIn(status, (400, 403, 404), (method, template, name, value, answer))
        self.alive()

    def test_large_bodies(self):
        """A body that is one byte too long is refused by its length alone."""
        for method, template, operation in self.document.routes:
            limit = operation.get("requestBody", {}).get("x-muster-limit")
            if limit is None:
                continue
            caller, path = self.who_may(operation), self.path(template, operation)
            connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port, timeout=PATIENCE)
            connection.putrequest(method, path)
            for name, value in {**caller.headers(), "Content-Length": limit + 1, "Expect": "100-continue"}.items():
                connection.putheader(name, value)
            connection.endheaders()
            self.assertEqual(connection.getresponse().status, 413, template)
            connection.close()

    def may_be(self, schema, value):
        """Returns whether the value has a type that the field accepts."""
        schema = self.document.resolve(schema)
        parts = schema.get("oneOf", [])
        if parts or "type" not in schema:
            return not parts or any(self.may_be(part, value) for part in parts)
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if isinstance(value, (int, float)) or value == "99999999999999999999":
            return value is not True and bool({"integer", "number", "string"} & set(types)) or is_type(types, value)
        return is_type(types, value) or ("number" in types and isinstance(value, str))

    def example(self, schema):
        """Returns a body with the required fields in the right types."""
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
        value = {"array": [], "string": text, "integer": 999999, "number": 1.5, "boolean": False, "null": None}[kind]
        assert is_type(kind, value)
        return value


if __name__ == "__main__":
    unittest.main(verbosity=2)
