"""Sends to the master what a busy cluster sends, and records what was acknowledged.

An agent of many slots runs no programs. For each of its trials, threads post a log, metrics and
checkpoints as fast as the master answers; another thread submits experiments. A sender that gets no
answer repeats its request until there is one, as real clients do.
"""

import http.client
import json
import threading
import time
import uuid

SLOTS = 8
METRICS = 24
LINES_PER_POST = 200
BASE_US = 1_700_000_000_000_000

TRAINING = """\
name: {name}
entrypoint: "true"
launch: per_slot
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: none}}
max_restarts: 0
"""


def time_text(us):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(us // 1_000_000)) + f".{us % 1_000_000:06d}Z"


def line_time(n):
    return BASE_US + 1000 * n


def line_text(task, n):
    return f"line {n} of {task}: " + "the loss goes down " * (1 + n * 7919 % 8)


def metric_value(trial, step, k):
    return round((trial * 31 + step * 7 + k) / 1024, 6)


class Master:
    """The port and tokens of the master, and its phase."""

    def __init__(self):
        self.port, self.tokens = 0, {}
        self.up = threading.Event()  # the master answers
        self.load = threading.Event()  # the senders may send
        self.over = threading.Event()


class Gone(Exception):
    """The connection ended without an answer."""


class Api:
    """A keep-alive connection of one caller; it is opened again after an error."""

    def __init__(self, master, headers):
        self.master, self.headers, self.connection = master, headers, None

    def call(self, method, path, body=None, timeout=30):
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.master.port, timeout=timeout)
            self.connection.request(method, path, text, self.headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            if self.connection:
                self.connection.close()
            self.connection = None
            raise Gone from None

    def must(self, method, path, body=None):
        status, data = self.call(method, path, body)
        if status != 200:
            raise AssertionError(f"{method} {path}: {status} {data[:300]}")
        return json.loads(data) if data[:1] in (b"{", b"[") and b"\n{" not in data else data


def bearer(token):
    return {"Authorization": "Bearer " + token}


class Sender(threading.Thread):
    """Sends requests one after the other and repeats each until it is acknowledged. Subclasses make the requests."""

    def __init__(self, master, headers):
        super().__init__(daemon=True)
        self.master, self.api = master, Api(master, headers)
        self.stop = threading.Event()
        self.failure = None
        self.refused = 0  # answers with status 429
        self.start()

    def next(self):  # -> method, path, body
        raise NotImplementedError

    def acknowledged(self, data):
        raise NotImplementedError

    def ended(self):
        return self.stop.is_set() or self.master.over.is_set()

    def run(self):
        try:
            while not self.ended():
                self.send(*self.next())
        except Exception as e:  # the next check reports it
            self.failure = f"{type(self).__name__}: {e!r}"

    def send(self, method, path, body):
        while not self.ended():
            if not self.master.load.wait(0.2):
                continue
            try:
                status, data = self.api.call(method, path, body)
            except Gone:
                time.sleep(0.01)
                continue
            if status == 200:
                self.acknowledged(data)
                return
            if status in (429, 503):
                self.refused += status == 429
                time.sleep(0.1)
                continue
            if status == 403 and b"has ended" in data:
                self.stop.set()  # its trial has ended
                return
            raise AssertionError(f"{method} {path}: {status} {data[:300]}")


class Logs(Sender):
    def __init__(self, master, allocation, task):
        self.allocation, self.task = allocation, task
        self.acked = 0  # lines 1 to acked are stored
        super().__init__(master, bearer(master.tokens["agent"]))

    def next(self):
        lines = ",".join(
            '{"sequence":%d,"timestamp":"%s","rankId":%d,"level":"LOG_LEVEL_INFO","log":"%s"}'
            % (n, time_text(line_time(n)), n % 3, line_text(self.task, n))
            for n in range(self.acked + 1, self.acked + 1 + LINES_PER_POST))
        return "POST", "/api/v1/task/logs", ('{"taskId":"%s","allocationId":"%s","agentId":"%s","logs":[%s]}'
                                             % (self.task, self.allocation, "agent-1", lines))

    def acknowledged(self, data):
        if data != b"{}":
            raise AssertionError(f"logs: {data[:100]}")
        self.acked += LINES_PER_POST


class Metrics(Sender):
    def __init__(self, master, token, trial, run):
        self.trial, self.trial_run, self.acked = trial, run, 0
        super().__init__(master, {"Grpc-Metadata-x-allocation-token": "Bearer " + token})

    def next(self):
        step = self.acked + 1
        values = {f"m{k}": metric_value(self.trial, step, k) for k in range(METRICS)}
        return "POST", f"/api/v1/trials/{self.trial}/metrics", {
            "group": "training", "metrics": {"trialId": self.trial, "trialRunId": self.trial_run,
                                             "stepsCompleted": step, "metrics": {"avgMetrics": values}}}

    def acknowledged(self, data):
        self.acked += 1


class Checkpoints(Sender):
    def __init__(self, master, token, task, allocation, seed):
        self.task, self.allocation, self.acked = task, allocation, []
        self.seed = seed
        super().__init__(master, {"Grpc-Metadata-x-allocation-token": "Bearer " + token})

    def next(self):
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.seed}/{self.allocation}/{len(self.acked)}"))
        time.sleep(0.02)
        return "POST", "/api/v1/checkpoints", {
            "uuid": self.uuid, "taskId": self.task, "allocationId": self.allocation,
            "metadata": {"steps_completed": len(self.acked) + 1}, "resources": {"weights.bin": "1024"},
            "state": "STATE_COMPLETED", "training": {}}

    def acknowledged(self, data):
        self.acked.append(self.uuid)


