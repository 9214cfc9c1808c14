"""The common part of the tests of the wire contract: a cluster with a simulated agent, its callers,
and an experiment.
"""

import base64
import hashlib
import pathlib
import unittest

from cluster import PASSWORD, Cluster, wait_for
from det import Det, SimulatedAgent

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


class Contract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls.__name__, slots=(), master_flags=("--storage-allow", pathlib.Path("storage").resolve()))
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

    def poll(self, task, caller):
        """Polls for preemption, so the program counts as one that can be asked to leave; returns whether it should leave."""
        return caller.get(f"/allocations/{task['allocationId']}/signals/preemption", "preempt", timeout_seconds=0)["preempt"]

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
