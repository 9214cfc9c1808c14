"""An editor of one team guesses the names that another team uses.

The attacker may submit and create objects in workspaces of the attacker's own, and cannot see
the other team's. Whatever names the other team uses, the attacker's calls must be answered as if
nobody used these names.
"""

import json
import re
import unittest

from cluster import PASSWORD, Cluster
from det import Det

CONFIG = "name: n\nentrypoint: x\nresources: {slots_per_trial: 1}\nsearcher: {name: single, metric: loss}\n"


class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("names", slots=())
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        nobody = Det(cls.cluster.port)

        def login(user):
            return nobody.caller(nobody.post("/auth/login", {"username": user, "password": PASSWORD})["token"])

        cls.admin = login("admin")
        for user in ("victim", "attacker"):
            cls.admin.post("/users", {"user": {"username": user, "admin": False, "active": True}, "password": PASSWORD})
        cls.victim, cls.attacker = login("victim"), login("attacker")
        cls.theirs, cls.their_project = cls.team(cls.victim, "secret")
        cls.mine, cls.my_project = cls.team(cls.attacker, "mine")

    @classmethod
    def team(cls, user, name):
        workspace = user.post("/workspaces", {"name": name, "defaultRole": "none"})["workspace"]["id"]
        return workspace, user.post(f"/workspaces/{workspace}/projects", {"name": "p"})["project"]["id"]

    def make(self, by, workspace, project, kind, name):
        """Returns (status, answer) of the call that creates an object with that name."""
        submission = {"config": CONFIG, "projectId": project, "activate": False}
        call = {
            "experiment": ("POST", "experiments", {**submission, "externalExperimentId": name}),
            "experiment by put": ("PUT", f"experiments/by-external-id/{name}", submission),
            "unmanaged": ("POST", "experiments", {**submission, "unmanaged": True, "externalExperimentId": name}),
            "command": ("POST", "commands", {"config": {"entrypoint": ["x"]}, "workspaceId": workspace, "externalTaskId": name}),
            "task": ("POST", "generic-tasks", {"config": "entrypoint: x\n", "projectId": project, "externalTaskId": name}),
            "template": ("POST", f"templates/{name}", {"config": {"max_restarts": 1}, "workspaceId": workspace}),
            "template by put": ("PUT", f"templates/{name}", {"config": {"max_restarts": 2}, "workspaceId": workspace}),
            "model": ("POST", "models", {"name": name, "workspaceId": workspace}),
            "workspace": ("POST", "workspaces", {"name": name, "defaultRole": "none"}),
            "webhook": ("POST", "webhooks", {"name": name, "url": "https://example.com/x", "workspaceId": workspace,
                                             "webhookType": "WEBHOOK_TYPE_DEFAULT", "mode": "WEBHOOK_MODE_WORKSPACE",
                                             "triggers": [{"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE",
                                                           "condition": {"state": "COMPLETED"}}]}),
        }[kind]
        return by.request(call[0], f"/api/v1/{call[1]}", call[2])

    KINDS = ("experiment", "experiment by put", "unmanaged", "command", "task", "template", "template by put", "model",
             "workspace", "webhook")
    UNIQUE = ("model", "workspace")  # among the objects that the caller sees

    def shape(self, answer):
        """Returns an answer without the parts that differ each time: numbers, times and names."""
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+|taken|fresh", "#", json.dumps(answer))

    def test_taken_name_is_like_a_free_one(self):
        for kind in self.KINDS:
            taken, fresh = f"taken-{kind.replace(' ', '-')}", f"fresh-{kind.replace(' ', '-')}"
            status, answer = self.make(self.victim, self.theirs, self.their_project, kind, taken)
            self.assertEqual(status, 200, (kind, answer))
            guess = self.make(self.attacker, self.mine, self.my_project, kind, taken)
            other = self.make(self.attacker, self.mine, self.my_project, kind, fresh)
            self.assertEqual((guess[0], self.shape(guess[1])), (other[0], self.shape(other[1])), kind)
            self.assertEqual(guess[0], 200, (kind, guess[1]))
            # The first object of that name is the caller's own; external ids find it again.
            again = self.make(self.victim, self.theirs, self.their_project, kind, taken)
            self.assertEqual(again[0], 409 if kind in self.UNIQUE else 200, (kind, again[1]))

    def test_renaming_reveals_no_more(self):
        self.make(self.victim, self.theirs, self.their_project, "model", "target-taken")
        self.make(self.attacker, self.mine, self.my_project, "model", "renamed")
        for path, names in (("models/renamed", ("target-taken",)), (f"workspaces/{self.mine}", ("secret", "mine"))):
            for name in names:
                status, answer = self.attacker.request("PATCH", f"/api/v1/{path}", {"name": name})
                self.assertEqual(status, 200, (path, name, answer))

    def test_reading_by_name(self):
        self.make(self.victim, self.theirs, self.their_project, "model", "read-taken")
        self.make(self.victim, self.theirs, self.their_project, "template", "read-taken")
        for path in ("models/{}", "models/{}/versions", "templates/{}"):
            answers = [self.attacker.request("GET", "/api/v1/" + path.format(name)) for name in ("read-taken", "read-fresh")]
            self.assertEqual(answers[0][0], 404, answers)
            self.assertEqual(self.shape(answers[0]), self.shape(answers[1]))
        for body in ({"template": "read-taken"}, {"template": "read-fresh"}):
            status, answer = self.attacker.request("POST", "/api/v1/experiments",
                                                   {"config": CONFIG, "projectId": self.my_project, **body})
            self.assertEqual(status, 404, answer)
        for name in ("secret", "nowhere"):
            status, answer = self.attacker.request("POST", "/api/v1/models", {"name": f"in-{name}", "workspaceName": name})
            self.assertEqual((status, answer["message"]), (404, f"workspace '{name}' not found"))
            status, answer = self.attacker.request("POST", "/api/v1/experiments", {
                "config": f"workspace: {name}\nproject: p\n" + CONFIG})
            self.assertEqual(status, 404, answer)

    def test_name_cannot_be_taken_over(self):
        """A user who sees two objects of a name is asked which one is meant; a template of the
        submission's workspace comes first."""
        for by, workspace, restarts in ((self.victim, self.theirs, 7), (self.attacker, self.mine, 3)):
            by.request("POST", "/api/v1/templates/shared", {"config": {"max_restarts": restarts}, "workspaceId": workspace})
            by.request("POST", "/api/v1/models", {"name": "shared", "workspaceId": workspace})
        self.attacker.call("PATCH", f"/workspaces/{self.mine}", {"defaultRole": "viewer"})
        self.addCleanup(self.attacker.call, "PATCH", f"/workspaces/{self.mine}", {"defaultRole": "none"})
        made = self.victim.post("/experiments", {"config": CONFIG, "projectId": self.their_project, "template": "shared"})
        self.assertEqual(made["config"]["max_restarts"], 7)
        status, answer = self.victim.request("POST", "/api/v1/experiments", {"config": CONFIG, "template": "shared"})
        self.assertEqual(status, 409, answer)
        for path in ("templates/shared", "models/shared"):
            status, answer = self.victim.request("GET", f"/api/v1/{path}")
            self.assertEqual(status, 409, answer)
        status, answer = self.victim.request("GET", f"/api/v1/templates/shared?workspaceId={self.theirs}")
        self.assertEqual(answer["template"]["config"]["max_restarts"], 7)

    def test_answer_has_the_right_shape(self):
        """A command with the external id of an experiment is returned as a command, whose
        configuration is an object."""
        for kind in ("experiment", "command", "command"):
            status, answer = self.make(self.attacker, self.mine, self.my_project, kind, "same")
            self.assertEqual(status, 200, answer)
            self.assertIsInstance(answer["config"], dict)
        self.assertEqual(len([c for c in self.attacker.get("/commands")["commands"] if c["state"]]), len({
            c["id"] for c in self.attacker.get("/commands")["commands"]}))


if __name__ == "__main__":
    unittest.main(verbosity=2)
