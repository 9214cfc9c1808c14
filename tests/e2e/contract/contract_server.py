"""What det master and every det command ask of the master itself."""

from contract import Contract, NEVER


class Server(Contract):
    def test_the_document(self):
        self.nobody.document.check_structure()

    def test_info(self):
        self.nobody.get("//info", "version master_id cluster_id cluster_name")

    def test_master(self):
        self.user.get("/master", "clusterId clusterName masterId strictJobQueueControl version hasCustomLogo")
        self.admin.get("/master/config", "config")

    def test_master_logs(self):
        lines = self.admin.lines("/master/logs", "logEntry:LogEntry", follow="false", offset=-5)
        self.assertGreater(len(lines), 0)

    def test_master_cluster_message(self):
        self.admin.call("PUT", "/master/cluster_message", {
            "message": "maintenance at noon", "startTime": "2026-11-20T09:00:00Z", "endTime": None, "duration": None})
        shown = self.user.get("/master/cluster_message", "clusterMessage:ClusterMessage")
        self.assertEqual(shown["clusterMessage"]["message"], "maintenance at noon")
        self.admin.call("DELETE", "/master/cluster_message")
        self.assertIsNone(self.user.get("/master/cluster_message").get("clusterMessage"))

    def test_words_of_404(self):
        """Scripts look for "not found"."""
        for noun, name, path in (("experiment", 999, "/experiments/999"), ("trial", 999, "/trials/999"),
                                 ("task", "999.1", "/tasks/999.1"), ("task", "x", "/tasks/x/logs"),
                                 ("task", NEVER, f"/commands/{NEVER}"), ("checkpoint", NEVER, f"/checkpoints/{NEVER}"),
                                 ("workspace", 999, "/workspaces/999"), ("project", 999, "/projects/999"),
                                 ("user", 999, "/users/999"), ("user", "no-one", "/users/no-one/by-username"),
                                 ("model", "none", "/models/none"), ("template", "none", "/templates/none"),
                                 ("webhook", 999, "/webhooks/999"), ("allocation", "9.9.9", "/allocations/9.9.9"),
                                 ("agent", "none", "/agents/none"),
                                 ("path", "/api/v1/nonsense", "/nonsense")):
            status, answer = self.admin.request("GET", "/api/v1" + path)
            self.assertEqual(status, 404, (path, answer))
            self.assertIn(f"{noun} '{name}' not found", answer["error"]["error"], path)
            self.assertIn("not found", answer["message"])
