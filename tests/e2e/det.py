"""A caller that sends requests as Determined's client does, and an agent that only simulates its
tasks.

The client sends JSON without a Content-Type, an empty object as no body at all, and unset fields
as null; it reads streams line by line. Every successful answer is checked against the OpenAPI
document and against the keys that the client reads from it (wire_keys.py).
"""

import http.client
import json
import re
import threading
import time
import urllib.parse
import uuid

import wire_keys
from openapi import Document, SchemaError

TASK_HEADER = "Grpc-Metadata-x-allocation-token"
# Below these keys, users choose the names, so the names keep their case.
FREE = {"metadata", "hparams", "avgMetrics", "batchMetrics", "resources", "config", "checkpointStorage", "data"}


class NotServed(Exception):
    """The OpenAPI document does not contain this call."""


def snake_case(value):
    """Returns the same body with its keys in snake_case."""
    if isinstance(value, list):
        return [snake_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), key): item if key in FREE else snake_case(item)
            for key, item in value.items()}


class Det:
    def __init__(self, port, token=None, task=False, document=None):
        self.port, self.token, self.task = port, token, task
        self.document = document or Document(self.request("GET", "/api/v1/openapi.json")[1])

    def caller(self, token=None, task=False):
        return Det(self.port, token, task, self.document)

    # requests and responses

    def headers(self):
        if not self.token:
            return {}
        return {TASK_HEADER if self.task else "Authorization": f"Bearer {self.token}"}

    def open(self, method, path, body=None, timeout=30):
        """Returns (connection, response). `body` is bytes, text or a value; {} and None send no
        body."""
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body) if body else None
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request(method, path, body, self.headers())
        return connection, connection.getresponse()

    def request(self, method, path, body=None, timeout=30):
        """Returns (status, JSON or bytes)."""
        connection, response = self.open(method, path, body, timeout)
        data = response.read()
        connection.close()
        try:
            return response.status, json.loads(data)
        except ValueError:
            return response.status, data

    # calls

    def url(self, path, query):
        if not path.startswith("//"):
            path = "/api/v1" + path
        path = path.removeprefix("/") if path.startswith("//") else path
        words = [(name, item) for name, value in query.items() if value is not None
                 for item in (value if isinstance(value, list) else [value])]
        return path + ("?" + urllib.parse.urlencode(words) if words else "")

    def call(self, method, path, body=None, answer=None, expect=200, **query):
        """Returns the answer of a call below /api/v1 (or of "//path"). `answer` names the fields
        that the client reads from it."""
        url = self.url(path, query)
        found = self.document.find(method, url)
        if not found:
            raise NotServed(f"{method} {url.partition('?')[0]}")
        status, value = self.request(method, url, body)
        where = f"{method} {url}"
        if status != expect:
            raise AssertionError(f"{where}: status is {status}, not {expect}: {str(value)[:500]}")
        if status == 200:
            self.document.check_answer(found[1], value, where)
        else:
            self.document.check_error(value, where)
        if answer:
            wire_keys.read(answer.split(), value, where)
        return value

    def get(self, path, answer=None, **query):
        return self.call("GET", path, None, answer, **query)

    def post(self, path, body=None, answer=None, **query):
        return self.call("POST", path, body, answer, **query)

    def report(self, path, body, answer=None):
        """Repeats a POST as after a lost answer; one of the two has the keys in the other case."""
        value = self.post(path, body, answer)
        self.post(path, body, answer)
        self.post(path, snake_case(body), answer)
        return value

    def lines(self, path, answer, **query):
        """Returns the results of a stream, each checked as the client reads it."""
        url = self.url(path, query)
        found = self.document.find("GET", url)
        if not found:
            raise NotServed(f"GET {url.partition('?')[0]}")
        connection, response = self.open("GET", url)
        schema = self.document.content(found[1])[1]["schema"]
        results = []
        for line in response.read().splitlines():
            value = json.loads(line)
            if response.status != 200 or "error" in value:
                raise AssertionError(f"GET {url}: {response.status} {value}")
            self.document.check(schema, value, f"GET {url}")
            wire_keys.read(answer.split(), value["result"], f"GET {url}")
            results.append(value["result"])
        connection.close()
        return results


class SimulatedAgent(threading.Thread):
    """An agent that reports each task as if it ran a program that works until it is told to stop.
    """

    def __init__(self, port, token, name="live", slots=4):
        super().__init__(daemon=True)
        self.caller = Det(port, token, document=Document({"components": {"schemas": {}}, "paths": {}}))
        self.name, self.slots, self.seen = name, slots, 0
        self.session = str(uuid.uuid4())
        self.mount_fault, self.pool = "", "default"
        self.more = {}  # further keys of its requests
        self.exit_code_of_killed = 137
        self.tasks, self.running, self.stopping = {}, {}, False
        self.changed = threading.Condition()

    def slot_list(self):
        return [{"id": n, "type": "CPU", "name": "cpu", "uuid": f"cpu-{n}", "memory": 1 << 30} for n in range(self.slots)]

    def sync(self):
        with self.changed:
            body = {"version": "0", "session": self.session, "pool": self.pool, "hostname": self.name,
                    "address": "127.0.0.1", "mountFault": self.mount_fault, "slots": self.slot_list(), "seen": self.seen, "tasks": list(self.tasks.values()),
                    **self.more}
        status, answer = self.caller.request("POST", f"/api/v1/agents/{self.name}/sync", body)
        if status == 503:
            raise OSError("the master stops")  # and comes back
        if status != 200:
            raise SchemaError(f"sync: {status} {answer}")
        with self.changed:
            self.seen = answer["version"]
            for task in answer["tasks"]:
                self.take(task)
            for name in answer.get("forget", []):
                self.tasks.pop(name, None)
                self.running.pop(name, None)
            self.changed.notify_all()

    def take(self, task):
        name = task["allocationId"]
        if task["action"] == "RUN" and name not in self.tasks:
            self.running[name] = task
            self.say(task, "RUNNING")
        elif task["action"] == "KILL" and (name in self.running or name not in self.tasks):
            # The order to run it may have been replaced before the agent asked.
            self.say(self.running.get(name, task), "EXITED", self.exit_code_of_killed)

    def say(self, task, state, exit_code=None):
        if state == "EXITED":
            self.running.pop(task["allocationId"], None)
        self.seen = 0 if state == "EXITED" else self.seen
        self.tasks[task["allocationId"]] = {
            "allocationId": task["allocationId"], "state": state, "reason": "",
            "ranks": [{"rank": rank["rank"], "pid": 1000 + rank["rank"], "exitCode": exit_code, "signal": None}
                      for rank in task.get("ranks", [])]}

    def end(self, task, exit_code=0):
        with self.changed:
            self.say(task, "EXITED", exit_code)

    def task_of(self, experiment, seconds=30):
        """Returns the running task of an experiment, as the master sent it to the agent."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                for task in self.running.values():
                    if task["experimentId"] == experiment:
                        return task
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"experiment {experiment} did not start within {seconds} s")
                self.changed.wait(left)

    def run(self):
        while not self.stopping:
            try:
                self.sync()
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)

    def stop(self):
        self.stopping = True
