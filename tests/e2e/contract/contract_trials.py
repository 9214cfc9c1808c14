"""det trial."""

import contextlib
import sqlite3

from cluster import wait_for
from contract import FILES, PAGE, TERMINAL, Contract, NEVER, hashed

TASK_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-%012d"


class Trials(Contract):
    def say(self, caller, task, text):
        caller.post("/task/logs", {"logs": [{
            "task_id": task["taskId"], "allocation_id": task["allocationId"], "agent_id": "live", "rank_id": 0,
            "timestamp": "2026-11-21T09:00:00Z", "level": "LOG_LEVEL_INFO", "log": text}]})

    def lines_of(self, task):
        return [line["log"] for line in self.user.lines(f"/tasks/{task}/logs", "id log taskId")]

    def test_task_id(self):
        experiment, task, caller = self.running()
        trial = task["trialId"]
        self.assertRegex(task["taskId"], f"^{experiment}\\.{TASK_ID % trial}$")
        self.assertEqual(task["allocationId"], task["taskId"] + ".1")
        self.assertEqual(self.user.get(f"/trials/{trial}", "trial:Trial")["trial"]["taskIds"], [task["taskId"]])
        self.say(caller, task, "by its id\n")
        for name in (task["taskId"], f"{experiment}.{trial}"):
            found = self.user.get(f"/tasks/{name}", "task:Task")["task"]
            self.assertEqual((found["taskId"], [one["allocationId"] for one in found["allocations"]]),
                             (task["taskId"], [task["allocationId"]]))
            self.assertIn("by its id", self.lines_of(name))
            self.user.get(f"/tasks/{name}/context_directory", "b64Tgz")
            found = self.user.get(f"/allocations/{name}.1", "allocation:Allocation")["allocation"]
            self.assertEqual(found["allocationId"], task["allocationId"])
        for name in (f"{experiment}.{trial + 1}", f"{experiment + 1}.{trial}", f"{experiment}.{trial}0",
                     f"{experiment}.x", task["taskId"][:-1], task["allocationId"]):
            self.user.call("GET", f"/tasks/{name}", expect=404)
        self.user.call("GET", f"/allocations/{experiment}.{trial}.2", expect=404)

    def test_continued_trial(self):
        """Each continuation is a task of its own, whose lines are a part of the trial's log."""
        experiment = self.create()
        names, trial = [], None
        for number in range(3):
            task = self.agent.task_of(experiment)
            trial, name = task["trialId"], task["taskId"]
            self.assertEqual(name, names[0] + f"-{number}" if number else name)
            self.assertEqual((task["allocationId"], task["env"]["DET_TASK_ID"]), (f"{name}.{number + 1}", name))
            names.append(name)
            caller = self.nobody.caller(task["env"]["DET_SESSION_TOKEN"], task=True)
            caller.get(f"/tasks/{name}/context_directory", "b64Tgz")
            self.say(caller, task, f"by task {number}")
            self.checkpoint(task, caller, NEVER[:-1] + "7", steps=10 + number)
            self.agent.end(task)
            self.wait_for_state(experiment, "STATE_COMPLETED")
            if number < 2:
                self.user.post("/experiments/continue", {"id": experiment, "overrideConfig": ""}, "experiment:Experiment")
        self.assertEqual(self.user.get(f"/trials/{trial}", "trial:Trial")["trial"]["taskIds"], names)

        def lines(path, **query):
            return [line["log"] for line in self.user.lines(path, "id log?", **query) if line["log"].startswith("by task")]

        self.assertEqual(lines(f"/trials/{trial}/logs"), ["by task 0", "by task 1", "by task 2"])
        for number, name in enumerate(names):
            for query in ({}, {"orderBy": "ORDER_BY_DESC"}, {"follow": "true"}, {"searchText": "task"}):
                self.assertEqual(lines(f"/tasks/{name}/logs", **query), [f"by task {number}"], query)
            found = self.user.get(f"/tasks/{name}", "task:Task")["task"]
            self.assertEqual([one["allocationId"] for one in found["allocations"]], [f"{name}.{number + 1}"])
            self.assertLess(found["startTime"], found["endTime"])
            self.user.lines(f"/tasks/{name}/logs/fields", "agentIds allocationIds rankIds sources stdtypes")
            allocation = self.user.get(f"/allocations/{name}.{number + 1}", "allocation:Allocation")["allocation"]
            self.assertEqual(allocation["taskId"], name)
        short = self.user.get(f"/tasks/{experiment}.{trial}-1", "task:Task")["task"]
        self.assertEqual(short["taskId"], names[1])
        for name in (names[0] + "-3", f"{experiment}.{trial}-3", names[0] + "-0"):
            self.user.call("GET", f"/tasks/{name}", expect=404)
            for call in ("logs", "logs/fields", "context_directory"):
                self.user.call("GET", f"/tasks/{name}/{call}", expect=404)
            self.user.call("POST", "//task-logs", [{"taskId": name, "log": "by no task"}], expect=404)
        self.user.call("POST", "//task-logs", [{"taskId": names[1], "log": "by its owner"}])

    def test_old_task_id(self):
        """A trial that an older master has made keeps its task id."""
        experiment = self.create(activate=False)
        trial = self.user.get(f"/experiments/{experiment}/trials", "trials:[Trial]")["trials"][0]["id"]
        self.cluster.master.stop()
        with contextlib.closing(sqlite3.connect(self.cluster.folder / "master" / "muster.db")) as store:
            store.execute("UPDATE trials SET task_id = ? WHERE id = ?", (f"{experiment}.{trial}", trial))
            store.commit()
        self.cluster.start_master()
        self.user.post(f"/experiments/{experiment}/activate")
        task = self.agent.task_of(experiment)
        self.assertEqual((task["taskId"], task["allocationId"]), (f"{experiment}.{trial}", f"{experiment}.{trial}.1"))
        caller = self.nobody.caller(task["env"]["DET_SESSION_TOKEN"], task=True)
        self.metrics(task, caller, "training", 10, {"loss": 0.5})
        self.say(caller, task, "by an old id\n")
        self.assertIn("by an old id", self.lines_of(task["taskId"]))
        self.user.get(f"/allocations/{task['allocationId']}", "allocation:Allocation")
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_COMPLETED")

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

    def test_fields_of_a_trial(self):
        experiment, task, caller = self.running()
        trial = self.user.get(f"/trials/{task['trialId']}")["trial"]
        self.assertEqual((trial["searcherMetricValue"], trial["warmStartCheckpointUuid"]), (None, None))
        self.metrics(task, caller, "validation", 10, {"validation_loss": 0.25})
        uuid = "00000000-0000-4000-8000-000000000260"
        self.checkpoint(task, caller, uuid)
        source = self.config.replace("metric: validation_loss", f"metric: validation_loss, source_checkpoint_uuid: {uuid}")
        warm, warm_task, _ = self.running(config=source)
        for of, number, field, value in ((experiment, task["trialId"], "searcherMetricValue", 0.25),
                                         (warm, warm_task["trialId"], "warmStartCheckpointUuid", uuid)):
            self.assertEqual(self.user.get(f"/trials/{number}", "trial:Trial")["trial"][field], value)
            self.assertEqual(self.user.get(f"/experiments/{of}/trials")["trials"][0][field], value)

    def test_start_from_the_best_of_an_experiment(self):
        experiment, task, caller = self.running()
        best = self.config.replace("metric: validation_loss",
                                   f"metric: validation_loss, source_experiment_id: {experiment}")
        uuids = [f"00000000-0000-4000-8000-00000000027{i}" for i in range(4)]
        def refused(text, config=best):
            answer = self.user.call("POST", "/experiments", {"config": config, "modelDefinition": FILES}, expect=400)
            self.assertIn(text, answer["message"])
        refused("no experiment %d with a checkpoint" % experiment)
        self.checkpoint(task, caller, uuids[0], 5)
        refused("has a value of its searcher's metric")
        for uuid, steps, loss in ((uuids[1], 10, 0.5), (uuids[2], 20, 0.25), (uuids[3], 30, 0.75)):
            self.metrics(task, caller, "validation", steps, {"validation_loss": loss})
            self.checkpoint(task, caller, uuid, steps)
        refused("exclude each other", best.replace("source_experiment_id", "source_trial_id: 1, source_experiment_id"))
        _, warm, _ = self.running(config=best)
        self.assertEqual(self.user.get(f"/trials/{warm['trialId']}")["trial"]["warmStartCheckpointUuid"], uuids[2])
        self.assertEqual(warm["env"]["DET_LATEST_CHECKPOINT"], uuids[2])

    def test_profiler(self):
        experiment, task, caller = self.running()
        for value in (1.5, 2.5):
            self.metrics(task, caller, "cpu", None, {"live": {"cpu_util_simple": value}})
            self.metrics(task, caller, "gpu", None, {"live": {"uuid-1": {"gpu_util": value + 10}, "uuid-2": {"gpu_util": value}}})
            self.metrics(task, caller, "memory", None, {"memory_free": value})
        self.metrics(task, caller, "training", 10, {"loss": 1})
        self.kill(experiment)
        path = f"/trials/{task['trialId']}/profiler"
        labels = self.user.lines(f"{path}/available_series", "labels:[ProfilerLabels]", follow="true")[-1]["labels"]
        self.assertEqual({(x["name"], x["agentId"], x["gpuUuid"]) for x in labels}, {
            ("gpu_util", "live", "uuid-1"), ("gpu_util", "live", "uuid-2"), ("cpu_util_simple", "live", ""), ("memory_free", "", "")})

        def values(**query):
            batches = [line["batch"] for line in self.user.lines(f"{path}/metrics", "batch:ProfilerBatch", **query)]
            self.assertTrue(all(len(b["values"]) == len(b["batches"]) == len(b["timestamps"]) for b in batches))
            return sorted({value for batch in batches for value in batch["values"]})  # a report comes several times
        self.assertEqual(values(**{"labels.name": "cpu_util_simple"}), [1.5, 2.5])
        self.assertEqual(values(**{"labels.name": "memory_free", "follow": "true"}), [1.5, 2.5])
        self.assertEqual(values(**{"labels.name": "gpu_util", "labels.agentId": "live", "labels.gpuUuid": "uuid-1"}), [11.5, 12.5])
        self.assertEqual(values(**{"labels.name": "gpu_util"}), [1.5, 2.5, 11.5, 12.5])
        self.assertEqual(values(**{"labels.name": "gpu_util", "labels.agentId": "other"}), [])
        self.user.call("GET", f"{path}/metrics", expect=400)

    def test_charts_of_an_experiment(self):
        experiment, task, caller = self.running()
        for steps, value in ((10, 0.5), (20, 0.25), (30, 0.75)):
            self.metrics(task, caller, "validation", steps, {"validation_loss": value})
        self.kill(experiment)  # then a stream ends after one line
        path = f"/experiments/{experiment}/metrics-stream"
        metric = {"metricName": "validation_loss", "metricType": "METRIC_TYPE_VALIDATION"}

        def line(call, answer, **query):
            lines = list(self.user.lines(f"{path}/{call}", answer, **metric, **query))
            self.assertEqual(len(lines), 1)
            return lines[0]
        self.assertEqual(line("batches", "batches")["batches"], [10, 20, 30])
        near = line("trials-snapshot", "trials:[SnapshotTrial]", batchesProcessed=18, batchesMargin=5)["trials"]
        self.assertEqual([(t["trialId"], t["batchesProcessed"], t["metric"]) for t in near], [(task["trialId"], 20, 0.25)])
        self.assertEqual(near[0]["hparams"], {"width": 64})
        self.assertEqual(line("trials-snapshot", "trials:[SnapshotTrial]", batchesProcessed=100)["trials"], [])
        sample = line("trials-sample", "trials:[SampleTrial] promotedTrials demotedTrials", maxTrials=5, startBatches=15)
        self.assertEqual((sample["promotedTrials"], sample["demotedTrials"]), ([task["trialId"]], []))
        self.assertEqual([(p["batches"], p["values"]) for p in sample["trials"][0]["data"]],
                         [(20, {"validation_loss": 0.25}), (30, {"validation_loss": 0.75})])
        for call, query in (("batches", {"metricName": "x"}), ("batches", {"metricType": "METRIC_TYPE_TRAINING"}),
                            ("trials-snapshot", {**metric, "batchesMargin": 101}), ("trials-sample", {**metric, "maxTrials": 201})):
            self.user.call("GET", f"{path}/{call}", expect=400, **query)

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
        for query, count in (({"limit": 2}, 2), ({"orderBy": "ORDER_BY_DESC", "limit": 1}, 1), ({"rankIds": [0]}, 5), ({"rankIds": [-1]}, 0),
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

    def test_days_of_logs(self):
        experiment, task, _ = self.running()
        path = f"/trials/{task['trialId']}"

        def left():
            return self.user.get(f"{path}/remaining_log_retention_days", "remainingDays")["remainingDays"]
        self.assertEqual(left(), -1)  # the cluster's default
        self.user.call("PUT", f"{path}/retain_logs", {"trialId": task["trialId"], "numDays": 30})
        self.assertEqual(left(), 30)
        self.kill(experiment)
        self.assertEqual(left(), 29)  # whole days
        for project in (1, -1):
            answer = self.user.call("PUT", f"/projects/{project}/experiments/retain_logs", {
                "experimentIds": [experiment], "projectId": project, "numDays": 100 + project, "filters": None},
                "results:[ActionResult]")
            self.assertEqual(answer["results"], [{"id": experiment, "error": ""}])
            self.assertEqual(left(), 99 + project)
        self.user.call("PUT", "/projects/1/experiments/retain_logs", {"experimentIds": [experiment], "projectId": 1,
                                                                      "numDays": -1}, "results:[ActionResult]")
        self.assertEqual(left(), -1)
        self.user.call("GET", "/trials/999999/remaining_log_retention_days", expect=404)

    def test_lines_without_a_rank(self):
        """A filter finds lines without a rank by rankIds=-1."""
        _, task, caller = self.running()
        caller.post("/task/logs", {"logs": [{"taskId": task["taskId"], "log": f"rank {rank}", "rankId": rank,
                                             "timestamp": "2026-11-21T09:00:00Z"} for rank in (None, 0, 1)]})
        path = f"/trials/{task['trialId']}/logs"
        wait_for("the lines", lambda: len(self.user.lines(path, "id message")) >= 3, 10)
        for ranks, words in (([-1], ["rank None"]), ([0], ["rank 0"]), ([-1, 1], ["rank None", "rank 1"])):
            found = [line["log"] for line in self.user.lines(path, "id log", rankIds=ranks)]
            self.assertEqual([log for log in found if log.startswith("rank ")], words)

    def test_metrics_of_a_user(self):
        """Whoever may change an experiment reports for its trials, while they run and afterwards."""
        experiment, task, caller = self.running()
        trial, run = task["trialId"], int(task["env"]["DET_TRIAL_RUN_ID"])
        self.metrics(task, caller, "training", 10, {"loss": 0.5})

        def report(reporter, steps, expect=200, run=run):
            return reporter.call("POST", f"/trials/{trial}/metrics", {"group": "training", "metrics": {
                "trialId": trial, "trialRunId": run, "stepsCompleted": steps,
                "metrics": {"avgMetrics": {"loss": steps / 100}}}}, expect=expect)
        report(self.user, 20)
        report(self.user, 20, expect=400, run=run + 1)
        self.admin.post("/users", {"user": {"username": "reader", "active": True}, "password": hashed("p"), "isHashed": True})
        report(self.login("reader", "p"), 30, expect=403)
        self.user.call("POST", f"/trials/{trial}/progress", {"progress": 0.5}, expect=403)
        self.kill(experiment)
        for steps in (30, 40):
            wait_for("the commit of the last report", lambda: self.user.request("POST", f"/api/v1/trials/{trial}/metrics", {
                "group": "training", "metrics": {"trialId": trial, "trialRunId": run, "stepsCompleted": steps,
                                                 "metrics": {"avgMetrics": {"loss": steps / 100}}}})[0] == 200, 10)
        lines = self.user.lines("/trials/metrics/training_metrics", "metrics:[MetricsReport]", trialIds=[trial])
        reports = {r["totalBatches"]: r["metrics"]["avg_metrics"]["loss"] for line in lines for r in line["metrics"]}
        self.assertEqual(reports, {10: 0.5, 20: 0.2, 30: 0.3, 40: 0.4})
        summary = self.user.get(f"/trials/{trial}", "trial:Trial")["trial"]["summaryMetrics"]["avg_metrics"]["loss"]
        self.assertEqual((summary["count"], summary["last"]), (4, 0.4))

    def test_lines_with_control_bytes_are_kept(self):
        _, task, caller = self.running()
        lines = [{"taskId": task["taskId"], "log": text, "timestamp": "2026-11-21T09:00:00Z"}
                 for text in ("one\0two\n", "\0", "\x1b[1mbold\tend \x07")]
        caller.post("/task/logs", {"logs": lines})
        found = wait_for("the lines", lambda: self.user.lines(f"/tasks/{task['taskId']}/logs", "id log"), 10)
        self.assertEqual([line["log"] for line in found], ["one\ufffdtwo", "\ufffd", "\x1b[1mbold\tend \ufffd"])

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
