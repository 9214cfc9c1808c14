"""The REST API of a real muster-master over plain HTTP, as det and scripts use it.

No agent runs here; where a test needs one, it sends the agent's messages itself.
"""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

from cluster import BIN, PASSWORD, Cluster, wait_for

CONFIG = """\
name: api test
description: by the test of the API
labels: [one, two]
entrypoint: python3 train.py
resources: {slots_per_trial: 2}
searcher: {name: single, metric: validation_loss, smaller_is_better: true}
max_restarts: 0
hyperparameters: {width: 64}
"""

# Keys that the generated Python client reads without checking whether they exist.
EXPERIMENT_KEYS = """archived config id jobId name numTrials originalConfig projectId projectOwnerId
                     searcherType startTime state username""".split()
TRIAL_KEYS = "experimentId hparams id restarts startTime state totalBatchesProcessed taskIds".split()


class Api:
    """A caller with a token and the header that carries it. Every call uses its own connection."""

    def __init__(self, port, token=None, task=False):
        self.port, self.token, self.task = port, token, task

    def headers(self):
        if not self.token:
            return {}
        name = "Grpc-Metadata-x-allocation-token" if self.task else "Authorization"
        return {name: f"Bearer {self.token}"}

    def open(self, method, path, body=None, timeout=30):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        connection.request(method, path, body, self.headers())
        return connection, connection.getresponse()

    def call(self, method, path, body=None, timeout=30):
        """Returns (status, JSON or text)."""
        connection, response = self.open(method, path, body, timeout)
        text = response.read()
        connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def ok(self, method, path, body=None, timeout=30):
        status, answer = self.call(method, "/api/v1" + path, body, timeout)
        if status != 200:
            raise AssertionError(f"{method} {path}: {status} {answer}")
        return answer

    def get(self, path):
        return self.ok("GET", path)

    def post(self, path, body=None):
        return self.ok("POST", path, body)

    def lines(self, path):
        status, text = self.call("GET", "/api/v1" + path)
        assert status == 200, text
        if isinstance(text, dict):
            return [text["result"]]
        return [json.loads(line)["result"] for line in text.splitlines()]


class FakeAgent:
    """A fake agent with two slots that runs nothing and reports the task states that the test sets.
    """

    def __init__(self, api, name="fake"):
        self.api, self.name, self.seen, self.session = api, name, 0, "11111111-2222-3333-4444-555555555555"
        self.tasks = {}

    def sync(self):
        slots = [{"id": n, "type": "CPU", "name": "cpu", "uuid": f"cpu-{n}", "memory": 1 << 30} for n in (0, 1)]
        answer = self.api.post(f"/agents/{self.name}/sync", {
            "version": "0", "session": self.session, "pool": "default", "hostname": self.name,
            "address": "127.0.0.1", "slots": slots, "seen": self.seen, "tasks": list(self.tasks.values())})
        self.seen = answer["version"]
        for name in answer.get("forget", []):
            self.tasks.pop(name, None)
        return answer

    def wait_for(self, action):
        def look():
            return [task for task in self.sync()["tasks"] if task["action"] == action]
        return wait_for(f"the master to send {action}", look, 30)[0]

    def say(self, task, state, **ranks):
        self.tasks[task["allocationId"]] = {
            "allocationId": task["allocationId"], "state": state, "reason": "",
            "ranks": [{"rank": rank["rank"], "pid": 1000 + rank["rank"],
                       "exitCode": ranks.get("exit_code"), "signal": None} for rank in task["ranks"]]}
        return self.sync()


class ApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=())
        cls.cluster.start_master()
        cls.port = cls.cluster.port
        cls.user = Api(cls.port, cls.login("determined"))
        cls.admin = Api(cls.port, cls.login("admin"))
        cls.agent_token = (cls.cluster.folder / "master" / "agent.token").read_text().strip()
        cls.agent = FakeAgent(Api(cls.port, cls.agent_token))
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

    def create(self, config=CONFIG, **more):
        files = [{"path": "train.py", "type": 48, "content": base64.b64encode(b"print('hello')\n").decode(),
                  "mode": 420, "mtime": "1700000000", "uid": 0, "gid": 0}]
        return self.user.post("/experiments", {"config": config, "modelDefinition": files, "activate": True,
                                               "projectId": None, "template": None, "parentId": None,
                                               "validateOnly": None, "unmanaged": None, **more})

    def state_of(self, experiment):
        return self.user.get(f"/experiments/{experiment}")["experiment"]["state"]

    def wait_for_state(self, experiment, state):
        wait_for(f"{state}", lambda: self.state_of(experiment) == f"STATE_{state}", 30)

    def end(self, experiment):
        """Ends the task and waits, so that the next test finds the slots free."""
        self.user.post(f"/experiments/{experiment}/kill")
        wait_for("the end", lambda: self.state_of(experiment) in ("STATE_CANCELED", "STATE_COMPLETED", "STATE_ERROR"), 30)

    # callers

    def test_info_and_login(self):
        status, info = Api(self.port).call("GET", "/info")
        self.assertEqual(status, 200)
        self.assertEqual(sorted(info), ["cluster_id", "cluster_name", "master_id", "musterVersion", "version"])
        hashed = hashlib.sha512(b"GubPEmmotfiK9TMD6Zdw" + PASSWORD.encode()).hexdigest()
        good = [("determined", PASSWORD, False), ("determined", hashed, True), ("Determined", hashed, True)]
        bad = [("determined", "", False), ("determined", "", True), ("determined", "wrong", False),
               ("determined", PASSWORD, True), ("nobody", PASSWORD, False)]
        for credentials, expected in [(c, 200) for c in good] + [(c, 401) for c in bad]:
            body = dict(zip(("username", "password", "isHashed"), credentials))
            status, answer = Api(self.port).call("POST", "/api/v1/auth/login", body)
            self.assertEqual(status, expected, (credentials, answer))
            if expected == 401:
                self.assertEqual(sorted(answer["error"]), ["code", "error", "reason"])
        caller = Api(self.port, self.login("determined"))
        self.assertEqual(caller.get("/me")["user"]["username"], "determined")
        caller.post("/auth/logout")
        self.assertEqual(caller.call("GET", "/api/v1/me")[0], 401)
        self.assertEqual(Api(self.port, "nonsense").call("GET", "/api/v1/me")[0], 401)
        self.assertEqual(Api(self.port).call("GET", "/api/v1/me")[0], 401)
        self.assertEqual(Api(self.port, self.agent_token).call("GET", "/api/v1/me")[0], 403)

    def test_openapi(self):
        document = Api(self.port).get("/openapi.json")
        for path in ("/api/v1/experiments", "/api/v1/trials/{trialId}/logs", "/info"):
            self.assertIn(path, document["paths"])

    # experiments

    def test_submission(self):
        config = CONFIG.replace("slots_per_trial: 2", "slots_per_trial: 64")  # an offset beyond the end
        answer = self.create(config)
        experiment = answer["experiment"]
        for key in EXPERIMENT_KEYS:
            self.assertIn(key, experiment)
        self.assertEqual(answer["config"]["name"], "api test")
        self.assertEqual(experiment["originalConfig"], config)
        self.assertEqual(experiment["labels"], ["one", "two"])
        identity = experiment["id"]
        self.assertEqual(self.state_of(identity), "STATE_QUEUED")
        listed = self.user.get("/experiments?limit=200&offset=0&archived=false&users=determined")
        self.assertIn(identity, [row["id"] for row in listed["experiments"]])
        self.assertGreaterEqual(listed["pagination"]["endIndex"], 1)
        trial = self.user.get(f"/experiments/{identity}/trials")["trials"][0]
        for key in TRIAL_KEYS:
            self.assertIn(key, trial)
        self.assertEqual(trial["hparams"], {"width": 64})
        archive = self.user.get(f"/experiments/{identity}/model_def")["b64Tgz"]
        self.assertEqual(base64.b64decode(archive)[:2], b"\x1f\x8b")
        why = json.dumps(self.user.get(f"/experiments/{identity}/why"))
        self.assertIn("64", why)

        self.user.post(f"/experiments/{identity}/pause")
        self.wait_for_state(identity, "PAUSED")
        self.user.post(f"/experiments/{identity}/activate")
        self.wait_for_state(identity, "QUEUED")
        patched = self.user.ok("PATCH", f"/experiments/{identity}", {"name": "renamed", "notes": None})
        self.assertEqual(patched["experiment"]["name"], "renamed")
        self.user.post(f"/experiments/{identity}/cancel")
        self.wait_for_state(identity, "CANCELED")
        self.user.post(f"/experiments/{identity}/archive")
        self.assertTrue(self.user.get(f"/experiments/{identity}")["experiment"]["archived"])
        self.user.post(f"/experiments/{identity}/unarchive")
        self.user.ok("DELETE", f"/experiments/{identity}")
        wait_for("the deletion", lambda: self.user.call("GET", f"/api/v1/experiments/{identity}")[0] == 404, 30)

    def test_bad_submissions(self):
        for config, words in (("name: [", "1:"), ("nmae: x\nentrypoint: a\n", "name"),
                              (CONFIG.replace("slots_per_trial: 2", "slots_per_trial: many"), "slots_per_trial"),
                              (CONFIG.replace("entrypoint: python3 train.py\n", ""), "entrypoint")):
            status, answer = self.user.call("POST", "/api/v1/experiments", {"config": config})
            self.assertEqual(status, 400, answer)
            self.assertIn(words, answer["error"]["error"])
        before = self.user.get("/experiments")["pagination"]["total"]
        self.create(validateOnly=True)
        self.assertEqual(self.user.get("/experiments")["pagination"]["total"], before)

    # a complete trial, with messages of an agent and a task that the test sends itself

    def test_a_trial(self):
        agent = self.agent
        experiment = self.create()["experiment"]["id"]
        task = agent.wait_for("RUN")
        self.assertEqual(len(task["ranks"]), 2 if task.get("native") or len(task["ranks"]) > 1 else 1)
        agent.say(task, "RUNNING")
        self.wait_for_state(experiment, "RUNNING")
        env = task["env"]
        caller = Api(self.port, env["DET_SESSION_TOKEN"], task=True)
        trial, allocation = task["trialId"], task["allocationId"]
        self.assertEqual(caller.get("/me")["user"]["username"], "determined")
        context = Api(self.port, self.agent_token).get(f"/tasks/{task['taskId']}/context_directory")
        self.assertIn("b64Tgz", context)

        followed = []
        follower = threading.Thread(target=lambda: followed.extend(
            line["message"] for line in self.user.lines(f"/trials/{trial}/logs?follow=true")))
        follower.start()
        lines = [{"task_id": task["taskId"], "allocation_id": allocation, "agent_id": "fake", "rank_id": 0,
                  "container_id": "c0ffee00-1", "timestamp": "2026-11-21T09:00:00.5Z", "level": "LOG_LEVEL_INFO",
                  "stdtype": "stdout", "source": "task", "log": f"line {n}\n", "sequence": n} for n in range(5)]
        shipper = Api(self.port, self.agent_token)
        shipper.post("/task/logs", {"logs": lines})
        shipper.post("/task/logs", {"logs": lines})  # a repeated post adds nothing
        wait_for("the followed lines", lambda: len(followed) or len(
            self.user.lines(f"/trials/{trial}/logs")) == 5, 10)

        for step, loss in ((10, 0.5), (20, 0.25)):
            report = {"trialId": trial, "trialRunId": int(env["DET_TRIAL_RUN_ID"]), "stepsCompleted": step,
                      "reportTime": "2026-11-21T09:00:01Z", "metrics": {"avgMetrics": {"loss": loss}, "batchMetrics": None}}
            caller.post(f"/trials/{trial}/metrics", {"group": "training", "metrics": report})
            report["metrics"]["avgMetrics"] = {"validation_loss": loss}
            caller.post(f"/trials/{trial}/metrics", {"group": "validation", "metrics": report})
        caller.post(f"/trials/{trial}/progress", {"progress": 0.5, "is_raw": True})
        caller.post(f"/trials/{trial}/runner/metadata", {"state": "training"})
        uuid = "0f1e2d3c-0000-4000-8000-00000000000a"
        caller.post("/checkpoints", {
            "uuid": uuid, "taskId": task["taskId"], "allocationId": allocation,
            "metadata": {"steps_completed": 20}, "resources": {"a": "3000000000"}, "state": "STATE_COMPLETED",
            "reportTime": "2026-11-21T09:00:02Z", "storageId": None, "training": {}})
        checkpoint = caller.get(f"/checkpoints/{uuid}")["checkpoint"]
        self.assertEqual(checkpoint["resources"], {"a": "3000000000"})
        self.assertEqual(checkpoint["training"]["experimentId"], experiment)
        described = self.user.get(f"/trials/{trial}")["trial"]
        self.assertEqual(described["latestValidation"]["totalBatches"], 20)
        self.assertEqual(described["latestValidation"]["metrics"]["avgMetrics"], {"validation_loss": 0.25})
        self.assertEqual(described["searcherMetricValue"], 0.25)
        self.assertEqual(described["runnerState"], "training")
        reports = self.user.lines(f"/trials/metrics/training_metrics?trialIds={trial}")[0]["metrics"]
        self.assertEqual([r["metrics"]["avg_metrics"]["loss"] for r in reports], [0.5, 0.25])
        series = self.user.get(f"/trials/{trial}/series?metric=loss")
        self.assertEqual([(s["steps"], s["values"]) for s in series["series"]], [([10, 20], [0.5, 0.25])])
        self.assertEqual(self.user.get(f"/trials/{trial}/workloads")["pagination"]["total"], 5)
        for _ in range(2):  # a repeated report changes nothing
            caller.post(f"/trials/{trial}/metrics/columns", {
                "group": "curve", "steps": [1, 2, 3], "metrics": {"a": [1, None, "NaN"], "b": [0.5, 0.25, 0.125]}})
        curve = self.user.get(f"/trials/{trial}/series?group=curve&metric=a&metric=b&from=2")["series"]
        self.assertEqual([(s["metric"], s["steps"], s["values"]) for s in curve],
                         [("a", [3], ["NaN"]), ("b", [2, 3], [0.25, 0.125])])

        preempt = caller.get(f"/allocations/{allocation}/signals/preemption?timeout_seconds=0")
        self.assertEqual(preempt, {"preempt": False})
        stranger = f"/api/v1/allocations/{allocation}x/signals/preemption?timeout_seconds=0"
        self.assertIn(caller.call("GET", stranger)[0], (403, 404))
        agent.say(task, "EXITED", exit_code=0)
        self.wait_for_state(experiment, "COMPLETED")
        follower.join(20)
        self.assertFalse(follower.is_alive(), "the followed log ends with the trial")
        self.assertEqual(followed, [f"[2026-11-21T09:00:00.500000Z] c0ffee00 [rank=0] || INFO: line {n}\n"
                                    for n in range(5)])
        status, answer = caller.call("POST", f"/api/v1/trials/{trial}/metrics", {})
        self.assertEqual(status, 403)
        status, answer = caller.call("POST", f"/api/v1/trials/{trial}/metrics/columns", {})
        self.assertEqual(status, 403)
        self.assertIn("allocation has ended", answer["error"]["error"])

    def test_poll_whose_client_disconnects(self):
        agent = self.agent
        experiment = self.create()["experiment"]["id"]
        task = agent.wait_for("RUN")
        agent.say(task, "RUNNING")
        caller = Api(self.port, task["env"]["DET_SESSION_TOKEN"], task=True)
        path = f"/api/v1/allocations/{task['allocationId']}/signals/preemption?timeout_seconds=20"
        for _ in range(20):
            connection = http.client.HTTPConnection("127.0.0.1", self.port)
            connection.request("GET", path, headers=caller.headers())
            connection.close()
        waiting = threading.Thread(target=lambda: heard.append(caller.call("GET", path)))
        heard = []
        waiting.start()
        time.sleep(0.5)
        self.user.post(f"/experiments/{experiment}/pause")
        waiting.join(5)
        self.assertEqual(heard, [(200, {"preempt": True})])
        caller.post(f"/allocations/{task['allocationId']}/signals/ack_preemption")
        agent.say(task, "EXITED", exit_code=0)
        self.wait_for_state(experiment, "PAUSED")
        self.end(experiment)


