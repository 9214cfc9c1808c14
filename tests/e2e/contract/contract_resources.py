"""Webhooks and resources."""

import csv
import json

from cluster import PASSWORD, Cluster, wait_for
from contract import Contract, FILES, hashed
from det import Det, NotServed, SimulatedAgent
from webhook_receiver import WebhookReceiver


class Resources(Contract):
    def receiver(self):
        receiver = WebhookReceiver()
        self.addCleanup(receiver.close)
        return receiver

    def received(self, receiver, what):
        _, body = wait_for(what, lambda: receiver.requests and receiver.requests.pop(), 10)
        return json.loads(body)

    def test_webhooks(self):
        receiver = self.receiver()
        made = self.admin.post("/webhooks", {
            "url": receiver.url, "webhookType": "WEBHOOK_TYPE_DEFAULT", "name": "hook",
            "mode": "WEBHOOK_MODE_WORKSPACE", "id": None, "workspaceId": None,
            "triggers": [{"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "COMPLETED"},
                          "id": None, "webhookId": None}]}, "webhook:Webhook")["webhook"]
        self.admin.get("/webhooks", "webhooks:[Webhook]")
        self.admin.post(f"/webhooks/{made['id']}/test", None, "completed")
        self.admin.call("DELETE", f"/webhooks/{made['id']}")

    def test_slack(self):
        """The blocks and texts that a channel and its bots know."""
        receiver = self.receiver()
        hook = self.admin.post("/webhooks", {
            "url": receiver.url, "webhookType": "WEBHOOK_TYPE_SLACK", "name": "slack",
            "mode": "WEBHOOK_MODE_WORKSPACE", "triggers": [
                {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "COMPLETED"}},
                {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "ERROR"}},
                {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "out of (memory|luck)"}}]})["webhook"]["id"]
        self.addCleanup(self.admin.call, "DELETE", f"/webhooks/{hook}")
        for exit_code, status, mark, word, color in (
                (0, "Your experiment completed successfully \U0001f389", "\u2705", "Completed", "#13B670"),
                (1, "Your experiment has stopped with errors", "\u274c", "Errored", "#DD5040")):
            experiment = self.create()
            task = self.agent.task_of(experiment)
            if exit_code:
                self.nobody.caller(task["env"]["DET_SESSION_TOKEN"], task=True).post("/task/logs", {"logs": [{
                    "taskId": task["taskId"], "agentId": "live", "log": "out of luck\n", "timestamp": "2026-11-21T09:00:00Z"}]})
                body = self.received(receiver, "the log line")
                self.assertEqual(body, {"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": (
                    f"Experiment ID `{experiment}`, Trial ID `{task['trialId']}`, running on node `live`, reported a log\n"
                    "```out of luck```\nThis log matched the regex\n```out of (memory|luck)```\n"
                    f"View full logs at /det/experiments/{experiment}/trials/{task['trialId']}/logs")}}]})
            self.agent.end(task, exit_code)
            body = self.received(receiver, "the message")
            fields = body["attachments"][0]["blocks"][0].pop("fields")
            self.assertEqual(body, {
                "blocks": [{"type": "section", "text": {"type": "plain_text", "text": status}}],
                "attachments": [{"color": color, "blocks": [{"type": "section", "text": {
                    "type": "mrkdwn", "text": f"{mark} contract (#{experiment})"}}]}]})
            self.assertEqual([(f["type"], f["text"]) for f in fields], [("mrkdwn", text) for text in (
                f"*Status*: {word}", "*Duration*: 0h 0min", "*Workspace*: Uncategorized", "*Project*: Uncategorized",
                *([f"*Reason*: rank 0: exit {exit_code}"] if exit_code else []))])  # the last is Muster's own

    def test_slack_with_links(self):
        """A master that knows its address links the experiment and its log; a slash at the end of the address does not matter."""
        with Cluster("linked", slots=(), master_flags=("--external-url", "https://muster.example/x/")) as cluster:
            user = Det(cluster.port)
            token = user.post("/auth/login", {"username": "admin", "password": hashed(PASSWORD), "isHashed": True})["token"]
            user = user.caller(token)
            agent = SimulatedAgent(cluster.port, (cluster.folder / "master" / "agent.token").read_text().strip())
            agent.start()
            self.addCleanup(agent.stop)
            receiver = self.receiver()
            user.post("/webhooks", {
                "url": receiver.url, "webhookType": "WEBHOOK_TYPE_SLACK", "name": "slack",
                "mode": "WEBHOOK_MODE_WORKSPACE", "workspaceId": 1, "triggers": [
                    {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "COMPLETED"}},
                    {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "luck"}}]})
            config = "\n".join(line for line in self.config.splitlines() if not line.startswith("checkpoint_storage"))
            made = user.post("/experiments", {"config": config.replace("name: contract", "name: a<b", 1), "activate": True,
                                              "modelDefinition": FILES})["experiment"]["id"]
            task = agent.task_of(made)
            user.caller(task["env"]["DET_SESSION_TOKEN"], task=True).post("/task/logs", {"logs": [{
                "taskId": task["taskId"], "agentId": "live", "log": "luck\n", "timestamp": "2026-11-21T09:00:00Z"}]})
            body = self.received(receiver, "the log line")
            self.assertTrue(body["blocks"][0]["text"]["text"].endswith(
                f"```luck```\n<https://muster.example/x/det/experiments/{made}/trials/{task['trialId']}/logs"
                " | View full logs here>"), body)
            agent.end(task)
            body = self.received(receiver, "the message")
            self.assertEqual(body["attachments"][0]["blocks"][0]["text"]["text"],
                             f"\u2705 <https://muster.example/x/det/experiments/{made}/overview | a&lt;b (#{made})>")

    def test_allocations(self):
        experiment, task, _ = self.running()
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_COMPLETED")
        for path in ("allocations-csv", "tasks-raw"):
            url = self.user.url(f"//resources/allocation/{path}", {"timestamp_after": "2026-01-01T00:00:00Z",
                                                                   "timestamp_before": "2100-01-01T00:00:00Z"})
            status, text = self.user.request("GET", url)
            self.assertEqual(status, 200, text)
            lines = list(csv.DictReader(text.decode().splitlines()))
            self.assertEqual(list(lines[0]), ["allocation_id", "task_type", "username", "workspace_name", "experiment_id",
                                              "slots", "start_time", "end_time", "imagepulling_time", "gpu_hours"])
            found = next(line for line in lines if line["allocation_id"] == task["allocationId"])
            self.assertEqual([found[key] for key in ("task_type", "username", "workspace_name", "experiment_id", "slots")],
                             ["TRIAL", "determined", "Uncategorized", str(experiment), "1"])
            self.assertLess(found["start_time"], found["end_time"])
            self.assertGreater(float(found["gpu_hours"]), 0)

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