class Submissions(Sender):
    """Submits experiments that are never activated."""

    def __init__(self, master):
        self.acked, self.count = {}, 0
        super().__init__(master, bearer(master.tokens["user"]))

    def next(self):
        self.count += 1
        self.name = f"submission {self.count}"
        return "POST", "/api/v1/experiments", {"config": TRAINING.format(name=self.name), "activate": False}

    def acknowledged(self, data):
        self.acked[json.loads(data)["experiment"]["id"]] = self.name


class Trial:
    """A trial of the agent, with its senders."""

    def __init__(self, master, wanted, seed):
        env = {**wanted["env"], **wanted["ranks"][0]["env"]}
        self.id, self.task, self.allocation = wanted["trialId"], wanted["taskId"], wanted["allocationId"]
        self.experiment = wanted["experimentId"]
        token = env["DET_SESSION_TOKEN"]
        self.logs = Logs(master, self.allocation, self.task)
        self.metrics = Metrics(master, token, self.id, wanted["epoch"])
        self.checkpoints = Checkpoints(master, token, self.task, self.allocation, seed)
        self.senders = [self.logs, self.metrics, self.checkpoints]
        self.checked_lines = 0

    def end(self):
        for sender in self.senders:
            sender.stop.set()


class Agent(threading.Thread):
    """Syncs like a real agent, but starts the senders of each trial instead of a program."""

    def __init__(self, master, seed):
        super().__init__(daemon=True)
        self.master, self.seed = master, seed
        self.api = Api(master, bearer(master.tokens["agent"]))
        self.session, self.seen = str(uuid.uuid4()), 0
        self.tasks = {}  # allocation -> state
        self.trials = {}  # trial id -> Trial
        self.failure = None
        self.start()

    def report(self):
        slots = [{"id": i, "type": "CPU", "name": "cpu", "uuid": f"u{i}"} for i in range(SLOTS)]
        tasks = [{"allocationId": a, "state": state,
                  "ranks": [{"rank": 0, "pid": 1, "exitCode": 0 if state == "EXITED" else None, "signal": None}]}
                 for a, state in self.tasks.items()]
        return {"version": "1", "session": self.session, "pool": "default", "hostname": "agent-1",
                "address": "127.0.0.1", "slots": slots, "seen": self.seen, "tasks": tasks}

    def apply(self, answer):
        changed = False
        for wanted in answer["tasks"]:
            allocation, run = wanted["allocationId"], wanted["action"] == "RUN"
            state = self.tasks.get(allocation)
            if state is None and run:
                self.tasks[allocation] = "RUNNING"
                self.trials[wanted["trialId"]] = Trial(self.master, wanted, self.seed)
                changed = True
            elif not run and state != "EXITED":
                self.tasks[allocation] = "EXITED"
                if wanted["trialId"] in self.trials:
                    self.trials[wanted["trialId"]].end()
                changed = True
        for allocation in answer.get("forget", []):
            self.tasks.pop(allocation, None)
        self.seen = -1 if changed else answer["version"]  # -1: the master answers at once

    def run(self):
        try:
            while not self.master.over.is_set():
                if not self.master.up.wait(0.2):
                    continue
                try:
                    status, data = self.api.call("POST", "/api/v1/agents/agent-1/sync", self.report())
                except Gone:
                    self.seen = -1
                    time.sleep(0.02)
                    continue
                if status == 200:
                    self.apply(json.loads(data))
                elif status not in (429, 503):
                    raise AssertionError(f"sync: {status} {data[:300]}")
        except Exception as e:
            self.failure = f"agent: {e!r}"
