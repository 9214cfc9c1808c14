"""Commands and generic tasks with a real master and agent, by the command line and over the API:
they run once, their exit code comes back, and no list of experiments shows them.
"""

import base64
import contextlib
import json
import os
import signal
import subprocess
import time
import unittest

from cluster import BIN, PASSWORD, Cluster, wait_for
from test_api import Api

ENDED = "STATE_TERMINATED"
FILE = {"path": "hello.txt", "type": 48, "content": base64.b64encode(b"from the file\n").decode(), "mode": 420,
        "mtime": "1700000000", "uid": 0, "gid": 0}


class CommandsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(2,))
        cls.cluster.__enter__()
        cls.admin, cls.user = cls.login("admin"), cls.login("determined")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    @classmethod
    def login(cls, name):
        token = Api(cls.cluster.port).ok("POST", "/auth/login", {"username": name, "password": PASSWORD})["token"]
        return Api(cls.cluster.port, token)

    def launch(self, *words, slots=0, user=None, **more):
        config = {"entrypoint": list(words), "resources": {"slots": slots, **more.pop("resources", {})},
                  **more.pop("config", {})}
        return (user or self.user).ok("POST", "/commands", {"config": config, **more})["command"]["id"]

    def generic(self, line, **more):
        return self.user.ok("POST", "/generic-tasks", {
            "config": f"entrypoint: {line}\nresources: {{slots: 0}}\n", "contextDirectory": [], **more})["taskId"]

    def command(self, task, kind="command"):
        return self.user.ok("GET", f"/{kind}s/{task}")[kind]

    def wait_for_end(self, task):
        return wait_for(f"{task} to end",
                        lambda: (c := self.command(task))["state"] == ENDED and c, 60)

    def wait_for_state(self, task, state):
        wait_for(f"{task} to be {state}", lambda: self.task(task)["taskState"] == "GENERIC_TASK_STATE_" + state, 60)

    def task(self, task):
        return self.user.ok("GET", f"/tasks/{task}")["task"]

    def log(self, task):
        return self.cluster.muster("command", "logs", task, timeout=60)

    # the command line

    def test_run_shows_output_and_ends_with_the_exit_code(self):
        done = self.cluster.run("command", "run", "--slots", "0", "--env", "WORD=hello", "--", "sh", "-c",
                                "echo $WORD $DET_TASK_TYPE ${DET_TRIAL_ID:-none}; echo aside >&2; exit 7", timeout=60)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(done.stdout, "hello COMMAND none\n")
        self.assertIn("aside\n", done.stderr)
        newest = self.cluster.rows("command", "list")[0]
        self.assertEqual((newest["exit"], newest["state"]), (7, "TERMINATED"))
        self.assertEqual(self.cluster.run("command", "run", "--slots", "0", "true", timeout=60).returncode, 0)

    def test_run_with_files_and_a_folder(self):
        folder = self.cluster.folder / "files"
        folder.mkdir()
        (folder / "word").write_text("carried\n")
        self.assertEqual(self.cluster.run("command", "run", "--files", folder, "cat", "word", timeout=60).stdout,
                         "carried\n")
        self.assertEqual(self.cluster.run("command", "run", "--work-dir", "/", "pwd", timeout=60).stdout, "/\n")

    def test_one_word_is_a_shell_line(self):
        done = self.cluster.run("command", "run", "--slots", "0", "echo one; echo $WORD two; exit 3", "--env", "WORD=a", timeout=60)
        self.assertEqual((done.returncode, done.stdout), (3, "one\na two\n"), done.stderr)
        task = self.launch("echo one; echo two")
        self.assertEqual(self.wait_for_end(task)["state"], ENDED)
        self.assertEqual([line.rpartition(": ")[2] for line in self.log(task).splitlines()][:2], ["one", "two"])
        task = self.generic("[echo one; echo two]")
        wait_for("its end", lambda: self.task(task)["taskState"] == "GENERIC_TASK_STATE_COMPLETED", 60)
        done = self.cluster.run("command", "run", "--slots", "0", "no-such-program", timeout=60)
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-program: not found", done.stderr)

    def test_programs_that_cannot_start_give_the_reason(self):
        done = self.cluster.run("command", "run", "--slots", "0", "no-such-program", "x", timeout=60)
        self.assertEqual(done.returncode, 8)
        self.assertIn("no-such-program", done.stderr)
        done = self.cluster.run("command", "run", "--pool", "nowhere", "true", timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("nowhere", done.stderr)
        self.assertEqual(self.cluster.run("command", "logs", "99").returncode, 3)

    def test_interrupt_leaves_it_running(self):
        run = subprocess.Popen([str(BIN / "muster"), "command", "run", "--slots", "0", "sleep", "60"],
                               env=self.cluster.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        self.assertIn("Started command", run.stderr.readline())
        task = self.cluster.rows("command", "list")[0]["id"]
        wait_for("its start", lambda: self.command(task)["state"] == "STATE_RUNNING", 60)
        time.sleep(0.3)  # until the program catches the signal
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 130)
        self.assertIn(f"muster command kill {task}", said)
        self.assertEqual(self.command(task)["state"], "STATE_RUNNING")
        self.cluster.muster("command", "kill", task.split(".")[0])
        self.assertEqual(self.wait_for_end(task)["exitStatus"], "killed")

    def test_task_by_the_command_line(self):
        file = self.cluster.folder / "task.yaml"
        file.write_text("entrypoint: echo of the task; exit 4\nresources: {slots: 0}\n")
        done = self.cluster.run("task", "run", file, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (4, "of the task\n"), done.stderr)
        file.write_text("entrypoint: sleep 60\nresources: {slots: 0}\n")
        task = self.cluster.muster("task", "run", file, "--detach", "-q").strip()
        self.cluster.muster("task", "pause", task)
        self.wait_for_state(task, "PAUSED")
        self.assertEqual(self.cluster.rows("task", "describe", task)["state"], "PAUSED")
        self.cluster.muster("task", "unpause", task)
        self.cluster.muster("task", "kill", task)
        self.wait_for_state(task, "CANCELED")
        self.cluster.muster("task", "delete", task, "--yes")
        wait_for("its deletion", lambda: self.user.call("GET", f"/api/v1/tasks/{task}")[0] == 404, 30)

    # commands

    def test_files_and_made_once(self):
        body = {"config": {"entrypoint": "cat hello.txt", "resources": {"slots": 0}}, "files": [FILE],
                "external_task_id": "once"}
        made = [self.user.ok("POST", "/commands", body) for _ in range(2)]
        self.assertEqual(made[0]["command"]["id"], made[1]["command"]["id"])
        task = made[0]["command"]["id"]
        self.assertEqual(self.wait_for_end(task)["exitCode"], 0)
        self.assertIn("from the file", self.log(task))
        self.assertEqual(made[0]["config"]["entrypoint"], "cat hello.txt")

    def test_zero_slots_start_at_once_and_slots_are_held(self):
        holder = self.launch("sleep", "60", slots=2)
        wait_for("the holder", lambda: self.command(holder)["state"] == "STATE_RUNNING", 60)
        waiting = self.launch("true", slots=1)
        self.assertIn("success", self.wait_for_end(self.launch("true"))["exitStatus"])
        self.assertEqual(self.command(waiting)["state"], "STATE_QUEUED")
        jobs = {j["full"]["entityId"]: j["full"] for j in self.user.ok("GET", "/job-queues-v2")["jobs"]}
        self.assertEqual((jobs[holder]["type"], jobs[holder]["isPreemptible"]), ("TYPE_COMMAND", False))
        self.assertEqual(jobs[waiting]["summary"]["state"], "STATE_QUEUED")
        self.user.ok("POST", f"/commands/{waiting}/set_priority", {"priority": 50})
        jobs = {j["full"]["entityId"]: j["full"] for j in self.user.ok("GET", "/job-queues-v2")["jobs"]}
        self.assertEqual(jobs[waiting]["priority"], 50)
        theirs = self.launch("true", slots=1, user=self.admin)
        status, answer = self.user.call("POST", f"/api/v1/commands/{theirs}/set_priority", {"priority": 1})
        self.assertEqual(status, 403, answer)
        self.user.ok("POST", f"/commands/{holder}/kill")
        self.assertEqual(self.wait_for_end(holder)["exitCode"], 143)
        self.assertEqual(self.wait_for_end(waiting)["exitCode"], 0)

    def test_commands_are_not_listed_as_experiments(self):
        before = self.user.ok("GET", "/experiments")["pagination"]["total"]
        task = self.launch("true")
        self.wait_for_end(task)
        number = task.split(".")[0]
        self.assertEqual(self.user.ok("GET", "/experiments")["pagination"]["total"], before)
        for method, path in (("GET", ""), ("GET", "/trials"), ("POST", "/kill"), ("DELETE", ""), ("POST", "/archive")):
            for caller in (self.user, self.admin):
                self.assertEqual(caller.call(method, f"/api/v1/experiments/{number}{path}")[0], 404, path)
        results = self.user.ok("DELETE", "/experiments/delete", {"experimentIds": [int(number)]})["results"]
        self.assertIn("not found", results[0]["error"])
        self.assertEqual(self.user.call("POST", "/api/v1/experiments/continue", {"id": int(number)})[0], 404)
        self.assertEqual(self.user.call("POST", f"/api/v1/tasks/{task}/pause")[0], 404)
        self.assertEqual(self.task(task)["taskType"], "TASK_TYPE_COMMAND")
        self.assertEqual(self.task(task)["allocations"][0]["statusCode"], 0)
        status, text = self.user.call("GET", "/resources/allocation/raw?timestamp_after=2020-01-01T00:00:00Z"
                                             "&timestamp_before=2099-01-01T00:00:00Z")
        self.assertIn(f"{number},command,determined", (text if isinstance(text, str) else text.decode()))

    def test_lists(self):
        task = self.launch("true", config={"description": "to be listed"})
        listed = self.user.ok("GET", "/commands?users=determined&sortBy=SORT_BY_START_TIME&orderBy=ORDER_BY_DESC&limit=1")
        self.assertEqual([c["id"] for c in listed["commands"]], [task])
        self.assertEqual(listed["pagination"]["endIndex"], 1)
        self.assertEqual(self.user.ok("GET", "/commands?users=nobody")["commands"], [])
        for kind in ("shells", "notebooks", "tensorboards"):
            self.assertEqual(self.user.ok("GET", f"/{kind}")[kind], [])
            self.assertEqual(self.user.call("GET", f"/api/v1/{kind}/{task}")[0], 404)
            status, answer = self.user.call("POST", f"/api/v1/{kind}", {"config": {}})
            self.assertEqual(status, 400)
            self.assertRegex(answer["error"]["error"], "muster (command run|trial metrics)")
        counts = self.user.ok("GET", "/tasks/count")
        self.assertEqual((counts["shells"], counts["notebooks"]), (0, 0))

    def test_mistakes_are_reported(self):
        for config, part in (({}, "entrypoint"), ({"entrypoint": ["x"], "resources": {"slot": 1}}, "slots"),
                             ({"entrypoint": ["x"], "resources": {"slots": -1}}, "resources.slots"),
                             ({"entrypoint": ["x"], "resources": {"resource_pool": "nowhere"}}, "nowhere"),
                             ({"entrypoint": []}, "entrypoint")):
            status, answer = self.user.call("POST", "/api/v1/commands", {"config": config})
            self.assertEqual(status, 400, answer)
            self.assertIn(part, answer["error"]["error"])
        self.assertEqual(self.user.call("POST", "/api/v1/commands", {})[0], 400)
        made = self.user.ok("POST", "/commands", {"config": {
            "entrypoint": ["true"], "resources": {"slots": 0},
            "environment": {"image": "a/b"}}})
        self.assertIn("environment.image", made["warningTexts"][0])
        self.assertEqual(made["warnings"], [])

    def test_roles(self):
        workspace = self.admin.ok("POST", "/workspaces", {"name": "closed", "defaultRole": "none"})["workspace"]["id"]
        self.admin.ok("POST", f"/workspaces/{workspace}/projects", {"name": "p"})
        self.assertEqual(self.user.call("POST", "/api/v1/commands", {
            "config": {"entrypoint": ["true"]}, "workspaceId": workspace})[0], 404)
        task = self.launch("sleep", "60", user=self.admin, workspaceId=workspace)
        self.assertEqual(self.user.call("GET", f"/api/v1/commands/{task}")[0], 404)
        self.assertEqual(self.user.call("POST", f"/api/v1/commands/{task}/kill")[0], 404)
        self.assertNotIn(task, [c["id"] for c in self.user.ok("GET", "/commands")["commands"]])
        me = self.user.ok("GET", "/me")["user"]["id"]
        self.admin.ok("PUT", f"/workspaces/{workspace}/members/{me}", {"role": "viewer"})
        self.assertEqual(self.user.ok("GET", f"/commands/{task}")["command"]["workspaceId"], workspace)
        self.assertEqual(self.user.call("POST", f"/api/v1/commands/{task}/kill")[0], 403)
        self.assertEqual(self.user.call("POST", "/api/v1/commands", {
            "config": {"entrypoint": ["true"]}, "workspaceId": workspace})[0], 403)
        self.admin.ok("POST", f"/commands/{task}/kill")
        self.wait_for_end(task)
        trail = self.admin.ok("GET", "/audit?user=admin&limit=50")["audit"]
        self.assertIn(f"/api/v1/commands/{task}/kill", [row["path"] for row in trail])

    def test_master_that_is_killed(self):
        task = self.launch("sh", "-c", "echo before; sleep 4; echo after; exit 9", slots=1)
        wait_for("its start", lambda: self.command(task)["state"] == "STATE_RUNNING", 60)
        self.cluster.master.kill9()
        self.cluster.start_master()
        self.assertEqual(self.wait_for_end(task)["exitCode"], 9)
        self.assertEqual(len(self.task(task)["allocations"]), 1)
        wait_for("its lines", lambda: "after" in self.log(task), 30)
        self.assertEqual(self.log(task).count("before"), 1)

    # generic tasks

    def test_pause_and_go_on(self):
        task = self.generic("echo a start; sleep 60")
        wait_for("its first line", lambda: "a start" in self.log_of_task(task), 60)
        for _ in range(2):  # the first answer was lost
            self.user.ok("POST", f"/tasks/{task}/pause")
        self.wait_for_state(task, "PAUSED")
        wait_for("its end", lambda: all(a["state"] == ENDED for a in self.task(task)["allocations"]), 30)
        self.user.ok("POST", f"/tasks/{task}/unpause")
        wait_for("its second line", lambda: self.log_of_task(task).count("a start") == 2, 60)
        self.user.ok("POST", f"/tasks/{task}/kill", {"taskId": task})
        self.wait_for_state(task, "CANCELED")
        self.assertEqual(self.user.call("POST", f"/api/v1/tasks/{task}/unpause")[0], 400)
        self.assertIn("sleep 60", json.dumps(json.loads(self.user.ok("GET", f"/tasks/{task}/config")["config"])))

    def log_of_task(self, task):
        return self.cluster.muster("task", "logs", task, timeout=60)

    def test_trees(self):
        root = self.generic("sleep 60", contextDirectory=[FILE])
        child = self.generic("sleep 60", parentId=root, noPause=True)
        leaf = self.generic("cat hello.txt; sleep 60", parentId=child, inheritContext=False)
        self.assertEqual(self.task(leaf)["parentId"], child)
        self.assertEqual(self.user.call("POST", f"/api/v1/tasks/{child}/pause")[0], 400)
        self.user.ok("POST", f"/tasks/{root}/pause")
        self.wait_for_state(root, "PAUSED")
        self.wait_for_state(leaf, "PAUSED")
        self.assertEqual(self.task(child)["taskState"], "GENERIC_TASK_STATE_ACTIVE")
        self.user.ok("POST", f"/tasks/{leaf}/kill", {"killFromRoot": True})
        for task in (root, child, leaf):
            self.wait_for_state(task, "CANCELED")
        status, answer = self.user.call("POST", "/api/v1/generic-tasks", {"config": "entrypoint: x", "parentId": root})
        self.assertEqual(status, 409, answer)
        fork = self.generic("cat hello.txt", forkedFrom=root)
        self.wait_for_state(fork, "COMPLETED")
        self.assertEqual(self.task(fork)["forkedFrom"], root)
        self.assertIn("from the file", self.log_of_task(fork))

    def test_a_child_with_its_parents_files(self):
        root = self.generic("sleep 60", contextDirectory=[FILE])
        child = self.generic("cat hello.txt", parentId=root, inheritContext=True)
        self.wait_for_state(child, "COMPLETED")
        self.assertIn("from the file", self.log_of_task(child))
        self.user.ok("POST", f"/tasks/{root}/kill")
        self.wait_for_state(root, "CANCELED")
        self.assertIn(root, [t["id"] for t in self.user.ok("GET", "/generic-tasks")["tasks"]])


class LostAgent(unittest.TestCase):
    def test_lost_machine_ends_a_command(self):
        with Cluster("lost", slots=(1,), master_flags=("--agent-silence", "2", "--agent-reconnect", "2")) as cluster:
            task = cluster.muster("command", "run", "--detach", "-q", "sleep", "60").strip()
            wait_for("its start", lambda: cluster.rows("command", "describe", task)["state"] == "RUNNING", 60)
            cluster.agents[0].kill9()
            for pid in cluster.processes_below("muster-supervisor"):
                with contextlib.suppress(ProcessLookupError):  # the first process of a task ends with its supervisor
                    os.kill(pid, signal.SIGKILL)
            wait_for("its end", lambda: cluster.rows("command", "describe", task)["state"] == "TERMINATED", 60)
            self.assertIn("agent-0 was lost", cluster.rows("command", "describe", task)["exit_status"])
            cluster.add_agent("agent-1", 1)
            self.assertEqual(cluster.run("command", "run", "true", timeout=60).returncode, 0)
            self.assertEqual(cluster.rows("command", "describe", task)["state"], "TERMINATED")


if __name__ == "__main__":
    unittest.main(verbosity=2)
