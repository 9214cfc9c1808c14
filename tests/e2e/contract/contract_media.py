"""Images, histograms, tables and texts of trials: calls of ours, for the package `muster`."""

import hashlib
import http.client
import json
import struct
import zlib

from cluster import wait_for
from contract import Contract

USER_DOWNLOADS = 32  # LIMIT_MEDIA_DOWNLOADS_USER


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


PNG = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
       + chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b""))


class Media(Contract):
    def setUp(self):
        self.experiment, self.task, self.caller = self.running()
        self.trial = self.task["trialId"]
        cluster = self.task["env"]["DET_CLUSTER_ID"]
        self.folder = self.storage / "media" / cluster / str(self.experiment)

    def write(self, content):
        digest = hashlib.sha256(content).hexdigest()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / digest).write_bytes(content)
        return digest

    def item(self, step, name, kind, content):
        return {"step": step, "name": name, "type": kind, "digest": self.write(content), "size": len(content),
                "format": {"image": "png", "text": "text"}.get(kind, "json"), "time": 1_700_000_000_000_000 + step}

    def report(self, *items, expect=200):
        body = {"trialRunId": 1, "items": list(items)}
        return self.caller.call("POST", f"/trials/{self.trial}/media", body, expect=expect)

    def content(self, digest, token=None):
        """(status, headers, bytes) of GET media/DIGEST."""
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port, timeout=20)
        connection.request("GET", f"/api/v1/trials/{self.trial}/media/{digest}",
                           headers={"Authorization": f"Bearer {token or self.user.token}"})
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def listed(self, **query):
        items = self.user.get(f"/trials/{self.trial}/media", "media pagination:Pagination", **query)["media"]
        return [(item["name"], item["step"]) for item in items]

    def test_lists(self):
        steps = [self.item(step, name, "text", b"%d" % step) for name in ("b", "a/1") for step in (30, 10, 20)]
        self.report(*steps)
        self.report(self.item(20, "cat", "image", PNG))
        self.assertEqual(self.listed(), [("a/1", 10), ("a/1", 20), ("a/1", 30), ("b", 10), ("b", 20), ("b", 30),
                                         ("cat", 20)])
        self.assertEqual(self.listed(name="b"), [("b", 10), ("b", 20), ("b", 30)])
        self.assertEqual(self.listed(type="image"), [("cat", 20)])
        self.assertEqual(self.listed(step=20), [("a/1", 20), ("b", 20), ("cat", 20)])
        self.assertEqual(self.listed(**{"from": 11, "to": 29, "name": "b"}), [("b", 20)])
        self.assertEqual(self.listed(offset=1, limit=2), [("a/1", 20), ("a/1", 30)])
        self.assertEqual(self.listed(name="nothing"), [])
        first = self.user.get(f"/trials/{self.trial}/media", "media pagination:Pagination", limit=1)
        self.assertEqual(first["pagination"]["total"], 7)
        self.assertEqual(first["media"], [{
            "step": 10, "name": "a/1", "type": "text", "format": "text", "size": 2, "trialRunId": 1,
            "digest": hashlib.sha256(b"10").hexdigest(), "time": "2023-11-14T22:13:20.000010Z"}])
        names = self.user.get(f"/trials/{self.trial}/media/names", "names")["names"]
        self.assertEqual(names, [
            {"name": "a/1", "type": "text", "count": 3, "firstStep": 10, "lastStep": 30},
            {"name": "b", "type": "text", "count": 3, "firstStep": 10, "lastStep": 30},
            {"name": "cat", "type": "image", "count": 1, "firstStep": 20, "lastStep": 20}])
        refused = self.user.call("GET", f"/trials/{self.trial}/media?type=img", expect=400)
        self.assertIn("none of image, histogram, table and text", json.dumps(refused))
        self.user.call("GET", f"/trials/{self.trial + 1000}/media", expect=404)
        self.user.call("GET", f"/trials/{self.trial + 1000}/media/names", expect=404)

    def test_content(self):
        table = json.dumps({"columns": ["a"], "rows": [[1]]}).encode()
        script = b"<script>alert(1)</script>"
        items = [self.item(1, "cat", "image", PNG), self.item(1, "rows", "table", table),
                 self.item(1, "words", "text", script), self.item(1, "empty", "text", b"")]
        self.report(*items)
        for item, content, kind in zip(items, (PNG, table, script, b""), (
                "image/png", "application/json", "text/plain; charset=utf-8", "text/plain; charset=utf-8")):
            status, headers, body = self.content(item["digest"])
            self.assertEqual((status, headers["Content-Type"], body), (200, kind, content))
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Content-Security-Policy"], "default-src 'none'; sandbox")
            self.assertEqual(headers["Cross-Origin-Resource-Policy"], "same-origin")
            self.assertTrue(headers["Content-Disposition"].startswith("inline; filename="))
        self.assertEqual(self.content(items[0]["digest"], self.caller.token)[2], PNG)  # the task itself
        self.assertEqual(self.content("0" * 64)[0], 404)
        self.assertEqual(self.content("..%2f..%2fmaster.token")[0], 404)

    def test_contents_that_are_not_read(self):
        """They take the places of their user, not those of others."""
        large = self.item(1, "large", "text", bytes(12 << 20))  # more than the buffers of a connection hold
        small = self.item(1, "small", "text", b"abc")
        self.report(large, small)
        unread = [http.client.HTTPConnection("127.0.0.1", self.cluster.port, timeout=20) for _ in range(USER_DOWNLOADS)]
        for connection in unread:
            connection.request("GET", f"/api/v1/trials/{self.trial}/media/{large['digest']}",
                               headers={"Authorization": f"Bearer {self.user.token}"})
        self.assertEqual([connection.getresponse().status for connection in unread], USER_DOWNLOADS * [200])
        self.assertEqual(self.content(small["digest"])[0], 429)
        self.assertEqual(self.content(small["digest"], self.admin.token)[0], 200)
        for connection in unread:
            connection.close()
        wait_for("a place", lambda: self.content(small["digest"])[0] == 200, 30)

    def test_content_that_is_no_image(self):
        item = self.item(1, "cat", "image", b"<svg onload='alert(1)'/>")
        self.report(item)
        status, headers, body = self.content(item["digest"])
        self.assertEqual((status, headers["Content-Type"]), (404, "application/json"))
        self.assertIn(b"no PNG file", body)

    def test_content_that_changed(self):
        item = self.item(1, "words", "text", b"abc")
        self.report(item)
        (self.folder / item["digest"]).write_bytes(b"abcd")
        self.assertEqual(self.content(item["digest"])[0], 404)
        (self.folder / item["digest"]).unlink()
        self.assertEqual(self.content(item["digest"])[0], 404)
        self.report(item, expect=400)

    def test_content_with_another_digest(self):
        """The size is right, the bytes are not; large contents are compared while they are sent."""
        for step, content in enumerate((b"abc", b"x" * (1 << 20), b"x" * (3 << 20))):
            item = self.item(step, "words", "text", content)
            self.report(item)
            self.assertEqual(self.content(item["digest"])[2], content)
            path = self.folder / item["digest"]
            path.write_bytes(content[:-1] + b"!")
            try:
                status, _, body = self.content(item["digest"])
            except (http.client.IncompleteRead, ConnectionError):
                self.assertGreater(len(content), 1 << 20)
            else:
                self.assertLessEqual(len(content), 1 << 20)
                self.assertEqual(status, 404)
                self.assertIn(b"has another content: its SHA-256 is", body)
            self.report(item, expect=400)
        self.assertIn("has another content", self.cluster.master.tail(200))

    def test_refused(self):
        good = self.item(1, "a", "text", b"abc")
        for change in ({"type": "video"}, {"step": -1}, {"step": "x"}, {"name": ""}, {"digest": "abc"}, {"size": 4},
                       {"format": "png"}):
            self.report({**good, **change}, expect=400)
        self.report({**good, "size": (16 << 20) + 1}, expect=413)
        self.assertEqual(self.listed(), [])
        other = self.running()[1]["trialId"]
        self.caller.call("POST", f"/trials/{other}/media", {"items": [good]}, expect=404)
