"""det user."""

import json

from cluster import PASSWORD
from contract import Contract, PAGE, hashed


class Users(Contract):
    def test_user_login_and_logout(self):
        caller = self.login("determined")
        caller.get("/me", "user:User")
        caller.post("/auth/logout", {})
        caller.call("GET", "/me", expect=401)
        self.nobody.call("POST", "/auth/login", {"username": "determined", "password": hashed("no"), "isHashed": True},
                         expect=401)
        self.nobody.post("/auth/login", {"username": "determined", "password": PASSWORD, "is_hashed": False})

    def test_logins_that_fail(self):
        """det asks for the password again after a 401; a 403 ends it with a stack trace."""
        user = self.admin.post("/users", {"user": {"username": "gone", "active": False}, "password": PASSWORD})["user"]
        for name, password, words in (("determined", "no", "wrong user name or password"),
                                      ("nobody-of-that-name", PASSWORD, "wrong user name or password"),
                                      ("gone", "no", "wrong user name or password"),
                                      ("gone", PASSWORD, "user is not active")):
            answer = self.nobody.call("POST", "/auth/login", {"username": name, "password": hashed(password),
                                                              "isHashed": True}, expect=401)
            self.assertIn(words, answer["error"]["error"], name)
        self.admin.call("PATCH", f"/users/{user['id']}", {"active": True})
        self.login("gone")

    def test_password_of_a_user(self):
        """The body is only the password, or its hash."""
        path = f"/users/{self.admin.post('/users', {'user': {'username': 'pat'}, 'password': PASSWORD})['user']['id']}/password"
        pat = self.login("pat")
        pat.post(path, json.dumps("a new \u00e9 password"))
        pat.call("GET", "/me")
        self.login("pat", "a new \u00e9 password")
        self.admin.post(path, json.dumps(hashed("another")))
        self.login("pat", "another")
        pat.call("GET", "/me", expect=401)  # sessions with the old password have ended
        self.user.call("POST", path, json.dumps("mine now"), expect=403)
        for wrong in (None, "{}", "7", "[]", '"unfinished', '{"password": "x"}'):
            self.admin.call("POST", path, wrong, expect=400)
        self.admin.call("POST", "/users/999999/password", '"x"', expect=404)
        user = int(path.split("/")[2])
        for active in (False, True):
            results = self.admin.call("PATCH", "/users", {"userIds": [user, 999999], "activate": active, "filters": None},
                                      "results:[ActionResult]")["results"]
            self.assertEqual([(r["id"], "not found" in r["error"]) for r in results], [(user, False), (999999, True)])
            self.assertEqual(self.admin.get(f"/users/{user}")["user"]["active"], active)
        self.admin.call("PATCH", "/users", {"userIds": [user]}, expect=400)
        self.user.call("PATCH", "/users", {"userIds": [user], "activate": False}, expect=403)
        self.login("pat", "another")

    def test_display_names(self):
        """A display name is shown in place of the user name, so it must not be another user's name."""
        ids = {name: self.admin.post("/users", {"user": {"username": name}, "password": PASSWORD})["user"]["id"]
               for name in ("eve", "mallory")}
        eve = self.login("eve")
        eve.call("PATCH", f"/users/{ids['eve']}", {"displayName": "Eve E."})
        for taken in ("mallory", "Mallory", "admin"):
            answer = eve.call("PATCH", f"/users/{ids['eve']}", {"displayName": taken}, expect=400)
            self.assertIn(f"user {taken.lower()} has this name", answer["error"]["error"])
        mallory = self.login("mallory")
        mallory.call("PATCH", f"/users/{ids['mallory']}", {"displayName": "eve e."}, expect=400)
        self.admin.call("POST", "/users", {"user": {"username": "trudy", "displayName": "EVE"}}, expect=400)
        for own in ("Eve", "Eve E.", ""):
            eve.call("PATCH", f"/users/{ids['eve']}", {"displayName": own}, "user:User")

    def test_calls_that_do_not_apply(self):
        """Each call is refused with the alternative, for every caller with a token."""
        refused = [(method, path) for method, path, operation in self.nobody.document.routes
                   if operation["summary"].startswith("Refused; instead: ")]
        self.assertGreater(len(refused), 40)
        task = self.running()[1]["taskId"]
        for method, path in refused:
            path = path.replace("{groupId}", "1").replace("{userId}", "1").replace("{workspaceId}", "1") \
                .replace("{experimentId}", "1").replace("{workloadType}", "EXPERIMENT").replace("{clientId}", "1") \
                .replace("{resourcePoolName}", "default").replace("{key}", "k").replace("{projectId}", "1").replace("{taskId}", task) \
                .replace("{allocationId}", "1.1.1")
            status, answer = self.admin.request(method, path)
            self.assertEqual(status, 400, (method, path, answer))
            self.assertRegex(answer["error"]["error"], "this master does not do that: .*/api/v1/", (method, path))
            self.assertEqual(self.nobody.request(method, path)[0], 401)

    def test_user_list(self):
        self.user.get("/master", "clusterId clusterName masterId strictJobQueueControl version hasCustomLogo rbacEnabled")
        self.user.get("/users", f"users:[User] {PAGE}", active="true", offset=0, admin=None, limit=None, name=None)

    def test_user_create_and_change(self):
        made = self.admin.post("/users", {"isHashed": True, "password": hashed("first password"), "user": {
            "username": "ann", "admin": False, "active": True, "agentUserGroup": None, "displayName": None, "id": None,
            "lastAuthAt": None, "modifiedAt": None, "remote": None}}, "user:User")["user"]
        found = self.user.get("/users/ann/by-username", "user:User")["user"]
        self.assertEqual(found["id"], made["id"])
        ann = self.login("ann", "first password")
        for change in ({"password": hashed("second password"), "isHashed": True}, {"username": "anna"},
                       {"displayName": "Ann A."}, {"admin": True}, {"admin": False},
                       {"agentUserGroup": {"agentUid": 1000, "agentGid": 1000, "agentUser": "ann", "agentGroup": "ann"}},
                       {"active": False}, {"active": True}):
            self.admin.call("PATCH", f"/users/{made['id']}", change, "user:User")
            self.admin.get(f"/users/{made['id']}", "user:User")
        self.login("anna", "second password")
        self.assertIn(ann.request("GET", "/api/v1/me")[0], (200, 401))  # a new password may end sessions
        self.admin.call("GET", "/users/nobody-of-that-name/by-username", expect=404)
