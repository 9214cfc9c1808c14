"""Lists by the muster command and over HTTP: filters, orders, cursors, rows without large fields,
and visibility."""

import json
import unittest
import urllib.error
import urllib.parse
import urllib.request

from cluster import PASSWORD, Cluster

CONFIG = """\
name: {name}
description: about {name}
labels: [{labels}]
entrypoint: [python3, report.py]
launch: per_slot
hyperparameters: {{rate: {rate}, optimizer: {{name: {optimizer}}}}}
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: loss}}
max_restarts: 0
"""

# One validation report, as a program without any library sends it.
REPORT = """\
import json, os, urllib.request
trial, hparams = os.environ["DET_TRIAL_ID"], json.loads(os.environ["DET_HPARAMS"])
for step, loss in enumerate([hparams["rate"] + 1, hparams["rate"]], 1):
    body = {"group": "validation", "metrics": {"trialId": int(trial), "stepsCompleted": step,
            "trialRunId": int(os.environ["DET_TRIAL_RUN_ID"]), "metrics": {"avgMetrics": {"loss": loss}}}}
    urllib.request.urlopen(urllib.request.Request(
        os.environ["DET_MASTER"] + f"/api/v1/trials/{trial}/metrics", json.dumps(body).encode(), method="POST",
        headers={"Grpc-Metadata-x-allocation-token": "Bearer " + os.environ["DET_SESSION_TOKEN"]})).read()
"""

RATES = {"resnet-a": 0.1, "resnet-b": 0.5, "gpt-a": 0.3}


