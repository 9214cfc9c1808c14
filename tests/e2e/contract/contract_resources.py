"""Webhooks and resources."""

import http.server
import threading

from contract import Contract
from det import NotServed


class Receiver(http.server.BaseHTTPRequestHandler):
    """The receiver of webhooks."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Resources(Contract):
    def test_webhooks(self):
        receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        self.addCleanup(receiver.server_close)
        self.addCleanup(receiver.shutdown)
        made = self.admin.post("/webhooks", {
            "url": f"http://127.0.0.1:{receiver.server_port}/hook", "webhookType": "WEBHOOK_TYPE_DEFAULT", "name": "hook",
            "mode": "WEBHOOK_MODE_WORKSPACE", "id": None, "workspaceId": None,
            "triggers": [{"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "COMPLETED"},
                          "id": None, "webhookId": None}]}, "webhook:Webhook")["webhook"]
        self.admin.get("/webhooks", "webhooks:[Webhook]")
        self.admin.post(f"/webhooks/{made['id']}/test", None, "completed")
        self.admin.call("DELETE", f"/webhooks/{made['id']}")

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
