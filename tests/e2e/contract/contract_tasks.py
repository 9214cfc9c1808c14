"""det command, det shell, det notebook, det tensorboard and det task."""

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

    def test_generic_tasks(self):
        task = self.user.post("/generic-tasks", {
            "config": "entrypoint: [sleep, '60']\nresources: {slots: 0}\n", "contextDirectory": FILES, "forkedFrom": None,
            "inheritContext": False, "noPause": False, "parentId": None, "projectId": None}, "taskId warnings?")["taskId"]
        self.user.get(f"/tasks/{task}", "task:Task")
        self.user.get(f"/tasks/{task}/config", "config")
        self.user.post(f"/tasks/{task}/pause", {"taskId": task})
        self.user.post(f"/tasks/{task}/unpause", {"taskId": task})
        self.user.post(f"/tasks/{task}/kill", {"taskId": task, "killFromRoot": False})