class Lists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = c = Cluster("cluster", slots=(2,)).__enter__()
        (c.folder / "work").mkdir()
        (c.folder / "work" / "report.py").write_text(REPORT)
        cls.ids = {}
        for name, rate in RATES.items():
            config = c.folder / f"{name}.yaml"
            config.write_text(CONFIG.format(name=name, rate=rate, labels="vision, new" if "resnet" in name else "nlp",
                                            optimizer="adam" if rate < 0.4 else "sgd"))
            cls.ids[name] = c.create(config, c.folder / "work")
        for number in cls.ids.values():
            c.wait(number)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def names(self, *arguments):
        return [row["name"] for row in self.cluster.rows("experiment", "list", *arguments)]

    def login(self, user):
        body = json.dumps({"username": user, "password": PASSWORD, "isHashed": False}).encode()
        with urllib.request.urlopen(self.cluster.url + "/api/v1/auth/login", body) as answer:
            return json.load(answer)["token"]

    def get(self, path, token, **query):
        request = urllib.request.Request(f"{self.cluster.url}{path}?{urllib.parse.urlencode(query, True)}",
                                         headers={"Authorization": "Bearer " + token})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def test_filters(self):
        for filter_, expected in {
            "validation.loss < 0.4": {"resnet-a", "gpt-a"},
            "validation.loss.max > 1.4": {"resnet-b"},
            "metric = 0.3": {"gpt-a"},
            "hparams.optimizer.name = adam and label = vision": {"resnet-a"},
            "hparams.rate in (0.5, 0.3) or name ~ RESNET-A": {"resnet-a", "resnet-b", "gpt-a"},
            "not label = new": {"gpt-a"},
            "text : gpt": {"gpt-a"},
            "text : \"about resnet\" and state = completed": {"resnet-a", "resnet-b"},
            "state in (RUNNING, QUEUED)": set(),
            "owner = determined and started > -1d and ended and duration < 1h": set(RATES),
        }.items():
            self.assertEqual(set(self.names("--filter", filter_)), expected, filter_)

    def test_orders(self):
        self.assertEqual(self.names("--sort", "-validation.loss"), ["resnet-b", "gpt-a", "resnet-a"])
        self.assertEqual(self.names("--sort", "name"), ["gpt-a", "resnet-a", "resnet-b"])
        self.assertEqual(self.names("--sort", "hparams.optimizer.name,-hparams.rate"),
                         ["gpt-a", "resnet-a", "resnet-b"])
        self.assertEqual(self.names("--sort", "name", "--limit", 2), ["gpt-a", "resnet-a"])

    def test_mistakes_are_reported_with_their_position(self):
        for filter_, words in {"validation.loss < low": "filter, column 19: validation takes a number",
                               "stat = RUNNING": "filter, column 1: there is no field \"stat\"; did you mean \"state\"?"}.items():
            done = self.cluster.run("experiment", "list", "--filter", filter_)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
        self.assertIn("validation.NAME", self.cluster.muster("help", "filters"))

    def test_trials(self):
        experiment = self.ids["resnet-b"]
        rows = self.cluster.rows("trial", "list", experiment, "--filter", "validation.loss = 0.5 and hparams.rate > 0.2",
                                 "--sort", "-metric")
        self.assertEqual(len(rows), 1)
        self.assertEqual(self.cluster.rows("trial", "list", experiment, "--filter", "steps > 2"), [])

    def test_cursors_and_omitted_fields(self):
        token = self.login("determined")
        seen, cursor = [], ""
        while cursor is not None:
            page = self.get("/api/v1/experiments", token, limit=2, sort="-metric", cursor=cursor,
                            omit="config,originalConfig,description,notes")
            seen += [x["name"] for x in page["experiments"]]
            self.assertEqual(page["pagination"]["total"], 3)
            for x in page["experiments"]:
                self.assertNotIn("config", x)
                self.assertNotIn("notes", x)
            cursor = page["nextCursor"]
        self.assertEqual(seen, ["resnet-b", "gpt-a", "resnet-a"])

    def test_values_beside_rows(self):
        token = self.login("determined")
        names = ["validation.loss", "validation.loss.max", "hparams.optimizer.name", "slots", "training.none"]
        page = self.get("/api/v1/experiments", token, sort="validation.loss", limit=2, show=names)
        self.assertEqual([x["name"] for x in page["experiments"]], ["resnet-a", "gpt-a"])
        self.assertEqual(page["values"], [[0.1, 1.1, "adam", 1, None], [0.3, 1.3, "adam", 1, None]])
        page = self.get("/api/v1/experiments", token, filter="name = nobody", show=names)
        self.assertEqual(page["values"], [])
        page = self.get(f"/api/v1/experiments/{self.ids['resnet-b']}/trials", token, show=names[:2] + ["hparams.rate"])
        self.assertEqual(page["values"], [[0.5, 1.5, 0.5]])
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.get("/api/v1/experiments", token, show=["id", "notes"])
        self.assertIn("show: lists cannot be sorted by notes", json.load(refused.exception)["message"])

    def test_fields(self):
        token = self.login("determined")
        answer = self.get("/api/v1/experiment/fields", token, archived="false")
        fields = {field["name"]: field for field in answer["fields"]}
        self.assertEqual(fields["validation"]["names"], ["loss"])
        self.assertEqual(fields["hparams"]["names"], ["optimizer.name", "rate"])
        self.assertEqual(fields["steps"]["lists"], ["trials"])
        self.assertEqual(answer["states"], [{"name": "COMPLETED", "count": 3}])
        self.assertEqual([(x["name"], x["count"]) for x in answer["users"]], [("determined", 3)])
        self.assertEqual([x["count"] for x in answer["projects"]], [3])

    def test_changes_are_found_at_once(self):
        experiment = self.ids["gpt-a"]
        token = self.login("determined")
        path = f"/api/v1/experiments/{experiment}"

        def patch(**change):
            request = urllib.request.Request(self.cluster.url + path, json.dumps(change).encode(), method="PATCH",
                                             headers={"Authorization": "Bearer " + token})
            urllib.request.urlopen(request).read()

        patch(notes="a **zebra** was here", labels=["nlp", "striped"])
        self.assertEqual(self.names("--filter", "text : zebra and label = striped"), ["gpt-a"])
        patch(notes="", labels=["nlp"])
        self.assertEqual(self.names("--filter", "text : zebra or label = striped"), [])
        patch(name="gpt-renamed")
        self.assertEqual(self.names("--filter", "name ~ renam"), ["gpt-renamed"])
        patch(name="gpt-a")
        self.assertEqual(self.names("--filter", "name ~ renam"), [])

    def test_invisible_objects_are_not_listed(self):
        c = self.cluster
        admin = {**c.env, "XDG_CONFIG_HOME": str(c.folder / "admin")}
        user, c.env = c.env, admin
        try:
            c.muster("login", "admin", "--password-file", c.folder / "password")
            c.muster("team", "create", "hidden", "--default-role", "none")
            config = c.folder / "secret.yaml"
            config.write_text(CONFIG.format(name="secret", rate=0.2, labels="vision", optimizer="adam"))
            secret = c.create(config, c.folder / "work", "--config", "workspace=hidden", "--config", "project=default")
            c.wait(secret)
            self.assertIn("secret", self.names("--filter", "validation.loss = 0.2"))
        finally:
            c.env = user
        token = self.login("determined")
        for query in ({}, {"filter": "label = vision"}, {"filter": "text : secret"}, {"filter": f"id = {secret}"},
                      {"name": "secret"}, {"sort": "validation.loss"}, {"filter": "hparams.rate = 0.2"},
                      {"limit": -2}, {"labels": "vision", "count": "exact"}):
            page = self.get("/api/v1/experiments", token, **query)
            self.assertNotIn("secret", [x["name"] for x in page["experiments"]], query)
            self.assertEqual(page["pagination"]["total"],
                             len(page["experiments"]) if query != {"limit": -2} else 3, query)
        known = self.get("/api/v1/experiment/fields", token)
        self.assertNotIn("hidden", [x.get("workspaceName") for x in known["projects"]])
        self.assertEqual([x["count"] for x in known["states"]], [3])


if __name__ == "__main__":
    unittest.main(verbosity=2)
