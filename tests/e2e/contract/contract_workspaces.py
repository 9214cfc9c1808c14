"""det workspace and det project."""

import contextlib
import sqlite3

from cluster import wait_for
from contract import Contract, FILES, PAGE, hashed
from det import SimulatedAgent


class Workspaces(Contract):
    def test_workspaces_and_projects(self):
        workspace = self.user.post("/workspaces", {
            "name": "team", "agentUserGroup": None, "checkpointStorageConfig": None, "clusterNamespaceMeta": None,
            "clusterQuotaPairs": None, "defaultAuxPool": None, "defaultComputePool": None},
            "workspace:Workspace namespaceBindings")["workspace"]["id"]
        self.user.get("/workspaces", f"workspaces:[Workspace] {PAGE}", limit=None, offset=0, pinned=None,
                      sortBy="SORT_BY_ID", orderBy="ORDER_BY_ASC")
        self.user.get(f"/workspaces/{workspace}", "workspace:Workspace")
        self.user.call("PATCH", f"/workspaces/{workspace}", {"name": "team two"}, "workspace:Workspace")
        project = self.user.post(f"/workspaces/{workspace}/projects", {
            "name": "study", "workspaceId": workspace, "description": "d", "key": None}, "project:Project")["project"]["id"]
        self.user.get(f"/workspaces/{workspace}/projects", f"projects:[Project] {PAGE}", limit=200, offset=0,
                      sortBy="SORT_BY_NAME", orderBy="ORDER_BY_ASC")
        self.user.get(f"/projects/{project}", "project:Project")
        self.user.get("/experiments", f"experiments:[Experiment] {PAGE}", projectId=project)
        self.user.call("PATCH", f"/projects/{project}", {"name": "study two", "description": None, "key": None},
                       "project:Project")
        other = self.user.post("/workspaces", {"name": "another team"})["workspace"]["id"]
        self.user.post(f"/projects/{project}/move", {"destinationWorkspaceId": other, "projectId": project})
        self.assertEqual(self.user.get(f"/projects/{project}")["project"]["workspaceId"], other)
        for path in (f"/projects/{project}", f"/workspaces/{workspace}", f"/workspaces/{other}"):
            self.user.post(path + "/archive")
            self.user.post(path + "/unarchive")
            self.user.call("DELETE", path, None, "completed")
            wait_for("the deletion", lambda: self.user.request("GET", "/api/v1" + path)[0] == 404, 30)

    def test_default_pools(self):
        """A configuration without a pool runs in that of its workspace: with slots in one, without slots in the other."""
        agents = []
        token = (self.cluster.folder / "master" / "agent.token").read_text().strip()
        for pool in ("big", "small"):
            agents.append(SimulatedAgent(self.cluster.port, token, name=f"of-{pool}"))
            agents[-1].pool = pool
            agents[-1].start()
            self.addCleanup(agents[-1].stop)
        wait_for("the agents", lambda: len(self.user.get("/agents")["agents"]) == 3, 30)
        self.user.call("POST", "/workspaces", {"name": "p", "defaultComputePool": "nowhere"}, expect=400)
        made = self.user.post("/workspaces", {"name": "p", "defaultComputePool": "big"},
                              "workspace:Workspace namespaceBindings")["workspace"]
        path = f"/workspaces/{made['id']}"
        self.assertEqual((made["defaultComputePool"], made.get("defaultAuxPool")), ("big", None))
        refused = self.user.call("PATCH", path, {"defaultAuxPool": "nowhere"}, expect=400)
        self.assertIn("defaultAuxPool", refused["message"])
        self.user.call("PATCH", path, {"defaultAuxPool": "small"})
        shown = self.user.get(path)["workspace"]
        self.assertEqual((shown["defaultComputePool"], shown["defaultAuxPool"]), ("big", "small"))
        project = self.user.post(f"{path}/projects", {"name": "q"})["project"]["id"]

        def pool_of(config):
            made = self.create(config=config, activate=False, projectId=project)
            self.addCleanup(self.kill, made)
            shown = self.user.get(f"/experiments/{made}")["experiment"]
            self.assertEqual(shown["resourcePool"], shown["config"]["resources"]["resource_pool"])
            return shown["resourcePool"]
        named = self.config.replace("slots_per_trial: 1", "slots_per_trial: 1, resource_pool: default")
        self.assertEqual([pool_of(self.config), pool_of(named)], ["big", "default"])
        launched = self.user.post("/commands", {"config": {"entrypoint": ["true"], "resources": {"slots": 0}},
                                                "workspaceId": made["id"]})
        command = launched["command"]
        self.assertEqual((command["resourcePool"], launched["config"]["resources"]["resource_pool"]), ("small", "small"))
        shown = self.user.get(f"/commands/{command['id']}")["config"]["resources"]
        self.assertEqual((shown["resource_pool"], shown["slots"]), ("small", 0))
        self.user.post(f"/commands/{command['id']}/kill")
        self.user.call("PATCH", path, {"defaultComputePool": ""})
        self.assertNotIn("defaultComputePool", self.user.get(path)["workspace"])
        self.assertEqual(pool_of(self.config), "default")

    def test_default_pool_that_vanishes(self):
        """Submissions name the workspace, and a form that repeats the pool is accepted."""
        token = (self.cluster.folder / "master" / "agent.token").read_text().strip()
        agent = SimulatedAgent(self.cluster.port, token, name="leaver")
        agent.pool = "brief"
        agent.start()
        wait_for("the agent", lambda: any(a["id"] == "leaver" for a in self.user.get("/agents")["agents"]), 30)
        made = self.user.post("/workspaces", {"name": "left", "defaultComputePool": "brief"})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{made}/projects", {"name": "q"})["project"]["id"]
        agent.stop()
        self.cluster.master.kill9()
        with contextlib.closing(sqlite3.connect(self.cluster.folder / "master" / "muster.db")) as store, store:
            store.execute("DELETE FROM agents WHERE id = 'leaver'")
        self.cluster.start_master()
        submission = {"activate": False, "config": self.config, "modelDefinition": FILES, "projectId": project}
        refused = self.user.call("POST", "/experiments", submission, expect=400)
        self.assertIn('the default pool of workspace "left" is gone', refused["message"])
        path = f"/workspaces/{made}"
        changed = self.user.call("PATCH", path, {"name": "renamed", "defaultComputePool": "brief", "defaultAuxPool": ""})
        self.assertEqual((changed["workspace"]["name"], changed["workspace"]["defaultComputePool"]), ("renamed", "brief"))
        self.user.call("PATCH", path, {"defaultAuxPool": "brief"}, expect=400)
        self.user.call("PATCH", path, {"defaultComputePool": ""})
        self.user.call("POST", "/experiments", submission)

    def test_project_keys(self):
        workspace = self.user.post("/workspaces", {"name": "keys"})["workspace"]["id"]
        path = f"/workspaces/{workspace}/projects"
        drawn = self.user.post(path, {"name": "c-a t!s"}, "project:Project")["project"]
        self.assertRegex(drawn["key"], "^CAT[A-Z0-9]{2}$")
        given = self.user.post(path, {"name": "two", "key": "dogs1"}, "project:Project")["project"]
        self.assertEqual(given["key"], "DOGS1")
        for wrong, status in (("", 400), ("sixsix", 400), ("a b", 400), ("dogs1", 409)):
            self.user.call("POST", path, {"name": "three", "key": wrong}, expect=status)
            self.user.call("PATCH", f"/projects/{drawn['id']}", {"key": wrong}, expect=status)
        changed = self.user.call("PATCH", f"/projects/{drawn['id']}", {"key": "x"}, "project:Project")["project"]
        self.assertEqual((changed["key"], changed["name"]), ("X", "c-a t!s"))
        self.user.call("PATCH", f"/projects/{drawn['id']}", {"key": "x", "name": "cats"})  # its own key
        self.assertEqual(self.user.get("/projects/key/x", "project:Project")["project"]["id"], drawn["id"])
        self.user.call("GET", "/projects/key/none", expect=404)
        self.assertEqual(self.user.get("/projects/1")["project"]["key"], "UNCAT")

    def test_workspace_settings(self):
        folder = {"type": "directory", "container_path": str(self.storage)}
        account = {"agentUid": 1007, "agentUser": "seven", "agentGid": None, "agentGroup": None}
        self.user.call("POST", "/workspaces", {"name": "mine", "agentUserGroup": account}, expect=403)
        made = self.admin.post("/workspaces", {"name": "settled", "agentUserGroup": account, "checkpointStorageConfig": folder},
                               "workspace:Workspace namespaceBindings")["workspace"]
        path = f"/workspaces/{made['id']}"
        self.assertEqual(made["agentUserGroup"], {"agentUid": 1007, "agentUser": "seven"})
        self.assertEqual(made["checkpointStorageConfig"], folder)
        for wrong in ({"agentUserGroup": {"agentUid": 1}}, {"agentUserGroup": {"agentGroup": "g"}},
                      {"checkpointStorageConfig": {"type": "s3"}}, {"checkpointStorageConfig": {"bucket": "b"}},
                      {"checkpointStorageConfig": {"type": "directory", "container_path": "here"}},
                      {"checkpointStorageConfig": {"type": "directory", "container_path": "/c", "no_such_key": 1}}):
            self.admin.call("PATCH", path, wrong, expect=400)
        self.admin.call("PATCH", path, {"checkpointStorageConfig": {"type": "directory", "container_path": "/etc"}}, expect=403)
        secret = {"type": "s3", "bucket": "b", "access_key": "public", "secret_key": "private"}
        shown = {**secret, "access_key": "********", "secret_key": "********"}
        for caller, answer in ((self.admin, self.admin.call("PATCH", path, {"checkpointStorageConfig": secret})),
                               (self.user, self.user.get(path)), (self.admin, self.admin.get(path))):
            self.assertEqual(answer["workspace"]["checkpointStorageConfig"], shown)
        listed = self.admin.get("/workspaces", f"workspaces:[Workspace] {PAGE}")["workspaces"]
        self.assertEqual([w["checkpointStorageConfig"] for w in listed if w["id"] == made["id"]], [shown])
        self.admin.call("PATCH", path, {"checkpointStorageConfig": shown}, expect=400)  # a mask is no secret
        cleared = self.admin.call("PATCH", path, {"checkpointStorageConfig": {}, "agentUserGroup": {}})["workspace"]
        self.assertNotIn("checkpointStorageConfig", cleared)
        self.assertNotIn("agentUserGroup", cleared)
        self.admin.post(f"{path}/archive")
        self.admin.call("PATCH", path, {"name": "settled twice"}, expect=409)
        self.assertEqual(self.admin.get(path)["workspace"]["name"], "settled")

    def test_storage_of_the_workspace_is_a_default(self):
        other = self.storage / "other"
        other.mkdir()
        workspace = self.user.post("/workspaces", {"name": "stored", "checkpointStorageConfig": {
            "type": "directory", "container_path": str(other), "save_trial_latest": 3}})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {"name": "p", "workspaceId": workspace})["project"]["id"]

        def storage(lines):
            config = "".join(line + "\n" for line in self.config.splitlines() if "checkpoint_storage" not in line)
            experiment = self.create(config + lines, projectId=project, activate=False)
            self.addCleanup(self.kill, experiment)
            return self.user.get(f"/experiments/{experiment}")["experiment"]["config"]["checkpoint_storage"]
        self.assertEqual(storage(""), {"type": "directory", "container_path": str(other), "save_trial_latest": 3,
                                       "save_trial_best": 1, "save_experiment_best": 0})
        self.assertEqual(storage("checkpoint_storage: {save_trial_latest: 5}\n")["save_trial_latest"], 5)
        own = storage(f"checkpoint_storage: {{type: shared_fs, host_path: {self.storage}}}\n")
        self.assertEqual((own["type"], own["host_path"], own["save_trial_latest"]), ("shared_fs", str(self.storage), 3))

    def test_deletion_with_experiments(self):
        """A running task is told to end, its files go with the workspace, and a model version keeps it."""
        workspace = self.user.post("/workspaces", {"name": "full"})["workspace"]["id"]
        path = f"/workspaces/{workspace}"
        projects = [self.user.post(f"{path}/projects", {"name": name, "workspaceId": workspace})["project"]["id"]
                    for name in ("one", "two")]
        ended = self.create(projectId=projects[0])
        task = self.agent.task_of(ended)
        self.wait_for_state(ended, "STATE_RUNNING")
        uuid = "00000000-0000-4000-8000-000000000777"
        self.checkpoint(task, self.nobody.caller(task["env"]["DET_SESSION_TOKEN"], task=True), uuid)
        self.agent.end(task)
        self.wait_for_state(ended, "STATE_COMPLETED")
        runs = self.create(projectId=projects[1])
        self.agent.task_of(runs)
        paused = self.create(projectId=projects[1], activate=False)
        self.user.post("/templates/of-the-workspace", {"config": {"max_restarts": 1}, "workspaceId": workspace})
        stranger = self.admin.post("/users", {"isHashed": True, "password": hashed("p"), "user": {
            "username": "deleting", "active": True, "admin": False}})["user"]
        self.login("deleting", "p").call("DELETE", path, None, expect=403)
        self.admin.call("PATCH", f"/users/{stranger['id']}", {"active": False})

        self.user.post("/models", {"name": "in", "workspaceId": workspace})
        refused = self.user.call("DELETE", path, None, expect=400)["error"]  # as Determined refuses it
        self.assertEqual(refused["reason"], "FailedPrecondition")
        self.assertIn("models", refused["error"])
        self.user.call("DELETE", "/models/in", None)
        self.user.post("/models", {"name": "elsewhere"})
        self.user.post("/models/elsewhere/versions", {"checkpointUuid": uuid})
        self.assertEqual(self.user.call("DELETE", path, None, "completed"), {"completed": False})
        failed = wait_for("the failure", lambda: (lambda w: w["state"] == "WORKSPACE_STATE_DELETE_FAILED" and w)(
            self.user.get(path, "workspace:Workspace")["workspace"]), 30)
        self.assertIn("is model elsewhere version 1", failed["errorMessage"])
        for gone in (runs, paused):
            wait_for("the others to go", lambda: self.user.request("GET", f"/api/v1/experiments/{gone}")[0] == 404, 30)
        self.assertTrue((self.storage / uuid).exists())

        self.user.call("DELETE", "/models/elsewhere", None)
        self.user.call("DELETE", f"/projects/{projects[0]}", None, "completed")
        wait_for("the project to go", lambda: self.user.request("GET", f"/api/v1/projects/{projects[0]}")[0] == 404, 30)
        self.assertFalse((self.storage / uuid).exists())
        self.user.call("DELETE", path, None, "completed")
        wait_for("the workspace to go", lambda: self.user.request("GET", f"/api/v1{path}")[0] == 404, 30)
        self.user.call("GET", "/templates/of-the-workspace", expect=404)
        for fixed in ("/workspaces/1", "/projects/1"):
            self.assertTrue(self.user.get(fixed)[fixed.split("/")[1][:-1]]["immutable"])
            self.admin.call("DELETE", fixed, None, expect=409)

    def test_deletion_says_why_it_failed(self):
        workspace = self.user.post("/workspaces", {"name": "unreachable"})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {"name": "p", "workspaceId": workspace})["project"]["id"]
        folder = self.storage / "mounted"
        folder.mkdir()
        experiment = self.create(self.config.replace(f"container_path: {self.storage}", f"container_path: {folder}"),
                                 projectId=project)
        task = self.agent.task_of(experiment)
        self.wait_for_state(experiment, "STATE_RUNNING")
        self.checkpoint(task, self.nobody.caller(task["env"]["DET_SESSION_TOKEN"], task=True),
                        "00000000-0000-4000-8000-000000000778")
        self.kill(experiment)
        folder.rmdir()
        path = f"/projects/{project}"
        self.user.call("DELETE", path, None, "completed")
        failed = wait_for("the failure", lambda: (lambda p: p["state"] == "WORKSPACE_STATE_DELETE_FAILED" and p)(
            self.user.get(path, "project:Project")["project"]), 30)
        self.assertIn("cannot be removed", failed["errorMessage"])
        folder.mkdir()
        self.user.call("DELETE", path, None, "completed")
        wait_for("the project to go", lambda: self.user.request("GET", f"/api/v1{path}")[0] == 404, 30)

    def test_deletion_goes_on_after_a_restart(self):
        workspace = self.user.post("/workspaces", {"name": "interrupted"})["workspace"]["id"]
        path = f"/workspaces/{workspace}"
        project = self.user.post(f"{path}/projects", {"name": "p", "workspaceId": workspace})["project"]["id"]
        for _ in range(40):
            self.create(projectId=project, activate=False)
        self.user.call("DELETE", path, None, "completed")
        state = self.user.request("GET", f"/api/v1{path}")
        self.cluster.master.kill9()
        self.cluster.start_master()
        if state[0] == 200:
            self.assertEqual(state[1]["workspace"]["state"], "WORKSPACE_STATE_DELETING")
        wait_for("the workspace to go", lambda: self.user.request("GET", f"/api/v1{path}")[0] == 404, 30)

    def test_names(self):
        """The client looks workspaces and projects up by their names, and takes what it gets."""
        ids = {name: self.user.post("/workspaces", {"name": name})["workspace"]["id"] for name in ("alp", "Alps", "alps two")}

        def found(**query):
            return [w["id"] for w in self.user.get("/workspaces", f"workspaces:[Workspace] {PAGE}", **query)["workspaces"]]
        for name, identity in ids.items():
            self.assertEqual(found(nameCaseSensitive=name), [identity])
            self.assertEqual(found(name=name), [identity])
            self.assertEqual(found(name=name.upper()), [identity])
            self.assertEqual(found(nameCaseSensitive=name.upper()), [])
        self.assertGreater(len(found(name="", nameCaseSensitive="")), 3)
        projects = {name: self.user.post(f"/workspaces/{ids['alp']}/projects", {"name": name})["project"]["id"]
                    for name in ("peak", "peak two")}
        answer = self.user.get(f"/workspaces/{ids['alp']}/projects", f"projects:[Project] {PAGE}", name="peak")
        self.assertEqual([p["id"] for p in answer["projects"]], [projects["peak"]])
        self.admin.post("/workspaces", {"name": "of the administrator"})
        users = {user["username"]: user["id"] for user in self.user.get("/users")["users"]}
        for query, makers in (({"users": ["admin"]}, {"admin"}), ({"userIds": [users["admin"]]}, {"admin"}),
                              ({"userIds": [users["admin"], users["determined"]]}, {"admin", "determined"})):
            made = self.user.get("/workspaces", f"workspaces:[Workspace] {PAGE}", **query)["workspaces"]
            self.assertEqual({w["username"] for w in made}, makers, query)
        for query, count in (({"users": ["determined"]}, 2), ({"users": ["admin"]}, 0), ({"userIds": [users["determined"]]}, 2),
                             ({"userIds": [users["admin"]]}, 0)):
            made = self.user.get(f"/workspaces/{ids['alp']}/projects", f"projects:[Project] {PAGE}", **query)["projects"]
            self.assertEqual(len(made), count, query)

    def test_columns_and_ranges_of_a_project(self):
        workspace = self.user.post("/workspaces", {"name": "columns"})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {"name": "p", "workspaceId": workspace})["project"]["id"]
        values = (0.5, 0.25)
        for value in values:
            experiment = self.create(config=self.config.replace("width: 64", "width: 64, name: wide"), projectId=project)
            task = self.agent.task_of(experiment)
            self.wait_for_state(experiment, "STATE_RUNNING")
            self.addCleanup(self.kill, experiment)
            caller = self.nobody.caller(task["env"]["DET_SESSION_TOKEN"], task=True)
            for steps, add in ((10, 0), (20, 1)):
                self.metrics(task, caller, "validation", steps, {"validation_loss": value + add})
            self.metrics(task, caller, "training", 10, {"loss": value})
        wait_for("the last metric", lambda: "training.loss" in str(self.user.get(f"/projects/{project}/columns")), 30)
        for table, own, hparams in (("TABLE_TYPE_EXPERIMENT", "EXPERIMENT", "HYPERPARAMETERS"),
                                    ("TABLE_TYPE_RUN", "RUN", "RUN_HYPERPARAMETERS")):
            answer = self.user.get(f"/projects/{project}/columns", "columns:[ProjectColumn]", tableType=table)["columns"]
            found = {c["column"]: (c["location"].removeprefix("LOCATION_TYPE_"), c["type"].removeprefix("COLUMN_TYPE_"))
                     for c in answer}
            self.assertEqual(found["id"], (own, "NUMBER"))
            self.assertEqual(found["startTime"], (own, "DATE"))
            self.assertEqual((found["hp.width"], found["hp.name"]), ((hparams, "NUMBER"), (hparams, "TEXT")))
            self.assertEqual(found["validation.validation_loss.min"], ("VALIDATIONS", "NUMBER"))
            self.assertEqual(found["training.loss.last"], ("TRAINING", "NUMBER"))
            if own == "EXPERIMENT":  # nearly every column can be sorted by
                for name in found:
                    if name not in ("tags", "archived", "unmanaged"):
                        self.user.post("/experiments-search", {"projectId": project, "sort": f"{name}=asc", "limit": 1})
        wanted = {"validation.validation_loss": (0.25, 0.5), "training.loss": (0.25, 0.5)}
        wait_for("the ranges", lambda: wanted == {r["metricsName"]: (r["min"], r["max"]) for r in self.user.get(
            f"/projects/{project}/experiments/metric-ranges", "ranges:[MetricRange]")["ranges"]}, 30)
        self.user.call("GET", "/projects/-1/columns", expect=404)
        self.user.call("GET", f"/projects/{project}/columns", expect=400, tableType="TABLE_TYPE_OTHER")

    def test_project_notes(self):
        workspace = self.user.post("/workspaces", {"name": "noted"})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {"name": "p", "workspaceId": workspace})["project"]["id"]
        for _ in range(2):
            self.assertEqual(self.user.post(f"/projects/{project}/notes", {"name": "one", "contents": "text"},
                                            "notes:[Note]")["notes"], [{"name": "one", "contents": "text"}])
        notes = self.user.call("PUT", f"/projects/{project}/notes", {
            "notes": [{"name": "two", "contents": "more"}], "projectId": project}, "notes:[Note]")["notes"]
        self.assertEqual(notes, [{"name": "two", "contents": "more"}])
        self.assertEqual(self.user.get(f"/projects/{project}", "project:Project")["project"]["notes"], notes)
