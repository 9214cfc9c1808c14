"""The web page as a browser gets it: its files and headers, the session cookie, and access control.
"""

import http.client
import json
import os
import pathlib
import re
import socket
import unittest
import zlib

from cluster import PASSWORD, Cluster, wait_for

BUILT_IN = os.environ.get("MUSTER_WEBUI") == "1"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Encoding": "gzip, deflate, br"}
LOGIN = "/api/v1/auth/login?cookie=true"


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def text(self):
        packed = self.headers.get("Content-Encoding") == "gzip"
        return (zlib.decompress(self.body, 31) if packed else self.body).decode()

    @property
    def json(self):
        return json.loads(self.body)


class Browser:
    """Sends requests as a browser does: always the cookie, and the origin with requests that change
    something."""

    def __init__(self, port):
        self.port, self.host, self.cookie = port, f"127.0.0.1:{port}", None
        self.origin = f"http://{self.host}"

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def ask(self, method, path, body=None, **headers):
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            given.setdefault("Cookie", self.cookie)
        if method not in ("GET", "HEAD"):
            given.setdefault("Origin", self.origin)
        connection = self.connect()
        connection.request(method, path, body if body is None else json.dumps(body),
                           {name: value for name, value in given.items() if value is not None})
        answer = Answer(connection.getresponse())
        connection.close()
        return answer

    def get(self, path, **headers):
        return self.ask("GET", path, **{name.replace("-", "_"): value for name, value in {**BROWSER, **headers}.items()})

    def sign_in(self, user="determined"):
        answer = self.ask("POST", LOGIN, {"username": user, "password": PASSWORD, "isHashed": False})
        if answer.status == 200:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return answer


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=())
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.start_master()

    def setUp(self):
        self.browser = Browser(self.cluster.port)

    # files

    def assert_page(self, answer):
        self.assertEqual(answer.status, 200, answer.body[:300])
        self.assertEqual(answer.headers["Content-Type"], "text/html; charset=utf-8")
        self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(answer.headers["Referrer-Policy"], "no-referrer")
        policy = answer.headers["Content-Security-Policy"]
        for part in ("default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"):
            self.assertIn(part, policy)
        self.assertNotIn("unsafe", policy)

    def test_index(self):
        """The index is the same for every view of the page; a request that does not accept HTML
        gets the API's answer."""
        index = self.browser.get("/")
        self.assert_page(index)
        for path in ("/experiments/1", "/experiments?filter=state%20=%20active&sort=-id", "/det/experiments/1/overview",
                     "/compare?trials=1,2&broken=100%", "/nothing/of/this/name", "/apis"):
            answer = self.browser.get(path)
            self.assert_page(answer)
            self.assertEqual(answer.text, index.text, path)
        for path, accept in (("/experiments/1", "application/json"), ("/experiments/1", None), ("/experiments/1", "*/*"),
                             ("/experiments/1", "text/html;q=0"), ("/api/v1/nothing", BROWSER["Accept"]),
                             ("/api", BROWSER["Accept"]), ("/proxy/x", BROWSER["Accept"]),
                             ("/assets/nothing.js", BROWSER["Accept"]), ("/assets/a/b", BROWSER["Accept"])):
            answer = self.browser.get(path, Accept=accept)
            self.assertEqual(answer.status, 404, (path, accept))
            self.assertIn("message", answer.json, path)
            self.assertEqual(answer.headers["Cache-Control"], "no-store")

    def test_methods(self):
        whole = self.browser.get("/")
        head = self.browser.ask("HEAD", "/", **{name.replace("-", "_"): value for name, value in BROWSER.items()})
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertEqual(head.headers["Content-Length"], str(len(whole.body)))
        for path in ("/", "/assets/x.js"):
            answer = self.browser.ask("POST", path, {}, Accept="text/html")
            self.assertEqual(answer.status, 405)
            self.assertEqual(answer.headers["Allow"], "GET, HEAD, OPTIONS")
        self.assertEqual(self.browser.ask("POST", "/experiments/1", {}, Accept="text/html").status, 404)

    @unittest.skipUnless(BUILT_IN, "this master is built without its page")
    def test_built_in(self):
        """Browsers keep scripts and styles for a year and ask for the index again each time."""
        index = self.browser.get("/")
        self.assertEqual(index.headers["Content-Encoding"], "gzip")
        self.assertEqual(index.headers["Cache-Control"], "no-cache")
        self.assertIn("script-src 'self'", index.headers["Content-Security-Policy"])
        self.assertEqual(self.browser.get("/", **{"If-None-Match": index.headers["ETag"]}).status, 304)
        self.assertEqual(self.browser.get("/", **{"If-None-Match": f'"x", {index.headers["ETag"]}'}).body, b"")
        self.assertEqual(self.browser.get("/", **{"If-None-Match": '"x"'}).text, index.text)
        for encoding in (None, "identity", "br", "gzip;q=0"):
            plain = self.browser.get("/", **{"Accept-Encoding": encoding or ""})
            self.assertNotIn("Content-Encoding", plain.headers)
            self.assertEqual(plain.body.decode(), index.text)
        assets = re.findall(r'(?:src|href)="(/assets/[^"]+)"', index.text)
        self.assertTrue([name for name in assets if name.endswith(".js")], index.text)
        self.assertNotRegex(index.text, r"<script(?![^>]* src=)|<style|https?://")
        for name in assets:
            answer = self.browser.get(name)
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.headers["Cache-Control"], "public, max-age=31536000, immutable")
            self.assertEqual(self.browser.get(name, **{"If-None-Match": answer.headers["ETag"]}).status, 304)
            if name.endswith(".js"):
                self.assertEqual(answer.headers["Content-Type"], "text/javascript; charset=utf-8")

    @unittest.skipIf(BUILT_IN, "this master has its page")
    def test_built_without(self):
        page = self.browser.get("/").text
        for part in ("packaging/setup", "npm", "/api/v1/openapi.json"):
            self.assertIn(part, page)

    def test_folder(self):
        """--webui-dir serves the current files of the folder, and nothing else."""
        folder = pathlib.Path("page").resolve()
        (folder / "assets" / "below").mkdir(parents=True)
        (folder / "index.html").write_text("<p>one")
        (folder / "assets" / "a.css").write_text("p{}")
        (folder / "assets" / "below" / "b.css").write_text("secret")
        (folder / "assets" / ".hidden").write_text("secret")
        (folder.parent / "outside.css").write_text("secret")
        (folder / "assets" / "link.css").symlink_to("../../outside.css")
        (folder / "assets" / "folder.css").symlink_to("../..")
        os.mkfifo(folder / "assets" / "pipe.css")
        with Cluster("folder", slots=(), master_flags=("--webui-dir", folder)) as cluster:
            browser = Browser(cluster.port)
            index = browser.get("/experiments/1")
            self.assert_page(index)
            self.assertEqual(index.text, "<p>one")
            self.assertEqual(browser.get("/", **{"If-None-Match": index.headers["ETag"]}).status, 304)
            (folder / "index.html").write_text("<p>two")
            self.assertEqual(browser.get("/", **{"If-None-Match": index.headers["ETag"]}).text, "<p>two")
            style = browser.get("/assets/a.css")
            self.assertEqual((style.text, style.headers["Content-Type"]), ("p{}", "text/css; charset=utf-8"))
            for name in ("nothing.css", "link.css", "folder.css", "folder.css%2foutside.css", "pipe.css", ".hidden", "below",
                         "below%2fb.css", "..%2findex.html", "..%2f..%2foutside.css", "%2fetc%2fpasswd", ".", "..", "",
                         "../../outside.css", "%2e%2e/%2e%2e/outside.css", "a.css/", "a.css%00"):
                answer = browser.get(f"/assets/{name}")
                self.assertNotIn(b"secret", answer.body, name)
                self.assertIn(answer.status, (400, 404) if name != "a.css/" else (200, 404), name)
            (folder / "index.html").unlink()
            self.assertIn("index.html", browser.get("/").json["message"])

    def test_missing_folder(self):
        with self.assertRaisesRegex(AssertionError, "--webui-dir: there is no folder /nothing/here"):
            Cluster("none", slots=(), master_flags=("--webui-dir", "/nothing/here")).start_master()

    # the session

    def test_sign_in(self):
        answer = self.browser.sign_in()
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual((answer.json["token"], answer.json["user"]["username"]), ("", "determined"))
        value, *attributes = answer.headers["Set-Cookie"].split("; ")
        self.assertRegex(value, r"^muster_session=[0-9a-f]{64}$")
        self.assertEqual(set(attributes), {"Path=/", f"Max-Age={30 * 86400}", "HttpOnly", "SameSite=Strict"})
        self.assertEqual(self.browser.get("/api/v1/me").json["user"]["username"], "determined")
        self.assertEqual(self.browser.ask("POST", "/api/v1/users/setting", {"settings": []}).status, 200)
        self.assertEqual(self.browser.get("/api/v1/master/config").status, 403)  # administrators only

    def test_wrong_password(self):
        answer = self.browser.ask("POST", LOGIN, {"username": "determined", "password": "no", "isHashed": False})
        self.assertEqual(answer.status, 401)
        self.assertNotIn("Set-Cookie", answer.headers)

    def test_origin(self):
        """A request that changes something must come from a page of this master or carry a token.
        """
        self.browser.sign_in()
        host, path = self.browser.host, "/api/v1/users/setting"

        def change(**headers):
            return self.browser.ask("POST", path, {"settings": []}, **headers).status

        self.assertEqual(change(), 200)
        self.assertEqual(change(Origin=f"https://{host}"), 200)  # a proxy terminates https for the master
        self.assertEqual(change(Origin=None, Sec_Fetch_Site="same-origin"), 200)
        for origin in ("http://evil.example", "null", "", f"http://{host}.evil.example", f"http://{host}1",
                       f"http://evil.example@{host}", f"{host}", f"http://{host}/", "http://127.0.0.1", f"ftp://{host}"):
            self.assertEqual(change(Origin=origin, Sec_Fetch_Site="same-origin"), 403, origin)
        for site in (None, "same-site", "cross-site", "none", ""):
            self.assertEqual(change(Origin=None, Sec_Fetch_Site=site), 403, site)
        for method in ("POST", "PATCH", "DELETE"):
            answer = self.browser.ask(method, "/api/v1/experiments/1" + ("/pause" if method == "POST" else ""), {},
                                      Origin="http://evil.example")
            self.assertEqual(answer.status, 403, method)
        # Another site cannot sign a user in to the other site's account either.
        for headers in ({"Origin": "http://evil.example"}, {"Origin": None}):
            answer = self.browser.ask("POST", LOGIN, {"username": "determined", "password": PASSWORD}, **headers)
            self.assertEqual((answer.status, answer.headers["Set-Cookie"]), (403, None))

    def test_other_sites_cannot_read(self):
        """The headers forbid other sites to read, frame or cache any answer."""
        self.browser.sign_in()
        for path in ("/api/v1/me", "/api/v1/nothing", "/info", "/",
                     "/resources/allocation/raw?timestampAfter=2026-01-01T00:00:00Z&timestampBefore=2026-01-02T00:00:00Z"):
            answer = self.browser.get(path, Origin="http://evil.example")
            self.assertEqual(answer.headers["Cross-Origin-Resource-Policy"], "same-origin", path)
            self.assertIn(answer.headers["Cache-Control"], ("no-store", "no-cache") if path == "/" else ("no-store",), path)
            self.assertEqual([name for name in answer.headers if name.lower().startswith("access-control")], [], path)
        asked = self.browser.ask("OPTIONS", "/api/v1/me", Origin="http://evil.example", Access_Control_Request_Method="POST")
        self.assertEqual([name for name in asked.headers if name.lower().startswith("access-control")], [])

    def test_behind_https(self):
        """A cookie that was set over https is only sent over https, whichever proxy stands before
        the master."""
        self.browser.origin = f"https://{self.browser.host}"
        self.assertTrue(self.browser.sign_in().headers["Set-Cookie"].endswith("; Secure"))

    def test_request_smuggling(self):
        """A message that a proxy could take for two requests and the master for one, or the other
        way round, is refused."""
        host = f"Host: {self.browser.host}\r\n"
        hidden = f"GET /info HTTP/1.1\r\n{host}\r\n"

        def ask(head, body):
            with socket.create_connection(("127.0.0.1", self.cluster.port), timeout=30) as wire:
                wire.sendall(f"POST /api/v1/auth/login HTTP/1.1\r\n{host}{head}\r\n{body}".encode())
                wire.shutdown(socket.SHUT_WR)
                got = b""
                try:
                    while part := wire.recv(65536):
                        got += part
                except ConnectionResetError:
                    pass  # the connection was closed with our bytes unread
                return got

        self.assertEqual(ask("Content-Length: 2\r\n", "{}" + hidden).count(b"HTTP/1.1 "), 2)  # two unambiguous requests
        self.assertEqual(ask("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n" + hidden).count(b"HTTP/1.1 "), 2)
        for head in ("Content-Length: 2\r\nContent-Length: 2\r\n", f"Content-Length: 2\r\nContent-Length: {2 + len(hidden)}\r\n",
                     "Content-Length: 2, 2\r\n", "Content-Length: +2\r\n", "Content-Length : 2\r\n", "Content-Length:\r\n 2\r\n",
                     "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
                     "Transfer-Encoding: xchunked\r\nContent-Length: 2\r\n", "Transfer-Encoding: identity\r\n",
                     "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                     "Transfer-Encoding : chunked\r\nContent-Length: 2\r\n", "Transfer-Encoding:\r\n chunked\r\nContent-Length: 2\r\n",
                     "X: a\rContent-Length: 9\r\nContent-Length: 2\r\n", "X: a\r\n Content-Length: 9\r\nContent-Length: 2\r\n",
                     "Host: evil.example\r\nContent-Length: 2\r\n"):
            got = ask(head, "{}" + hidden)
            self.assertNotIn(b"cluster_id", got, head)
            self.assertTrue(got.startswith(b"HTTP/1.1 400 ") or not got, head)

    def test_token_wins(self):
        """A cookie counts only if the request names its caller in no other way."""
        self.browser.sign_in("admin")
        token = Browser(self.cluster.port).ask("POST", "/api/v1/auth/login", {"username": "determined", "password": PASSWORD})
        self.assertNotIn("Set-Cookie", token.headers)
        bearer = f"Bearer {token.json['token']}"
        me = self.browser.get("/api/v1/me", Authorization=bearer)
        self.assertEqual(me.json["user"]["username"], "determined")
        self.assertEqual(self.browser.ask("POST", "/api/v1/users/setting", {"settings": []}, Origin=None,
                                          Authorization=bearer).status, 200)
        for wrong in ("Bearer " + "0" * 64, "Basic YWRtaW46YWRtaW4=", ""):
            self.assertEqual(self.browser.get("/api/v1/me", Authorization=wrong).status, 401, wrong)
        self.assertEqual(self.browser.get("/api/v1/me", **{"Grpc-Metadata-x-allocation-token": "Bearer x"}).status, 403)

    def test_strange_cookies(self):
        self.browser.sign_in()
        good = self.browser.cookie
        agent = (self.cluster.folder / "master" / "agent.token").read_text().strip()
        for cookie, status in ((good, 200), (f"a=b; {good}; c=d", 200), (f"{good}; {good}", 200),
                               (good.replace("=", '="') + '"', 200), (good[:-1], 401), (good + "0", 401),
                               (f"{good}; muster_session={'0' * 64}", 401), (f"x{good}", 401), ("muster_session", 401),
                               ("muster_session=", 401), (f"muster_session={'0' * 64}", 401), (";;;=;", 401),
                               (f"muster_session={agent}", 403)):
            self.assertEqual(self.browser.get("/api/v1/me", Cookie=cookie).status, status, cookie)
        # Pages cannot use the calls of agents and tasks.
        self.assertEqual(self.browser.ask("POST", "/api/v1/agents/x/sync", {}).status, 401)

    def test_logout(self):
        self.browser.sign_in()
        self.assertEqual(self.browser.ask("POST", "/api/v1/auth/logout", {}, Origin="http://evil.example").status, 403)
        answer = self.browser.ask("POST", "/api/v1/auth/logout", {})
        self.assertEqual(answer.status, 200)
        self.assertRegex(answer.headers["Set-Cookie"], r"^muster_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict$")
        self.assertEqual(self.browser.get("/api/v1/me").status, 401)

    def test_sessions_end(self):
        """Sessions end when their password changes or their user is deactivated; reactivation does
        not restore them."""
        admin, other = Browser(self.cluster.port), Browser(self.cluster.port)
        admin.sign_in("admin")
        admin.ask("POST", "/api/v1/users", {"user": {"username": "leaver", "active": True}, "password": PASSWORD})

        def signed_in():
            return [browser.get("/api/v1/me").status for browser in (self.browser, other)]

        self.browser.cookie = "muster_session=" + "a" * 64  # another user's password
        path = f"/api/v1/users/{self.browser.sign_in('leaver').json['user']['id']}"
        self.assertNotEqual(self.browser.cookie, "muster_session=" + "a" * 64)
        other.sign_in("leaver")
        self.assertEqual(signed_in(), [200, 200])
        self.assertEqual(self.browser.ask("PATCH", path, {"password": PASSWORD}).status, 200)
        self.assertEqual(signed_in(), [200, 401])
        admin.ask("PATCH", path, {"password": PASSWORD})
        self.assertEqual(signed_in(), [401, 401])
        self.browser.sign_in("leaver")
        admin.ask("PATCH", path, {"active": False})
        self.assertEqual(self.browser.get("/api/v1/me").status, 401)
        self.assertEqual(other.sign_in("leaver").status, 401)
        admin.ask("PATCH", path, {"active": True})
        self.assertEqual(signed_in(), [401, 401])
        self.assertEqual(other.sign_in("leaver").status, 200)

    def test_events(self):
        """An EventSource sends only the cookie; the stream ends with the session."""
        self.browser.sign_in()
        connection = self.browser.connect()
        connection.request("GET", "/api/v1/events", headers={"Accept": "text/event-stream", "Cookie": self.browser.cookie})
        response = connection.getresponse()
        self.assertEqual((response.status, response.headers["Content-Type"]), (200, "text/event-stream"))
        self.browser.ask("POST", "/api/v1/auth/logout", {})
        self.assertIn(b"event: end\n", response.read())
        connection.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
