"""An editor tries to put the editor's own job before another team's, and to preempt the running
one.

The pool schedules by priority alone, and users may raise some priorities above the default. The
other team's trial holds all slots and one more waits; whatever requests the attacker sends, both
keep their places, and the running trial is never preempted. The attacker can still change the
attacker's own jobs, and an administrator of the cluster may do everything.
"""

import json
import time
import unittest

from cluster import PASSWORD, Cluster, wait_for
from det import Det, SimulatedAgent

CONFIG = "name: n\nentrypoint: x\nresources: {{slots_per_trial: 4, priority: {0}{1}}}\nsearcher: {{name: single, metric: loss}}\n"


class Priorities(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("priorities", slots=(), master_flags=["--scheduler", "priority", "--preempt-after", "0",
                                                                           "--max-user-priority", "30"])
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        nobody = Det(cls.cluster.port)

        def login(user):
            return nobody.caller(nobody.post("/auth/login", {"username": user, "password": PASSWORD})["token"])

        cls.admin = login("admin")
        for user in ("victim", "attacker"):
            cls.admin.post("/users", {"user": {"username": user, "admin": False, "active": True}, "password": PASSWORD})
        cls.victim, cls.attacker = login("victim"), login("attacker")
        cls.live = SimulatedAgent(cls.cluster.port, (cls.cluster.folder / "master" / "agent.token").read_text().strip())
        cls.live.start()
        cls.addClassCleanup(cls.live.stop)
        wait_for("the agent", lambda: cls.admin.get("/agents")["agents"], 30)
        cls.project = cls.team(cls.attacker, "mine")
        cls.their_project = cls.team(cls.victim, "theirs")
        cls.runs, cls.waits = (cls.submit(cls.victim, cls.their_project, 42) for _ in range(2))
        cls.running = cls.live.task_of(cls.runs)
        cls.job = cls.submit(cls.attacker, cls.project, 60)
        cls.other = cls.submit(cls.attacker, cls.project, 60)
        wait_for("all four jobs in the queue", lambda: len(cls.queue()) == 4, 30)
        cls.jobs = {int(row["entityId"]): row["jobId"] for row in cls.queue()}

    @classmethod
    def queue(cls):
        rows = [row["full"] for row in cls.admin.get("/job-queues-v2")["jobs"]]
        return [row for row in rows if row["entityId"].isdigit()]

    @classmethod
    def team(cls, user, name):
        workspace = user.post("/workspaces", {"name": name, "defaultRole": "viewer"})["workspace"]["id"]
        return user.post(f"/workspaces/{workspace}/projects", {"name": "p"})["project"]["id"]

    @classmethod
    def submit(cls, user, project, priority, more="", **fields):
        return user.post("/experiments", {"config": CONFIG.format(priority, more), "projectId": project, "activate": True,
                                          **fields})["experiment"]["id"]

    def order(self):
        """Returns the waiting experiments in the scheduler's order."""
        return [int(row["entityId"]) for row in self.queue() if row["summary"]["state"] == "STATE_QUEUED"]

    def is_before(self, job, other):
        order = self.order()
        return order.index(job) < order.index(other)

    def harmless(self, where):
        time.sleep(0.02)  # a scheduling pass follows a change after 5 ms
        self.assertEqual(self.order()[0], self.waits, where)
        status, answer = self.live.caller.caller(self.running["env"]["DET_SESSION_TOKEN"], task=True).request(
            "GET", f"/api/v1/allocations/{self.running['allocationId']}/signals/preemption?timeout_seconds=0")
        self.assertEqual((status, answer.get("preempt")), (200, False), where)

    def attempts(self):
        """Returns (method, path, body) of every call that could put the attacker's job ahead."""
        mine, theirs, job = self.jobs[self.job], (self.jobs[self.waits], self.jobs[self.runs]), self.job
        for priority in (41, 35, 30, 29, 1):
            yield "PATCH", f"experiments/{job}", {"resources": {"priority": priority}}
            yield "POST", "job-queues", {"updates": [{"jobId": mine, "priority": priority}]}
        for value in ("1", 1.0, "01", 4.1e1, [1], {"a": 1}, True, -1, 0, 100, 2**63, "1e0"):
            yield "PATCH", f"experiments/{job}", {"resources": {"priority": value}}
            yield "POST", "job-queues", {"updates": [{"job_id": mine, "priority": value}]}
        for anchor in theirs:
            yield "POST", "job-queues", {"updates": [{"jobId": mine, "aheadOf": anchor}]}
            yield "POST", "job-queues", {"updates": [{"jobId": mine, "ahead_of": anchor, "priority": 60}]}
        yield "POST", "job-queues", {"updates": [{"jobId": mine, "behindOf": theirs[1]}]}  # still before the waiting one
        yield "POST", "job-queues", {"updates": [{"jobId": theirs[0], "behindOf": mine}]}
        yield "POST", "job-queues", {"updates": [{"jobId": theirs[0], "priority": 99}]}
        yield "POST", "job-queues", {"updates": [{"jobId": mine, "priority": 61}, {"jobId": mine, "priority": 41}]}
        yield "POST", "job-queues", {"updates": [{"jobId": self.jobs[self.other], "priority": 41},
                                                 {"jobId": mine, "aheadOf": self.jobs[self.other]}]}
        yield "POST", "job-queues", {"updates": [{"jobId": mine, "weight": 1e6}]}
        yield "PATCH", f"experiments/{job}", {"resources": {"weight": 5}}
        for more in ("priority: 1", "priority: 30", "priority: 41", "weight: 2"):
            config = CONFIG.format(60, "").replace("priority: 60", more)
            yield "POST", "experiments", {"config": config, "projectId": self.project, "activate": True}
            yield "POST", "experiments", {"config": config, "parentId": job, "projectId": self.project, "activate": True}
            yield "PUT", f"experiments/by-external-id/x-{more[-1]}", {"config": config, "projectId": self.project}
        yield "POST", "generic-tasks", {"config": "entrypoint: x\nresources: {slots: 4, priority: 1}\n", "projectId": self.project}
        yield "POST", "generic-tasks", {"config": "entrypoint: x\nresources: {slots: 4, priority: 41}\n", "projectId": self.project}
        for priority in (1, 41):
            yield "POST", "commands", {"config": {"entrypoint": ["x"], "resources": {"slots": 4, "priority": priority}}}
        yield "POST", "templates/fast", {"config": {"resources": {"priority": 1}}}
        yield "POST", "experiments", {"config": CONFIG.format(60, "").replace(", priority: 60", ""), "template": "fast",
                                      "projectId": self.project, "activate": True}

    def test_nothing_goes_before_another_team(self):
        for method, path, body in self.attempts():
            where = f"{method} {path} {json.dumps(body)[:150]}"
            status, answer = self.attacker.request(method, f"/api/v1/{path}", body)
            if not path.startswith("templates/"):
                self.assertIn(status, (400, 403, 413), f"{where}: {answer}")
            self.harmless(where)

    def test_own_jobs_can_be_changed(self):
        self.attacker.call("PATCH", f"/experiments/{self.other}", {"resources": {"priority": 59}})
        wait_for("the other job to go first", lambda: self.is_before(self.other, self.job), 30)
        self.attacker.post("/job-queues", {"updates": [{"jobId": self.jobs[self.job], "aheadOf": self.jobs[self.other]}]})
        wait_for("the job to go first", lambda: self.is_before(self.job, self.other), 30)
        self.harmless("own jobs")
        self.submit(self.attacker, self.project, 42)  # everyone may use the default priority
        self.harmless("the default priority")

    def test_z_administrator_may(self):
        self.admin.post("/job-queues", {"updates": [{"jobId": self.jobs[self.job], "aheadOf": self.jobs[self.waits]}]})
        wait_for("the job to go before all others", lambda: self.order()[0] == self.job, 30)


if __name__ == "__main__":
    unittest.main(verbosity=2)