class ManyAtOnce(unittest.TestCase):
    """All connections that become ready at the same moment are answered at once."""

    CONNECTIONS = 400
    REQUEST = b"GET /api/v1/master HTTP/1.1\r\nHost: muster\r\n\r\n"

    def answers(self, connections):
        for connection in connections:
            text = b""
            while b"\r\n\r\n" not in text:
                text += connection.recv(65536)
            head, _, body = text.partition(b"\r\n\r\n")
            self.assertIn(b" 200 ", head.splitlines()[0])
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
            while len(body) < length:
                body += connection.recv(65536)

    def test_any_number_of_ready_connections(self):
        with Cluster("many", slots=()) as cluster:
            connections = [socket.create_connection(("127.0.0.1", cluster.port), 5)
                           for _ in range(self.CONNECTIONS)]
            for connection in connections:
                connection.sendall(self.REQUEST)
            self.answers(connections)
            # A stopped master finds all of these connections ready when it continues. The number
            # grows by one each time, so that each thread of the master meets every number up to
            # its share.
            for number in range(100, self.CONNECTIONS + 1):
                os.kill(cluster.master.process.pid, signal.SIGSTOP)
                for connection in connections[:number]:
                    connection.sendall(self.REQUEST)
                os.kill(cluster.master.process.pid, signal.SIGCONT)
                with self.subTest(ready=number):
                    self.answers(connections[:number])
            for connection in connections:
                connection.close()


