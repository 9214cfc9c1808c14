"""What det master and every det command ask of the master itself."""

from contract import FILES, NEVER, Contract


class Server(Contract):
    def test_the_document(self):
        self.nobody.document.check_structure()

    def test_info(self):
        info = self.nobody.get("//info", "version master_id cluster_id cluster_name")
        self.assertEqual(info["version"], "0.38.1")  # every command warns about an older one
        self.assertRegex(info["musterVersion"], r"^\d+\.\d+\.\d+$")
        master = self.nobody.get("/master")
        self.assertEqual((master["version"], master["musterVersion"]), (info["version"], info["musterVersion"]))

    def test_health(self):
        """Probes ask without a token."""
        self.assertEqual(self.nobody.get("//health", "status database resource_managers"), {
            "status": "up", "database": "up", "resource_managers": [{"cluster_name": "muster", "status": "up"}]})

    def test_master(self):
        self.user.get("/master", "clusterId clusterName masterId strictJobQueueControl version hasCustomLogo")
        config = self.admin.get("/master/config", "config")["config"]
        self.assertEqual(config["resource_manager"]["type"], "agent")
        pools = [pool["name"] for pool in self.user.get("/resource-pools")["resourcePools"]]
        for role in ("compute", "aux"):
            self.assertIn(config["resource_manager"][f"default_{role}_resource_pool"], pools)
        self.assertEqual(config["feature_switches"], [])

    def test_master_logs(self):
        lines = self.admin.lines("/master/logs", "logEntry:LogEntry", follow="false", offset=-5)
        self.assertGreater(len(lines), 0)

    def test_master_logs_of_others(self):
        """Users see the lines about the cluster and about the experiments that they may see."""
        workspace = self.admin.post("/workspaces", {"name": "hidden", "defaultRole": "none"})["workspace"]["id"]
        project = self.admin.post(f"/workspaces/{workspace}/projects", {"name": "p"})["project"]["id"]
        theirs = self.admin.post("/experiments", {"config": self.config, "modelDefinition": FILES, "activate": False,
                                                  "projectId": project})["experiment"]["id"]
        mine = self.create(activate=False)

        def log(caller):
            return "\n".join(line["logEntry"]["message"] for line in caller.lines("/master/logs", "logEntry:LogEntry"))
        for words in (f"exp={theirs} ", f"workspace={workspace} user=admin"):
            self.assertIn(words, log(self.admin))
            self.assertNotIn(words, log(self.user))
        self.assertIn(f"exp={mine} user=determined", log(self.user))
        self.assertIn('msg="agent connected" agent=live slots=4', log(self.user))
        self.assertNotIn("data=", log(self.user))  # a path of the master
        for experiment, caller in ((theirs, self.admin), (mine, self.user)):
            caller.post(f"/experiments/{experiment}/kill")

    def test_master_cluster_message(self):
        self.admin.call("PUT", "/master/cluster_message", {
            "message": "maintenance at noon", "startTime": "2026-11-20T09:00:00Z", "endTime": None, "duration": None})
        for shown in (self.admin.get("/master/cluster_message", "clusterMessage:ClusterMessage"), self.user.get("/master")):
            self.assertEqual(shown["clusterMessage"]["message"], "maintenance at noon")
        self.user.call("GET", "/master/cluster_message", expect=403)
        self.admin.call("PUT", "/master/cluster_message", {"message": "soon", "startTime": "2100-01-01T00:00:00.5Z",
                                                           "endTime": "2100-01-02T00:00:00Z", "duration": None})
        shown = self.admin.get("/master/cluster_message", "clusterMessage:ClusterMessage")["clusterMessage"]
        self.assertEqual((shown["startTime"], shown["endTime"]), ("2100-01-01T00:00:00Z", "2100-01-02T00:00:00Z"))
        self.assertRegex(shown["createdTime"], r"T\d\d:\d\d:\d\dZ$")
        self.assertIsNone(self.user.get("/master")["clusterMessage"])  # it does not show yet
        self.admin.call("DELETE", "/master/cluster_message")
        self.assertIsNone(self.admin.get("/master/cluster_message").get("clusterMessage"))

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
