"""A former member keeps streams open that were opened while the member had the right to see the
data.

Each way of losing the right is tried with each stream that waits for something. A stream may end
a few seconds later, with a message that gives the reason; data written after that must not reach
the former member. Streams of callers who keep the right stay open.
"""

import http.client
import socket
import threading
import time
import unittest

from cluster import PASSWORD, Cluster, wait_for
from det import Det, SimulatedAgent

PATIENCE = 20  # seconds; the master aims at two
CONFIG = "name: n\nentrypoint: x\nresources: {slots_per_trial: 1}\nsearcher: {name: single, metric: loss}\n"


class Follower(threading.Thread):
    """Reads a stream until its end."""

    def __init__(self, caller, path):
        super().__init__(daemon=True)
        self.text, self.ended = b"", threading.Event()
        self.connection, self.response = caller.open("GET", "/api/v1/" + path, timeout=PATIENCE * 2)
        self.start()

    def run(self):
        try:
            while piece := self.response.read1(65536):
                self.text += piece
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            self.text += b"(cut)"
        self.ended.set()
        self.response.close()

    def leave(self):
        if self.connection.sock:
            self.connection.sock.shutdown(socket.SHUT_RDWR)


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("streams", slots=())
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()
        cls.nobody = Det(cls.cluster.port)
        cls.admin = cls.login("admin")
        cls.live = SimulatedAgent(cls.cluster.port, (cls.cluster.folder / "master" / "agent.token").read_text().strip(), slots=16)
        cls.live.start()
        cls.addClassCleanup(cls.live.stop)
        wait_for("the agent", lambda: cls.admin.get("/agents")["agents"], 30)

    @classmethod
    def login(cls, user):
        return cls.nobody.caller(cls.nobody.post("/auth/login", {"username": user, "password": PASSWORD})["token"])

    def member(self, name, role="none", admin=False):
        """Creates a new user and a workspace with a running experiment; returns the streams about
        it."""
        user = self.admin.post("/users", {"user": {"username": name, "admin": admin, "active": True}, "password": PASSWORD})["user"]["id"]
        workspace = self.admin.post("/workspaces", {"name": name, "defaultRole": role})["workspace"]["id"]
        if role == "none":
            self.admin.call("PUT", f"/workspaces/{workspace}/members/{user}", {"role": "viewer"})
        project = self.admin.post(f"/workspaces/{workspace}/projects", {"name": "p"})["project"]["id"]
        experiment = self.admin.post("/experiments", {"config": CONFIG, "projectId": project, "activate": True})["experiment"]["id"]
        task = self.live.task_of(experiment)
        caller = self.login(name)
        paths = [f"trials/{task['trialId']}/logs?follow=true", f"tasks/{task['taskId']}/logs?follow=true",
                 f"experiments/metrics-stream/metric-names?ids={experiment}&periodSeconds=1"]
        if admin:
            paths = ["master/logs?follow=true"]
        return {"name": name, "user": user, "workspace": workspace, "experiment": experiment, "task": task, "caller": caller,
                "streams": [Follower(caller, path) for path in paths]}

    def log(self, member, text):
        self.live.caller.caller(member["task"]["env"]["DET_SESSION_TOKEN"], task=True).request("POST", "/task-logs", [
            {"taskId": member["task"]["taskId"], "log": text, "timestamp": "2026-11-21T09:00:02Z"}])

    def test_every_way_ends_every_stream(self):
        elsewhere = self.admin.post("/workspaces", {"name": "elsewhere", "defaultRole": "none"})["workspace"]["id"]
        there = self.admin.post(f"/workspaces/{elsewhere}/projects", {"name": "p"})["project"]["id"]
        ways = {
            "removed": lambda m: self.admin.call("DELETE", f"/workspaces/{m['workspace']}/members/{m['user']}"),
            "no-role": lambda m: self.admin.call("PUT", f"/workspaces/{m['workspace']}/members/{m['user']}", {"role": "none"}),
            "closed": lambda m: self.admin.call("PATCH", f"/workspaces/{m['workspace']}", {"defaultRole": "none"}),
            "inactive": lambda m: self.admin.call("PATCH", f"/users/{m['user']}", {"active": False}),
            "logout": lambda m: m["caller"].post("/auth/logout"),
            "moved": lambda m: self.admin.post(f"/experiments/{m['experiment']}/move", {"destinationProjectId": there}),
            "demoted": lambda m: self.admin.call("PATCH", f"/users/{m['user']}", {"admin": False}),
        }
        members = {way: self.member(way, "viewer" if way == "closed" else "none", way == "demoted") for way in ways}
        stays = self.member("stays")
        for way, take in ways.items():
            take(members[way])
        deadline = time.monotonic() + PATIENCE
        for way, member in members.items():
            for stream in member["streams"]:
                self.assertTrue(stream.ended.wait(max(0.1, deadline - time.monotonic())), f"{way}: a stream is still open")
                self.assertIn(b'"error"', stream.text, way)
        for member in [*members.values(), stays]:
            self.log(member, "told-later\n")
        wait_for("the line", lambda: b"told-later" in stays["streams"][0].text, PATIENCE)
        for way, member in members.items():
            for stream in member["streams"]:
                self.assertNotIn(b"told-later", stream.text, way)
        for stream in stays["streams"]:
            self.assertFalse(stream.ended.is_set(), "a caller who keeps the right lost a stream")
            stream.leave()


if __name__ == "__main__":
    unittest.main(verbosity=2)
