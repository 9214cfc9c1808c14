"""Teams by the muster command: workspaces with their share of the slots, and the rights of their
members."""

import unittest

from cluster import SOURCE, Cluster, wait_for

HELLO = SOURCE / "examples" / "hello"


class Teams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(4,)).__enter__()
        cls.admin_env = {**cls.cluster.env, "XDG_CONFIG_HOME": str(cls.cluster.folder / "admin")}
        cls.user_env = cls.cluster.env
        cls.as_admin()
        cls.cluster.muster("login", "admin", "--password-file", cls.cluster.folder / "password")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    @classmethod
    def as_admin(cls):
        cls.cluster.env = cls.admin_env

    @classmethod
    def as_user(cls):
        cls.cluster.env = cls.user_env

    def submit(self, team, *flags):
        return self.cluster.create(HELLO / "experiment.yaml", HELLO, "--config", f"workspace={team}",
                                   "--config", "project=default", *flags)

    def refused(self, code, words, *arguments):
        done = self.cluster.run(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(words, done.stderr)

    def test_lifecycle_of_a_team(self):
        self.as_admin()
        self.cluster.muster("team", "create", "vision", "--weight", 2, "--max-slots", 2,
                            "--default-role", "none")
        self.as_user()
        self.assertNotIn("vision", [team["name"] for team in self.cluster.rows("team", "list")])
        self.refused(3, "there is no team", "team", "members", "vision")
        self.refused(3, "project 'default' not found", "experiment", "create", HELLO / "experiment.yaml", HELLO,
                     "--config", "workspace=vision", "--config", "project=default")

        self.as_admin()
        self.cluster.muster("team", "set", "vision", "--user", "determined", "--role", "viewer")
        self.as_user()
        self.refused(4, "takes the role editor in workspace \"vision\"", "experiment", "create",
                     HELLO / "experiment.yaml", HELLO, "--config", "workspace=vision",
                     "--config", "project=default")
        self.refused(4, "administrator", "team", "set", "vision", "--weight", 9)

        self.as_admin()
        self.cluster.muster("team", "set", "vision", "--user", "determined", "--role", "editor")
        self.as_user()
        experiment = self.submit("vision")
        self.cluster.wait(experiment)
        vision = next(t for t in self.cluster.rows("team", "list") if t["name"] == "vision")
        self.assertEqual((vision["experiments"], vision["members"]), (1, 2))
        members = {m["user"]: m["role"] for m in self.cluster.rows("team", "members", "vision")}
        self.assertEqual(members, {"admin": "admin", "determined": "editor"})
        shares = {s["team"]: s for s in self.cluster.rows("team", "shares")}
        self.assertEqual(shares["vision"]["max_slots"], 2)

        self.as_admin()
        self.cluster.muster("team", "set", "vision", "--user", "determined", "--role", "default")
        self.as_user()
        self.refused(3, f"experiment '{experiment}' not found", "experiment", "logs", experiment)
        listed = [row["id"] for row in self.cluster.rows("experiment", "list", "--all")]
        self.assertNotIn(experiment, listed)

        self.as_admin()
        self.cluster.muster("team", "delete", "vision", "--yes")
        self.refused(3, f"experiment '{experiment}' not found", "experiment", "describe", experiment)
        self.refused(3, "there is no team", "team", "members", "vision")

    def test_maximum_is_enforced_and_reported(self):
        self.as_admin()
        self.cluster.muster("team", "create", "small", "--max-slots", 2)
        experiment = self.submit("small", "--paused")  # two slots for each trial
        self.cluster.muster("team", "set", "small", "--max-slots", 1)
        self.refused(2, "may never hold more than 1", "experiment", "create", HELLO / "experiment.yaml",
                     HELLO, "--config", "workspace=small", "--config", "project=default")
        self.cluster.muster("experiment", "activate", experiment)
        why = wait_for("a reason", lambda: self.cluster.rows("queue", "why", experiment)["reason"])
        self.assertIn("small", why)
        self.cluster.muster("team", "set", "small", "--max-slots", 2)
        self.cluster.wait(experiment)


if __name__ == "__main__":
    unittest.main(verbosity=2)
