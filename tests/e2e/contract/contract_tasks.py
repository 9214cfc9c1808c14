"""det command, det shell, det notebook, det tensorboard and det task."""

import json

from cluster import wait_for
from contract import Contract, FILES


class Tasks(Contract):
    def command_like(self, kind, launch, **more):
        answer = f"{kind[:-1]}:Command config"
        made = self.user.post(f"/{kind}", {"config": {"description": "by the contract", "resources": {"slots": 0}, **launch},
                                           "files": FILES, "templateName": None, "workspaceId": None, **more},
                              f"{answer} warnings?")[kind[:-1]]
        self.user.get(f"/{kind}", f"{kind}:[Command]", users=["determined"], limit=None, offset=0)
        self.user.get(f"/{kind}/{made['id']}", answer)
        self.user.post(f"/{kind}/{made['id']}/set_priority", {"priority": 60, f"{kind[:-1]}Id": made["id"]},
                       f"{kind[:-1]}?:Command")
        self.user.get(f"/tasks/{made['id']}", "task:Task")
        self.user.lines(f"/tasks/{made['id']}/logs", "id level:LogLevel log message taskId timestamp")
        self.user.post(f"/{kind}/{made['id']}/kill", None, f"{kind[:-1]}?:Command")
        wait_for("the end", lambda: self.user.get(f"/{kind}/{made['id']}")[kind[:-1]]["state"] == "STATE_TERMINATED", 30)

    def test_commands(self):
        self.command_like("commands", {"entrypoint": ["echo", "hello"]}, data=None)

    def started(self, entrypoint):
        """Returns the task of a command as the agent gets it."""
        made = self.user.post("/commands", {"config": {"entrypoint": entrypoint, "resources": {"slots": 0}}})["command"]
        self.addCleanup(self.user.post, f"/commands/{made['id']}/kill")
        return wait_for("its start", lambda: next(
            (task for task in list(self.agent.running.values()) if task["taskId"] == made["id"]), None), 30)

    def test_command_of_one_word_is_a_shell_line(self):
        self.assertEqual(self.started(["echo a; echo b"])["argv"], ["sh", "-c", "echo a; echo b"])
        self.assertEqual(self.started("echo a")["argv"], ["sh", "-c", "echo a"])
        self.assertEqual(self.started(["echo", "a; b"])["argv"], ["echo", "a; b"])

    def test_output_of_python_is_not_buffered(self):
        self.assertEqual(self.running()[1]["env"]["PYTHONUNBUFFERED"], "1")
        own = self.config + "environment: {environment_variables: ['PYTHONUNBUFFERED=']}\n"
        self.assertEqual(self.running(config=own)[1]["env"]["PYTHONUNBUFFERED"], "")

    def test_exit_status(self):
        for code, words in ((0, "success"), (3, "exit code 3")):
            task = self.started(["x", "y"])
            get = lambda: self.user.get(f"/commands/{task['taskId']}")["command"]
            self.assertEqual(get()["exitStatus"], "")
            self.agent.end(task, code)
            wait_for("its end", lambda: get()["state"] == "STATE_TERMINATED", 30)
            self.assertIn(words, get()["exitStatus"])

    def test_commands_without_a_config(self):
        """The template has the configuration."""
        refused = self.user.call("POST", "/commands", {"config": None, "files": None}, expect=400)
        self.assertIn("entrypoint", refused["error"]["error"])
        self.user.post("/templates/greeting", {"config": {"entrypoint": ["echo", "hello"], "resources": {"slots": 0}}})
        made = self.user.post("/commands", {"config": None, "templateName": "greeting"}, "command:Command config")
        self.assertEqual(made["config"]["entrypoint"], ["echo", "hello"])
        self.user.post(f"/commands/{made['command']['id']}/kill")

    def test_what_runs(self):
        """det task list, and the older call without /api/v1."""
        experiment, task, _ = self.running()
        name = f"Trial {task['trialId']} (Experiment {experiment})"
        new = self.user.get("/tasks", "allocationIdToSummary:{AllocationSummary}")["allocationIdToSummary"]
        self.assertEqual((new[task["allocationId"]]["name"], new[task["allocationId"]]["jobName"]), (name, "contract"))
        old = self.user.get("//tasks")
        self.assertEqual(set(old), set(new))
        found = old[task["allocationId"]]
        self.assertEqual([found[key] for key in ("task_id", "allocation_id", "name", "slots_needed", "resource_pool", "priority")],
                         [task["taskId"], task["allocationId"], name, 1, "default", 42])
        part = found["resources"][0]
        self.assertEqual((part["container_id"], [len(devices) for devices in part["agent_devices"].values()]),
                         (task["env"]["DET_CONTAINER_ID"], [1]))
        self.assertEqual(list(part["agent_devices"]), ["live"])

    def test_generic_tasks(self):
        task = self.user.post("/generic-tasks", {
            "config": "entrypoint: [sleep, '60']\nresources: {slots: 0}\n", "contextDirectory": FILES, "forkedFrom": None,
            "inheritContext": False, "noPause": False, "parentId": None, "projectId": None}, "taskId warnings?")["taskId"]
        self.user.get(f"/tasks/{task}", "task:Task")
        config = json.loads(self.user.get(f"/tasks/{task}/config", "config")["config"])
        self.assertEqual(config, {"entrypoint": ["sleep", "60"], "resources": {"slots": 0}})
        self.user.post(f"/tasks/{task}/pause", {"taskId": task})
        self.user.post(f"/tasks/{task}/unpause", {"taskId": task})
        self.user.post(f"/tasks/{task}/kill", {"taskId": task, "killFromRoot": False})
