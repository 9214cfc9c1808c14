"""A viewer requests large answers on many connections and reads none of them.

The master keeps a complete answer in memory until its caller has read it. The attacker has read
access to one project only. The master's memory must stay bounded, other users must be served,
and connections that read nothing must be closed.
"""

import base64
import json
import os
import time
import unittest

from attack_connections import GENEROUS
from attack_downloads import call, silent
from bystander import Bystander, log_in, request
from cluster import PASSWORD, Cluster

MEMORY_MB = 256
SHARE_MB = 24  # limit of unread answers of one user, except for a single larger answer
STALLED_S = 20  # seconds after which the master closes a connection that reads nothing of its answer
NOTES = 950000  # bytes of each experiment
CONFIG = {"name": "large", "entrypoint": "true", "resources": {"slots_per_trial": 1},
          "searcher": {"name": "single", "metric": "loss"}}


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("answers", slots=())
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.cluster.__enter__()
        admin = log_in(cls.cluster.port, "admin")
        viewer = call(cls.cluster, admin, "POST", "/api/v1/users",
                      {"user": {"username": "viewer", "active": True}, "password": PASSWORD})["user"]["id"]
        workspace = call(cls.cluster, admin, "POST", "/api/v1/workspaces",
                         {"name": "shown", "defaultRole": "none"})["workspace"]["id"]
        call(cls.cluster, admin, "PUT", f"/api/v1/workspaces/{workspace}/members/{viewer}", {"role": "viewer"})
        cls.project = call(cls.cluster, admin, "POST", f"/api/v1/workspaces/{workspace}/projects",
                           {"name": "shown"})["project"]["id"]
        for _ in range(40):
            cls.experiment = cls.submit(admin, CONFIG, [])
            call(cls.cluster, admin, "PATCH", f"/api/v1/experiments/{cls.experiment}", {"notes": "n" * NOTES})
        content = base64.b64encode(os.urandom(12 << 20)).decode()
        cls.with_files = cls.submit(admin, CONFIG, [{"path": "weights", "type": 48, "content": content,
                                                     "mode": 0o644}])
        cls.viewer = log_in(cls.cluster.port, "viewer")
        cls.other = admin

    @classmethod
    def submit(cls, token, config, files):
        return call(cls.cluster, token, "POST", "/api/v1/experiments", {
            "config": json.dumps(config), "projectId": cls.project, "activate": False,
            "modelDefinition": files})["experiment"]["id"]

    def peak_mb(self):
        with open(f"/proc/{self.cluster.master.process.pid}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10

    def attack(self, path, count):
        """Opens `count` connections that request the path and read nothing; returns their statuses.
        """
        with Bystander(self.cluster) as others, silent(self.cluster, count, path, self.viewer) as callers:
            others.assert_served(GENEROUS)
            others.forget()
            status, _ = request(self.cluster.port, "GET", f"/api/v1/experiments/{self.experiment}",
                                token=self.other, timeout=GENEROUS)
            self.assertEqual(status, 200)       # a large answer of another user
            statuses = [one.status() for one in callers]
            others.assert_served(GENEROUS)
        self.assertLess(self.peak_mb(), MEMORY_MB)
        self.assertLessEqual(set(statuses), {200, 503})
        return statuses

    def test_one_experiment(self):
        statuses = self.attack(f"/api/v1/experiments/{self.experiment}", 300)
        self.assertIn(503, statuses)
        self.assertGreaterEqual(statuses.count(200), SHARE_MB // 2)

    def test_lists_and_files(self):
        for path in ("/api/v1/experiments?limit=40", f"/api/v1/experiments/{self.with_files}/model_def"):
            statuses = self.attack(path, 20)
            self.assertIn(200, statuses)
            self.assertIn(503, statuses)

    def test_answer_that_is_never_read(self):
        path = "/api/v1/experiments?limit=40"  # more than the share of one user: it is sent if it is the only one
        with silent(self.cluster, 1, path, self.viewer) as callers:
            since = time.monotonic()
            self.assertEqual(callers[0].status(), 200)
            status, answer = request(self.cluster.port, "GET", path, token=self.viewer, timeout=GENEROUS)
            self.assertEqual(status, 503, answer[:200])
            while status != 200:
                self.assertLess(time.monotonic() - since, 3 * STALLED_S, "an answer that is never read is kept")
                time.sleep(0.5)
                status, answer = request(self.cluster.port, "GET", path, token=self.viewer, timeout=60)
            self.assertGreater(time.monotonic() - since, STALLED_S - 3)
            self.assertGreater(len(answer), SHARE_MB << 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
