"""The surroundings of a user program, with a real master and agent: its startup hook."""

import base64
import unittest

from cluster import PASSWORD, Cluster, wait_for
from test_api import Api

TERMINAL = ("STATE_COMPLETED", "STATE_ERROR", "STATE_CANCELED")
CONFIG = """\
name: surroundings
entrypoint: sh -c '{line}'
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: loss}}
max_restarts: 0
{more}
"""


def file(path, text, mode=420):
    return {"path": path, "type": 48, "content": base64.b64encode(text.encode()).decode(), "mode": mode,
            "mtime": "1700000000", "uid": 0, "gid": 0}


class TaskTest(unittest.TestCase):
    """A cluster with one agent, and experiments that run one shell line."""
    master_flags = ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster-" + cls.__name__, slots=(2,), master_flags=cls.master_flags)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.admin, cls.user = cls.login("admin"), cls.login("determined")

    @classmethod
    def login(cls, name, password=PASSWORD):
        token = Api(cls.cluster.port).ok("POST", "/auth/login", {"username": name, "password": password})["token"]
        return Api(cls.cluster.port, token)

    def submit(self, line, more="", files=(), user=None):
        return (user or self.user).ok("POST", "/experiments", {
            "config": CONFIG.format(line=line, more=more), "modelDefinition": list(files), "activate": True})

    def create(self, line, more="", files=(), user=None):
        return self.submit(line, more, files, user)["experiment"]["id"]

    def end(self, experiment, state="STATE_COMPLETED"):
        """Waits for the end of the experiment and returns its trial."""
        found = wait_for(f"experiment {experiment} to end", lambda: next(
            (state for state in [self.state(experiment)] if state in TERMINAL), None), 60)
        self.assertEqual(found, state, self.said(experiment))
        return self.user.ok("GET", f"/experiments/{experiment}/trials")["trials"][0]

    def state(self, experiment):
        return self.user.ok("GET", f"/experiments/{experiment}")["experiment"]["state"]

    def said(self, experiment):
        """The text of its log lines, in their order."""
        trial = self.user.ok("GET", f"/experiments/{experiment}/trials")["trials"][0]
        return [line["log"] for line in self.user.lines(f"/tasks/{trial['taskIds'][0]}/logs")]


class StartupHook(TaskTest):
    def test_hook_prepares_the_program(self):
        hook = file("startup-hook.sh", "echo prepares >prepared\nexport PREPARED=\"$DET_TASK_TYPE here\"\necho hooked\n")
        experiment = self.create("cat prepared; echo $PREPARED", files=[hook])
        self.end(experiment)
        said = self.said(experiment)
        self.assertLess(said.index("hooked"), said.index("prepares"))
        self.assertIn("TRIAL here", said)
        command = self.user.ok("POST", "/commands", {
            "config": {"entrypoint": ["echo \"$PREPARED\"; cat prepared"], "resources": {"slots": 0}}, "files": [hook]})["command"]["id"]
        wait_for("the command", lambda: self.user.ok("GET", f"/commands/{command}")["command"]["state"] == "STATE_TERMINATED", 60)
        said = [line["log"] for line in self.user.lines(f"/tasks/{command}/logs")]
        self.assertIn("COMMAND here", said)
        self.assertIn("prepares", said)

    def test_failing_hook_counts_as_a_failure(self):
        hook = file("startup-hook.sh", "echo no such package >&2\nfalse\necho goes on\n")
        experiment = self.create("echo program", files=[hook])
        trial = self.end(experiment, "STATE_ERROR")
        said = self.said(experiment)
        self.assertIn("startup-hook.sh: exit 1; the program does not start", said)
        self.assertNotIn("goes on", said)
        self.assertNotIn("program", said)
        described = self.cluster.run("trial", "describe", trial["id"]).stdout
        self.assertIn("startup-hook.sh: exit 1: no such package", described)

    def test_failing_hook_is_tried_again(self):
        hook = file("startup-hook.sh", "echo try $DET_TRIAL_RUN_ID\n[ $DET_TRIAL_RUN_ID = 2 ]\n")
        config = CONFIG.format(line="echo program", more="").replace("max_restarts: 0", "max_restarts: 2")
        experiment = self.user.ok("POST", "/experiments", {
            "config": config, "modelDefinition": [hook], "activate": True})["experiment"]["id"]
        trial = self.end(experiment)
        self.assertEqual(trial["restarts"], 1)
        self.assertEqual([line for line in self.said(experiment) if line.startswith(("try", "program"))],
                         ["try 1", "try 2", "program"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
