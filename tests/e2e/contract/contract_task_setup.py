"""The surroundings of tasks: mounts, options of containers, the token of the user."""

from cluster import PASSWORD, wait_for
from contract import Contract, hashed

SHARED = "{{type: shared_fs, host_path: {storage}, storage_path: below}}"


class TaskSetup(Contract):
    def shared(self, more=""):
        directory = f"{{type: directory, container_path: {self.storage}}}"
        return self.config.replace(directory, SHARED.format(storage=self.storage)) + more

    def preview(self, config):
        body = {"config": config, "modelDefinition": [], "projectId": None, "validateOnly": True}
        return self.user.request("POST", "/api/v1/experiments", body)

    def break_mounts(self):
        """Tasks of the only agent cannot have mounts, until the end of the test."""
        self.agent.mount_fault = "there is no folder /determined_shared_fs"
        self.addCleanup(wait_for, "the agent", lambda: self.preview(self.shared())[0] == 200, 30)
        self.addCleanup(setattr, self.agent, "mount_fault", "")
        wait_for("the agent", lambda: self.preview(self.shared())[0] != 200, 30)

    def test_shared_fs_is_mounted_where_the_client_writes(self):
        _, task, _ = self.running(config=self.shared())
        self.assertEqual(task["mounts"], [{"source": str(self.storage), "target": "/determined_shared_fs",
                                           "readOnly": False, "propagation": "", "required": True}])
        self.assertEqual(self.running()[1]["mounts"], [])

    def test_shared_fs_without_mounts_is_refused(self):
        self.break_mounts()
        status, answer = self.preview(self.shared())
        self.assertEqual(status, 400)
        self.assertIn("(agent live: there is no folder /determined_shared_fs): write {type: directory, container_path: "
                      f"{self.storage}/below}} instead", answer["error"]["error"])
        self.assertEqual(self.preview(self.config)[0], 200)
        native = ("name: native\nsearcher: {name: single, metric: validation_loss}\n"
                  "trainer: {steps: 1, global_batch_size: 1, model: {name: mlp, hidden: [2]}, loss: cross_entropy, "
                  "data: {format: synthetic_classes, samples: 8, features: 2, classes: 2}}\ncheckpoint_storage: ")
        status, answer = self.preview(native + SHARED.format(storage=self.storage) + "\n")
        self.assertNotIn("determined_shared_fs", str(answer))

    def test_options_of_containers_are_reported_once(self):
        more = ("environment: {image: 'a/b:1', add_capabilities: [SYS_PTRACE], pod_spec: {spec: {}}, "
                "environment_variables: [A=1], force_pull_image: false}\n"
                "bind_mounts: [{host_path: /a, container_path: /b}, {host_path: /c, container_path: /c}]\n")
        config = self.config.replace("slots_per_trial: 1", "slots_per_trial: 1, shm_size: 4 GB") + more
        names = "environment.image, environment.pod_spec, environment.add_capabilities, resources.shm_size"
        status, answer = self.preview(config)
        self.assertEqual((status, answer["warnings"], len(answer["warningTexts"])), (200, [], 1))
        self.assertTrue(answer["warningTexts"][0].endswith(": " + names), answer["warningTexts"])
        self.assertEqual(self.preview(self.config)[1]["warningTexts"], [])
        command = self.user.post("/commands", {"config": {
            "entrypoint": ["sleep", "60"], "resources": {"slots": 0, "shm_size": 4096}, "environment": {"image": "x"}}},
            "command:Command config warnings?")
        self.addCleanup(self.user.post, f"/commands/{command['command']['id']}/kill")
        self.assertTrue(command["warningTexts"][0].endswith(": environment.image, resources.shm_size"))
        self.break_mounts()
        self.assertTrue(self.preview(config)[1]["warningTexts"][0].endswith(f"{names}, bind_mounts"))

    def test_bind_mounts(self):
        more = ("bind_mounts: [{host_path: /a, container_path: /b, read_only: true}, {host_path: /c, container_path: /c}, "
                "{host_path: /d, container_path: below, propagation: rslave}]\n")
        mounts = self.running(config=self.config + more)[1]["mounts"]
        self.assertEqual([(m["source"], m["target"], m["readOnly"], m["propagation"], m["required"]) for m in mounts],
                         [("/a", "/b", True, "rprivate", False), ("/d", "below", False, "rslave", False)])
        for mount, word in (("{host_path: a, container_path: /b}", "host_path"), ("{host_path: /a}", "container_path"),
                            ("{host_path: /a, container_path: /proc/1}", "may not be covered"),
                            ("{host_path: /a, container_path: /run/determined}", "may not be covered"),
                            ("{host_path: /a, container_path: /b/../proc}", "container_path"),
                            ("{host_path: /a, container_path: /b, propagation: all}", "propagation")):
            status, answer = self.preview(self.config + f"bind_mounts: [{mount}]\n")
            self.assertEqual(status, 400, mount)
            self.assertIn(word, answer["error"]["error"])

    def test_account_of_tasks(self):
        """The account that an administrator has linked reaches the agent; the workspace's counts first."""
        self.assertNotIn("account", self.running()[1])
        me = self.user.get("/me")["user"]["id"]
        self.addCleanup(self.admin.call, "PATCH", "/workspaces/1", {"agentUserGroup": {}})
        mine = {"agentUid": 1234, "agentUser": "mine", "agentGid": 1235, "agentGroup": "ours"}
        self.admin.call("PATCH", f"/users/{me}", {"agentUserGroup": mine})
        self.assertEqual(self.running()[1]["account"], {"uid": 1234, "user": "mine", "gid": 1235, "group": "ours"})
        self.admin.call("PATCH", "/workspaces/1", {"agentUserGroup": {"agentUid": 1300, "agentUser": "team"}})
        self.assertEqual(self.running()[1]["account"], {"uid": 1300, "user": "team", "gid": 1235, "group": "ours"})

    def task_of(self, user):
        """Returns (the agent's task of a new experiment, a caller with its DET_USER_TOKEN)."""
        experiment = user.post("/experiments", {"config": self.config, "activate": True, "modelDefinition": []},
                               "experiment:Experiment config")["experiment"]["id"]
        self.addCleanup(self.admin.post, f"/experiments/{experiment}/kill")
        task = self.agent.task_of(experiment)
        return task, self.nobody.caller(task["env"]["DET_USER_TOKEN"])

    def new_user(self, name):
        made = self.admin.post("/users", {"user": {"username": name, "admin": False, "active": True},
                                          "password": hashed(PASSWORD), "isHashed": True}, "user:User")["user"]
        self.admin.request("PUT", "/api/v1/workspaces/1/members", {"userId": made["id"], "role": "editor"})
        return made["id"], self.login(name)

    def tokens(self):
        return [info["id"] for info in self.admin.get("/tokens", showInactive="true", sessions="true")["tokenInfo"]]

    def test_task_calls_as_its_user(self):
        before = self.tokens()
        task, caller = self.task_of(self.user)
        self.assertEqual(caller.get("/me", "user:User")["user"]["username"], "determined")
        self.assertEqual((task["env"]["DET_USER"], task["env"]["MUSTER_TOKEN"]), ("determined", caller.token))
        self.assertNotEqual(caller.token, task["env"]["DET_SESSION_TOKEN"])
        made = caller.post("/experiments", {"config": self.config, "activate": False, "modelDefinition": []},
                           "experiment:Experiment config")["experiment"]
        self.assertEqual(made["username"], "determined")
        self.assertEqual(self.tokens(), before)
        self.agent.end(task)
        wait_for("its end", lambda: caller.request("GET", "/api/v1/me")[0] == 401, 10)

    def check_task_only(self, task, inside):
        """The user has lost access: the token that the task has of the user makes only the calls of the task."""
        inside.call("GET", f"/allocations/{task['allocationId']}/signals/preemption", timeout_seconds=0)
        inside.report(f"/trials/{task['trialId']}/progress", {"progress": 0.5, "isRaw": True})
        inside.call("POST", "/experiments", {"config": self.config, "activate": False, "modelDefinition": []}, expect=403)
        inside.call("PATCH", f"/users/{inside.get('/me')['user']['id']}", {"displayName": "x"}, expect=403)

    def test_task_of_a_user_who_loses_access(self):
        """Programs that run go on with the rights of their task after a new password, and after the user is deactivated."""
        user, caller = self.new_user("leaver")
        tasks = [self.task_of(caller) for _ in range(2)]
        self.admin.call("PATCH", f"/users/{user}", {"password": hashed("another phrase of words"), "isHashed": True})
        for task, inside in tasks:
            self.check_task_only(task, inside)
        caller = self.login("leaver", "another phrase of words")
        task, inside = self.task_of(caller)
        self.admin.call("PATCH", f"/users/{user}", {"active": False})
        self.check_task_only(task, inside)
        self.admin.call("PATCH", f"/users/{user}", {"active": True})
        self.check_task_only(task, inside)
        self.agent.end(task)
        wait_for("the end of the token", lambda: inside.request("GET", "/api/v1/me")[0] in (401, 403), 10)

    def test_task_that_starts_again_after_a_new_password(self):
        """The program of a task may be that of someone who knew the old password."""
        user, caller = self.new_user("renewed")
        task, inside = self.task_of(caller)
        experiment = task["experimentId"]
        self.admin.call("PATCH", f"/users/{user}", {"password": hashed("another phrase of words"), "isHashed": True})
        self.admin.post(f"/experiments/{experiment}/pause")
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_PAUSED")
        self.admin.post(f"/experiments/{experiment}/activate")
        again = self.agent.task_of(experiment)
        self.assertNotEqual(again["allocationId"], task["allocationId"])
        self.check_task_only(again, self.nobody.caller(again["env"]["DET_USER_TOKEN"]))
        self.agent.end(again)
        self.wait_for_state(experiment, "STATE_COMPLETED")
        caller = self.login("renewed", "another phrase of words")
        caller.post("/experiments/continue", {"id": experiment, "overrideConfig": "{}"})
        continued = self.agent.task_of(experiment)
        self.check_task_only(continued, self.nobody.caller(continued["env"]["DET_USER_TOKEN"]))
        fork = caller.post("/experiments", {
            "config": self.config, "activate": True, "modelDefinition": [], "parentId": experiment})["experiment"]["id"]
        self.addCleanup(self.admin.post, f"/experiments/{fork}/kill")
        fork = self.nobody.caller(self.agent.task_of(fork)["env"]["DET_USER_TOKEN"])
        fork.post("/experiments", {"config": self.config, "activate": False, "modelDefinition": []})

    def test_task_that_starts_after_its_user_lost_access(self):
        user, caller = self.new_user("absent")
        experiment = caller.post("/experiments", {"config": self.config, "activate": False, "modelDefinition": []},
                                 "experiment:Experiment config")["experiment"]["id"]
        self.addCleanup(self.admin.post, f"/experiments/{experiment}/kill")
        self.admin.call("PATCH", f"/users/{user}", {"active": False})
        self.admin.post(f"/experiments/{experiment}/activate")
        task = self.agent.task_of(experiment)
        inside = self.nobody.caller(task["env"]["DET_USER_TOKEN"])
        self.check_task_only(task, inside)
        self.admin.call("PATCH", f"/users/{user}", {"active": True})
        self.check_task_only(task, inside)
