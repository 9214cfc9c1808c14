"""What det master and every det command ask of the master itself."""

from contract import Contract


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
