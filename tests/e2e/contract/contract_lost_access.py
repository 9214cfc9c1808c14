"""Calls that are under way while a user loses access: a new password, or the end of the account."""

import http.client
import json
import sqlite3
import threading
import time

from cluster import PASSWORD, wait_for
from contract import Contract, hashed

NEW = {"password": hashed("another phrase of words"), "isHashed": True}
SLOW_S = 0.5  # longer than the master trusts a caller whose body is still on its way


class LostAccess(Contract):
    def new_user(self, name):
        made = self.admin.post("/users", {"user": {"username": name, "active": True}, "password": PASSWORD})["user"]
        self.admin.request("PUT", "/api/v1/workspaces/1/members", {"userId": made["id"], "role": "editor"})
        return made["id"], self.login(name)

    def begin(self, caller, method, path, body):
        """Sends a call except its last byte; returns (connection, that byte)."""
        text = json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port, timeout=30)
        self.addCleanup(connection.close)
        connection.putrequest(method, "/api/v1" + path)
        for name, value in {**caller.headers(), "Content-Length": len(text)}.items():
            connection.putheader(name, value)
        connection.endheaders(text[:-1])
        return connection, text[-1:]

    def finish(self, begun):
        connection, last = begun
        connection.send(last)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def calls(self, user):
        return (("POST", "/experiments", {"config": self.config, "activate": False, "modelDefinition": []}),
                ("POST", "/tokens", {"lifespan": "-1"}),
                ("PATCH", f"/users/{user}", {"password": hashed("of somebody else"), "isHashed": True}),
                ("POST", "/commands", {"config": {"entrypoint": ["true"], "resources": {"slots": 0}}}))

    def test_body_that_ends_after_the_access(self):
        for name, change in (("slow1", NEW), ("slow2", {"active": False})):
            user, caller = self.new_user(name)
            begun = [self.begin(caller, *call) for call in self.calls(user)]
            time.sleep(SLOW_S)
            self.admin.call("PATCH", f"/users/{user}", change)
            for call, one in zip(self.calls(user), begun, strict=True):
                status, answer = self.finish(one)
                self.assertEqual(status, 401, (call, answer))

    def test_slow_body_of_a_user_who_keeps_the_access(self):
        begun = self.begin(self.new_user("slow3")[1], "POST", "/tokens", {"lifespan": "1h"})
        time.sleep(SLOW_S)
        self.assertEqual(self.finish(begun)[0], 200)

    def test_slow_body_of_a_task_that_has_ended(self):
        """Trainers recognize a 403."""
        _, task, caller = self.running()
        begun = self.begin(caller, "POST", f"/trials/{task['trialId']}/progress", {"progress": 0.5, "isRaw": True})
        time.sleep(SLOW_S)
        self.agent.end(task)
        self.wait_for_state(task["experimentId"], "STATE_COMPLETED")
        status, answer = self.finish(begun)
        self.assertEqual(status, 403, answer)
        self.assertIn("allocation has ended", answer["error"]["error"])

    def test_access_tokens_of_a_user_who_returns(self):
        user, caller = self.new_user("returns")
        access = self.nobody.caller(caller.post("/tokens", {"lifespan": "72h"})["token"])
        access.call("GET", "/me")
        for active in (False, True):
            self.admin.call("PATCH", f"/users/{user}", {"active": active})
        access.call("GET", "/me", expect=401)
        self.login("returns")

    def test_submissions_during_a_change_of_the_password(self):
        """Their tasks do not act as the user, however late they are stored."""
        user, caller = self.new_user("racer")
        stored = []

        def submit():
            while (answer := caller.request("POST", "/api/v1/experiments", self.calls(user)[0][2]))[0] == 200:
                stored.append(answer[1]["experiment"]["id"])
        threads = [threading.Thread(target=submit) for _ in range(8)]
        for thread in threads:
            thread.start()
        wait_for("submissions", lambda: stored, 30)
        self.admin.call("PATCH", f"/users/{user}", NEW)
        for thread in threads:
            thread.join()
        with sqlite3.connect(f"file:{self.cluster.folder}/master/muster.db?mode=ro", uri=True) as store:
            limited, = store.execute("SELECT limited_experiment FROM users WHERE id = ?", (user,)).fetchone()
        self.assertEqual([one for one in stored if one > limited], [])