class Lifecycle(unittest.TestCase):
    """Starting and stopping the master: each test has its own data folder."""

    def setUp(self):
        self.folder = pathlib.Path(self.id()).resolve()
        self.folder.mkdir()
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, *flags, password=PASSWORD, data="data"):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_INITIAL")}
        if password:
            environment["MUSTER_INITIAL_PASSWORD"] = password
        process = subprocess.Popen([BIN / "muster-master", "--data-dir", self.folder / data, "--bind", "127.0.0.1",
                                    *map(str, flags)], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def url(self, process, data="data"):
        path = self.folder / data / "master.url"
        wait_for("the address", lambda: path.exists() or process.poll() is not None, 30)
        self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
        return path.read_text().strip()

    def port(self, process, data="data"):
        return int(self.url(process, data).rsplit(":", 1)[1])

    def fails(self, *flags, code, words, data="data"):
        process = self.start(*flags, data=data)
        _, text = process.communicate(timeout=30)
        self.assertEqual(process.returncode, code, text)
        for word in words:
            self.assertIn(word, text)

    def test_stop_with_parked_requests(self):
        process = self.start("--port", 0)
        port = self.port(process)
        agent = Api(port, (self.folder / "data/agent.token").read_text().strip())
        body = {"version": "0", "session": "s", "pool": "default", "hostname": "h", "address": "127.0.0.1",
                "slots": [], "seen": 0, "tasks": []}
        body["seen"] = agent.post("/agents/parked/sync", body)["version"]
        answers = []

        def poll():
            answers.append(agent.call("POST", "/api/v1/agents/parked/sync", body)[0])
        parked = threading.Thread(target=poll)
        parked.start()
        idle = socket.create_connection(("127.0.0.1", port))
        time.sleep(0.5)
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=20)
        self.assertLess(time.monotonic() - start, 4)
        self.assertEqual(process.returncode, 0, text)
        parked.join(5)
        idle.close()
        self.assertIn(answers, ([503], [200]))
        self.assertFalse((self.folder / "data/master.url").exists())

        again = self.start("--port", port)  # the same port at once, and the same users
        self.assertEqual(self.port(again), port)
        status, _ = Api(port).call("POST", "/api/v1/auth/login", {"username": "admin", "password": PASSWORD})
        self.assertEqual(status, 200)

    def test_random_initial_password(self):
        process = self.start("--port", 0, password=None)
        port = self.port(process)
        process.terminate()
        _, text = process.communicate(timeout=20)
        password = re.search(r"shown this once:\s+(\S+)", text).group(1)
        self.assertEqual(text.count(password), 1)
        self.assertGreaterEqual(len(password), 16)
        store = b"".join(p.read_bytes() for p in (self.folder / "data").glob("muster.db*"))
        self.assertNotIn(password.encode(), store)
        again = self.start("--port", port, password=None)
        port = self.port(again)
        self.assertEqual(Api(port).call("POST", "/api/v1/auth/login",
                                        {"username": "determined", "password": password})[0], 200)
        again.terminate()
        _, text = again.communicate(timeout=20)
        self.assertNotIn(password, text)

    def test_conditions_that_prevent_a_start(self):
        process = self.start("--port", 0)
        port = self.port(process)
        self.fails("--port", 0, code=5, words=["in use by another master", str(process.pid)])
        self.fails("--port", port, code=5, words=[f"port {port}", "--port"], data="other")
        self.fails("--prot", 1, code=2, words=["--port"])
        self.fails("--port", 65536, code=2, words=["65535"])
        self.fails("--log-level", "loud", code=2, words=["debug"], data="other")
        for url in ("httpx://master", "http", "httpfoo", "https:/master", "http://", "https:///", "http://:80", ""):
            self.fails("--external-url", url, "--port", 0, code=2, words=[url, "https://HOST"], data="other")
        for url, place in (("http://h|x", 9), ("http://x> <http://evil|click", 9), ("http://h y", 9), ("HTTP://h\n", 9)):
            self.fails("--external-url", url, "--port", 0, code=2, words=["--external-url", f"place {place}"], data="other")
        self.fails("--tls-cert", "x", "--port", 0, code=2, words=["--tls-key"], data="other")
        (self.folder / "bad").mkdir()
        (self.folder / "bad" / "muster.db").write_bytes(b"not a database" * 1000)
        self.fails("--port", 0, code=7, words=["muster.db"], data="bad")
        (self.folder / "blank").write_text("\n")
        self.fails("--initial-password-file", self.folder / "blank", code=2, words=["blank"], data="new")

    def test_configuration_file(self):
        config = self.folder / "master.yaml"
        config.write_text("port: 0\ncluster_name: from a file\nkill-grace: 3\n")
        process = self.start("--config", config, "--kill-grace", 4)
        port = self.port(process)
        self.assertEqual(Api(port).call("GET", "/info")[1]["cluster_name"], "from a file")
        token = Api(port).call("POST", "/api/v1/auth/login", {"username": "admin", "password": PASSWORD})[1]["token"]
        self.assertEqual(Api(port, token).get("/master/config")["config"]["kill_grace"], 4)
        config.write_text("port: 0\nclustername: x\n")
        self.fails("--config", config, code=2, words=["master.yaml:2", "cluster-name"], data="other")
        config.write_text("port: 0\nstorage_allow:\n" + "".join(f"  - /data/{i}\n" for i in range(65)))
        self.fails("--config", config, code=2, words=["master.yaml:3", "65 entries", "64"], data="other")
        config.write_text("port: [1]\n")
        self.fails("--config", config, code=2, words=["master.yaml:1"], data="other")

    def test_help_and_version(self):
        for flag, words in (("--help", ["--data-dir", "muster-agent", "SIGTERM"]), ("--version", ["muster-master "])):
            done = subprocess.run([BIN / "muster-master", flag], capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 0)
            for word in words:
                self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
