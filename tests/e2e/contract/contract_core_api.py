"""A trial of the Core API."""

import json
import threading

from cluster import wait_for
from contract import Contract, EXPERIMENT, PAGE
from det import NotServed, SimulatedAgent


class CoreApi(Contract):
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

    def test_core_api_with_the_token_of_the_user(self):
        """The library sends DET_USER_TOKEN alone, in the header of users."""
        experiment, task, _ = self.running()
        _, other, _ = self.running()
        trial, allocation, env = task["trialId"], task["allocationId"], task["env"]
        caller = self.nobody.caller(env["DET_USER_TOKEN"])
        caller.post("/runs/start", {"runId": trial, "checkpointStorage": None}, "storageId?")
        caller.get(f"/allocations/{allocation}/resources/{env['DET_RESOURCES_ID']}/rendezvous",
                   "rendezvousInfo:RendezvousInfo")
        self.assertEqual(caller.get(f"/allocations/{allocation}/signals/preemption", timeout_seconds=0)["preempt"], False)
        caller.report(f"/trials/{trial}/runner/metadata", {"state": "training"})
        self.metrics(task, caller, "validation", 10, {"validation_loss": 0.25})
        caller.report(f"/trials/{trial}/progress", {"progress": 0.5, "isRaw": True})
        uuid = "00000000-0000-4000-8000-000000000004"
        self.checkpoint(task, caller, uuid, 10)
        caller.call("PATCH", "/checkpoints", {"checkpoints": [{"uuid": uuid, "resources": {"resources": {"a": "1"}}}]})
        self.assertEqual(self.user.get(f"/trials/{trial}")["trial"]["latestValidation"]["totalBatches"], 10)
        caller.call("GET", f"/allocations/{other['allocationId']}/signals/preemption", expect=403)
        self.user.call("GET", f"/allocations/{allocation}/signals/preemption", expect=403)
        self.user.post(f"/experiments/{experiment}/pause")
        self.assertEqual(caller.get(f"/allocations/{allocation}/signals/preemption", timeout_seconds=20)["preempt"], True)
        caller.report(f"/allocations/{allocation}/signals/ack_preemption", {"allocationId": allocation})
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_PAUSED")
        wait_for("the end of the token", lambda: caller.request("GET", "/api/v1/me")[0] == 401, 10)

    def test_core_api_early_exit_with_the_token_of_the_user(self):
        experiment, task, _ = self.running()
        caller = self.nobody.caller(task["env"]["DET_USER_TOKEN"])
        caller.post(f"/trials/{task['trialId']}/early_exit", {"reason": "EXITED_REASON_USER_REQUESTED_STOP"})
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_COMPLETED")

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

    def test_core_api_metadata_of_a_run(self):
        _, task, caller = self.running()
        for metadata in ({"a": {"b": 1}}, {"a": {"b": 1}}):
            self.assertEqual(caller.post(f"/runs/{task['trialId']}/metadata", {"runId": task["trialId"], "metadata": metadata},
                                         "metadata")["metadata"], metadata)
        self.assertEqual(caller.get(f"/runs/{task['trialId']}/metadata", "metadata")["metadata"], {"a": {"b": 1}})

    def test_core_api_patch_of_checkpoints(self):
        _, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000002"
        self.checkpoint(task, caller, uuid, files=(("a", b"a"), ("b", b"b")))
        for _ in range(2):
            caller.call("PATCH", "/checkpoints", {"checkpoints": [{"uuid": uuid, "resources": {"resources": {"a": "1"}}}]})
        self.assertEqual(self.user.get(f"/checkpoints/{uuid}")["checkpoint"]["resources"], {"a": "1"})

    def test_core_api_alert(self):
        experiment, task, caller = self.running()
        caller.post("/webhooks/custom", {"experimentId": experiment, "trialId": task["trialId"], "data": {
            "title": "look", "description": "at this", "level": "LOG_LEVEL_INFO"}})

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

    def on_two_machines(self, slots, name):
        """Starts a second agent; returns (experiment, its tasks on both agents by name)."""
        second = SimulatedAgent(self.cluster.port, self.agent.caller.token, name)
        second.start()
        self.addCleanup(second.stop)
        wait_for("the second agent", lambda: any(
            agent["id"] == name for agent in self.user.get("/agents")["agents"]), 30)
        self.addCleanup(self.admin.post, f"/agents/{name}/disable")  # other tests do not use it
        experiment = self.create(config=self.config.replace("slots_per_trial: 1", f"slots_per_trial: {slots}"))
        self.addCleanup(self.kill, experiment)
        return experiment, {agent.name: agent.task_of(experiment) for agent in (self.agent, second)}

    def test_core_api_rendezvous_of_two_machines(self):
        """Every machine gets with its task the answer of the call for the rendezvous."""
        _, parts = self.on_two_machines(7, "peer")
        seen = {}
        for name, task in parts.items():
            env = task["env"]
            caller = self.nobody.caller(env["DET_SESSION_TOKEN"], task=True)
            seen[name] = caller.get(f"/allocations/{env['DET_ALLOCATION_ID']}/resources/{env['DET_RESOURCES_ID']}/rendezvous",
                                    "rendezvousInfo:RendezvousInfo")["rendezvousInfo"]
            self.assertEqual(task["rendezvous"], seen[name])
            self.assertEqual(seen[name]["slots"][seen[name]["rank"]], sum(len(rank["slots"]) for rank in task["ranks"]))
        self.assertEqual(sorted(info["rank"] for info in seen.values()), [0, 1])
        self.assertEqual(*[(info["addresses"], info["slots"]) for info in seen.values()])

    def test_core_api_daemons(self):
        """A machine that only runs daemons is ended with the last machine that does not, and the
        trial completes."""
        experiment, parts = self.on_two_machines(8, "second")
        resources = parts["second"]["ranks"][0]["env"].get("DET_RESOURCES_ID") or parts["second"]["env"]["DET_RESOURCES_ID"]
        env = parts["second"]["env"]
        caller = self.nobody.caller(env["DET_SESSION_TOKEN"], task=True)
        caller.report(f"/allocations/{env['DET_ALLOCATION_ID']}/resources/{resources}/daemon", {
            "allocationId": env["DET_ALLOCATION_ID"], "resourcesId": resources})
        caller.call("POST", f"/allocations/{env['DET_ALLOCATION_ID']}/resources/none/daemon", expect=404)
        self.agent.end(parts["live"])
        self.wait_for_state(experiment, "STATE_COMPLETED")

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
        storage = {"type": "s3", "bucket": "elsewhere"}
        number = self.user.post("/runs/start", {"runId": trial, "checkpointStorage": storage}, "storageId")["storageId"]
        for same in ({"bucket": "elsewhere", "type": "s3", "save_trial_best": 3}, {**storage, "prefix": None}):
            self.assertEqual(self.user.post("/runs/start", {"runId": trial, "checkpointStorage": same})["storageId"], number)
        uuid = "00000000-0000-4000-8000-000000000251"
        report = {"uuid": uuid, "taskId": task, "metadata": {"steps_completed": 1}, "resources": {"a": "1"},
                  "state": "STATE_COMPLETED", "training": {}}
        _, managed, inside = self.running()
        other = inside.post("/runs/start", {"runId": managed["trialId"], "checkpointStorage": None}, "storageId")["storageId"]
        for wrong in (999999, other):  # the storage of another trial may be that of another team, with its secrets
            self.user.call("POST", "/checkpoints", {**report, "storageId": wrong}, expect=400)
        self.user.post("/checkpoints", {**report, "storageId": number})
        checkpoint = self.user.get(f"/checkpoints/{uuid}", "checkpoint:Checkpoint")["checkpoint"]
        self.assertEqual((checkpoint["storageId"], checkpoint["storage"]), (number, {"bucket": "elsewhere", "type": "s3"}))
        for shown in [self.user.get(f"/experiments/{experiment}")["experiment"],
                      *self.user.get("/experiments", projectId=1)["experiments"]]:
            self.assertEqual(shown["externalExperimentId"], "run 1" if shown["id"] == experiment else None)
        self.user.call("PATCH", f"/trials/{trial}", {"trialId": trial, "state": "STATE_COMPLETED"}, "trial:Trial")
        self.assertEqual(self.user.get(f"/trials/{trial}")["trial"]["state"], "STATE_COMPLETED")
