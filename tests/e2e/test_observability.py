"""Metrics, probes, the log of slow requests, and alerts by webhook and e-mail; backups that are overdue or restored."""

import contextlib
import json
import pathlib
import re
import socketserver
import sqlite3
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

from cluster import BIN, SOURCE, Cluster, wait_for
from webhook_receiver import WebhookReceiver

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
FAILING = """\
name: failing
entrypoint: sh task.sh
max_restarts: 1
searcher: {name: single, metric: loss}
resources: {slots_per_trial: 1}
"""
TASK = """\
echo one line
while [ ! -e %s ]; do sleep 0.1; done
exit 3
"""


def parse(text):
    """Returns {family: type} and {(name, labels): value} of the text format; raises on anything that it forbids."""
    families, samples, current = {}, {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in families, f"{current} comes twice"
            assert len(line.split(" ", 3)) == 4, line
            families[current] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kind in ("counter", "gauge", "histogram"), line
            families[name] = kind
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            name, labels, value = found.groups()
            suffixes = ("_bucket", "_sum", "_count") if families[current] == "histogram" else ("",)
            assert name in [current + suffix for suffix in suffixes], f"{name} within {current}"
            key = name, frozenset(LABEL.findall(labels or ""))
            assert key not in samples, f"{line} comes twice"
            samples[key] = float(value)
    assert text.endswith("\n")
    return families, samples


class MailServer:
    """A small SMTP server. It refuses the first `fails` e-mails for now, and people whose address begins with "gone"."""

    def __init__(self, fails=0):
        self.mails, self.fails, self.attempts, self.said = [], fails, 0, []
        sink = self

        class Handler(socketserver.StreamRequestHandler):
            def say(self, text):
                self.wfile.write(text.encode() + b"\r\n")

            def handle(self):
                people = []
                self.say("220 test")
                for raw in self.rfile:
                    words = raw.decode().strip()
                    verb = words.upper()
                    sink.said.append(verb)
                    if verb.startswith("MAIL"):
                        people.clear()
                    if verb.startswith("RCPT TO:<GONE"):
                        self.say("550 nobody has this address")
                        continue
                    if verb.startswith("RCPT"):
                        people.append(re.search("<(.*)>", words)[1])
                    if verb == "DATA":
                        self.say("354 go on")
                        self.take(people)
                    elif verb == "QUIT":
                        return self.say("221 bye")
                    else:
                        self.say("250 ok")

            def take(self, people):
                lines = []
                for raw in self.rfile:
                    if raw == b".\r\n":
                        break
                    assert raw.endswith(b"\r\n")
                    lines.append(raw[:-2].removeprefix(b".").decode())
                sink.attempts += 1
                if sink.attempts <= sink.fails:
                    return self.say("451 later")
                sink.mails.append((people, "\n".join(lines)))
                self.say("250 taken")

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.url = f"smtp://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def subjects(self):
        return [re.search("^Subject: (.*)$", text, re.M)[1] for _, text in self.mails]


class Monitored(Cluster):
    def get(self, path, token=None, headers=None):
        """Returns (status, headers, text)."""
        request = urllib.request.Request(self.url + path, headers=headers or {})
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.headers, refusal.read().decode()

    def metrics(self):
        status, _, text = self.get("/metrics")
        assert status == 200, text
        return parse(text)

    def value(self, name, **labels):
        """Returns the value of a sample; None: there is none."""
        return self.metrics()[1].get((name, frozenset(labels.items())))

    def token_of(self, user):
        body = json.dumps({"username": user, "password": (self.folder / "password").read_text().strip()})
        with urllib.request.urlopen(f"{self.url}/api/v1/auth/login", body.encode(), timeout=30) as answer:
            return json.load(answer)["token"]

    def sign_in_as_admin(self):
        self.muster("login", "admin", "--password-file", self.folder / "password")

    def alerts(self):
        return [(row["kind"], row["subject"], bool(row["ended"])) for row in self.rows("master", "alerts")]


@contextlib.contextmanager
def write_lock(cluster):
    """Holds the write lock of the store, so that its commits wait (for 30 seconds at most)."""
    db = sqlite3.connect(cluster.folder / "master" / "muster.db", isolation_level=None, check_same_thread=False)
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        db.execute("ROLLBACK")
        db.close()


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Monitored("metrics", slots=(2,), master_flags=("--slow-request", "5", "--store-slow", "300",
                                                                     "--alert-calm", "1"))
        cls.enterClassContext(cls.cluster)
        cls.cluster.sign_in_as_admin()

    def test_text_format(self):
        status, headers, text = self.cluster.get("/metrics")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        families, samples = parse(text)
        for family, kind in families.items():
            self.assertEqual(kind == "counter", family.endswith("_total"), family)
        counts = [key for key in samples if key[0].endswith("_duration_seconds_count")]
        self.assertGreaterEqual(len(counts), 3)
        for name, labels in counts:
            base = name.removesuffix("_count")
            buckets = [(dict(l)["le"], value) for (n, l), value in samples.items()
                       if n == base + "_bucket" and {pair for pair in l if pair[0] != "le"} == labels]
            self.assertEqual([value for _, value in buckets], sorted(value for _, value in buckets))
            self.assertEqual(buckets[-1], ("+Inf", samples[name, labels]))
            bounds = [float(le) for le, _ in buckets]
            self.assertEqual(bounds, sorted(set(bounds)))

    def test_dashboard_and_documents_name_what_is_served(self):
        families, _ = self.cluster.metrics()
        text = (SOURCE / "packaging/monitoring/grafana.json").read_text()
        json.loads(text)
        histograms = {family + suffix for family, kind in families.items() if kind == "histogram"
                      for suffix in ("_bucket", "_sum", "_count")}
        used = set(re.findall(r"\b((?:muster|process)_[a-z_]+)\b", "".join(re.findall(r'"(?:expr|query)": (".*")', text))))
        self.assertLessEqual(used, set(families) | histograms)
        self.assertEqual({re.sub("_bucket$", "", name) for name in used}, set(families))
        documented = set(re.findall(r"`((?:muster|process)_[a-z_]+)`", (SOURCE / "docs/operating.md").read_text()))
        self.assertEqual(documented, set(families))

    def test_numbers_follow_the_cluster(self):
        cluster, data, leave = self.cluster, pathlib.Path("task"), pathlib.Path("leave").resolve()
        data.mkdir()
        (data / "task.sh").write_text(TASK % leave)
        pathlib.Path("failing.yaml").write_text(FAILING)
        wait_for("two free slots", lambda: cluster.value("muster_slots", pool="default", state="free") == 2)
        lines, restarts = cluster.value("muster_log_lines_total"), cluster.value("muster_trial_restarts_total")
        experiment = cluster.create(pathlib.Path("failing.yaml"), data)
        wait_for("an allocated slot", lambda: cluster.value("muster_slots", pool="default", state="allocated") == 1)
        wait_for("a running job", lambda: cluster.value("muster_jobs", pool="default", state="running") == 1)
        self.assertEqual(cluster.value("muster_slots", pool="default", state="free"), 1)
        self.assertEqual(cluster.value("muster_agents", pool="default", state="connected"), 1)
        leave.touch()
        cluster.wait(experiment, "ERROR")
        wait_for("the free slot", lambda: cluster.value("muster_slots", pool="default", state="free") == 2)
        self.assertEqual(cluster.value("muster_trial_restarts_total"), restarts + 1)
        self.assertGreater(cluster.value("muster_log_lines_total"), lines + 1)
        self.assertGreater(cluster.value("muster_scheduler_pass_duration_seconds_count"), 1)
        self.assertGreater(cluster.value("muster_store_commit_duration_seconds_count"), 1)
        self.assertGreater(cluster.value("muster_store_size_bytes", file="store"), 100_000)
        self.assertGreater(cluster.value("process_resident_memory_bytes"), 1 << 20)
        age = time.time() - cluster.value("process_start_time_seconds")
        self.assertTrue(0 < age < 3600, age)

    def test_requests_by_route_and_status(self):
        def count(route, code):
            return self.cluster.value("muster_http_request_duration_seconds_count", method="GET", route=route, code=code) or 0
        route = "/api/v1/experiments/{experimentId}"
        before, exact = count(route, "4xx"), self.cluster.value("muster_http_requests_total", code="404") or 0
        token = self.cluster.token_of("determined")
        for number in (123456, 123457):
            self.assertEqual(self.cluster.get(f"/api/v1/experiments/{number}", token)[0], 404)
        self.assertEqual(count(route, "4xx"), before + 2)
        self.assertEqual(self.cluster.value("muster_http_requests_total", code="404"), exact + 2)
        self.assertEqual(self.cluster.get("/api/v1/no/such/call", token)[0], 404)
        self.assertGreaterEqual(self.cluster.value("muster_http_request_duration_seconds_count", method="none",
                                                   route="none", code="4xx"), 1)

    def test_who_may_read(self):
        cluster = self.cluster
        own = (cluster.folder / "master" / "metrics.token").read_text().strip()
        agent = (cluster.folder / "master" / "agent.token").read_text().strip()
        self.assertEqual((cluster.folder / "master" / "metrics.token").stat().st_mode & 0o777, 0o600)
        user, admin = cluster.token_of("determined"), cluster.token_of("admin")
        wanted = {None: 200, own: 200, admin: 200, user: 403, agent: 403, "0" * 64: 401, own[:-1]: 401}
        for token, status in wanted.items():
            self.assertEqual(cluster.get("/metrics", token)[0], status, token)
        # A request that a proxy on this machine passes on comes from elsewhere.
        for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
            self.assertEqual(cluster.get("/metrics", headers={header: "192.0.2.1"})[0], 401, header)
            self.assertEqual(cluster.get("/metrics", own, {header: "192.0.2.1"})[0], 200, header)
        for path in ("/api/v1/master/config", "/api/v1/alerts", "/api/v1/experiments"):
            self.assertEqual(cluster.get(path, own)[0], 401, path)
        for path in ("/api/v1/alerts", "/api/v1/master/config"):
            self.assertEqual(cluster.get(path)[0], 401, path)
            self.assertEqual(cluster.get(path, user)[0], 403, path)
        for path in ("/healthz", "/readyz"):
            self.assertEqual(cluster.get(path)[::2], (200, "ok\n"))
            self.assertEqual(cluster.get(path, "0" * 64, {"Via": "x"})[::2], (200, "ok\n"))

    def test_slow_requests_are_logged(self):
        def lines():
            return [line for line in self.cluster.master.tail(10000).splitlines() if 'msg="slow request"' in line]
        counted = self.cluster.value("muster_slow_requests_total")
        self.cluster.token_of("determined")  # hashing a password takes long
        line = wait_for("the line", lambda: [l for l in lines() if "/auth/login" in l])[-1]
        fields = dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line))
        self.assertEqual((fields["method"], fields["route"], fields["status"], fields["user"]),
                         ("POST", "/api/v1/auth/login", "200", '"determined"'))
        took, working, waiting = (int(fields[name]) for name in ("took_ms", "working_ms", "waiting_ms"))
        self.assertGreaterEqual(took, 5)
        self.assertGreaterEqual(working, 1)
        self.assertLessEqual(abs(took - working - waiting), 2)
        self.assertGreater(self.cluster.value("muster_slow_requests_total"), counted)

    def test_a_store_that_hangs(self):
        cluster = self.cluster
        self.assertEqual(cluster.get("/readyz")[0], 200)
        with write_lock(cluster):
            threading.Thread(target=cluster.run, args=("master", "message", "set", "hello")).start()
            wait_for("503", lambda: cluster.get("/readyz")[0] == 503, 25)
            _, headers, text = cluster.get("/readyz")
            self.assertIn("the store has not finished a commit for", text)
            self.assertTrue(headers["Retry-After"])
            self.assertEqual(cluster.get("/healthz")[0], 200)
            self.assertEqual(cluster.get("/metrics")[0], 200)
        wait_for("200", lambda: cluster.get("/readyz")[0] == 200)
        wait_for("the alert", lambda: ("STORE_SLOW", "") in [alert[:2] for alert in cluster.alerts()])


class Access(unittest.TestCase):
    def statuses(self, *flags):
        with Monitored("access-" + flags[-1], slots=(), master_flags=flags) as cluster:
            own = (cluster.folder / "master" / "metrics.token").read_text().strip()
            return (cluster.get("/metrics")[0], cluster.get("/metrics", headers={"Via": "x"})[0], cluster.get("/metrics", own)[0])

    def test_policies(self):
        self.assertEqual(self.statuses("--metrics", "token"), (401, 401, 200))
        self.assertEqual(self.statuses("--metrics", "all"), (200, 200, 200))

    def test_bad_flags(self):
        for flags, words in (
                (["--metrics", "some"], "none of loopback, token, all"),
                (["--alert-mail", "a@b"], "--smtp-url"),
                (["--smtp-user", "x"], "--smtp-url"),
                (["--smtp-url", "smtp://x"], "--alert-mail"),
                (["--smtp-url", "http://x", "--alert-mail", "a@b"], "smtp://"),
                (["--smtp-url", "smtp://x", "--alert-mail", "a@b>,c"], "no e-mail address"),
                (["--smtp-url", "smtp://x", "--alert-mail", "a@b", "--smtp-user", "x"], "--smtp-password-file")):
            done = subprocess.run([str(BIN / "muster-master"), "--data-dir", "none", *flags], text=True, capture_output=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertFalse(pathlib.Path("none").exists())


def alerts_of(hook):
    """Returns (kind, subject, state) of each message that the receiver has got."""
    alerts = [event["event_data"]["alert"] for event in hook.payloads()]
    return [(alert["kind"], alert["subject"], alert["state"]) for alert in alerts]


class Alerts(unittest.TestCase):
    def test_a_lost_agent(self):
        hook, mail = WebhookReceiver(), MailServer(fails=1)
        flags = ("--agent-silence", "3", "--agent-reconnect", "2", "--alert-calm", "3", "--cluster-name", "lab",
                 "--smtp-url", mail.url, "--alert-mail", "ann@example.org", "--alert-mail", "bob@example.org")
        with Monitored("alerts", slots=(1, 1), master_flags=flags) as cluster:
            done = cluster.run("webhook", "create", hook.url, "--on", "alert", "--team", "Uncategorized")
            self.assertNotEqual(done.returncode, 0)
            cluster.sign_in_as_admin()
            cluster.muster("webhook", "create", hook.url, "--name", "pager", "--on", "alert")
            self.assertEqual(cluster.rows("webhook", "list")[0]["on"], ["alert"])
            cluster.muster("agent", "disable", "agent-1")
            for agent in cluster.agents:
                agent.kill9()
            wait_for("the webhook", lambda: hook.requests)
            wait_for("the e-mail, at the second attempt", lambda: mail.mails)
            self.assertEqual(alerts_of(hook), [("AGENT_LOST", "agent-0", "BEGAN")])
            event = hook.payloads()[0]
            self.assertEqual((event["event_type"], event["event_data"]["alert"]["cluster"]), ("CLUSTER_ALERT", "lab"))
            people, text = mail.mails[0]
            self.assertEqual(people, ["ann@example.org", "bob@example.org"])
            self.assertIn("\nSubject: [lab] AGENT_LOST agent-0\n", text)
            self.assertIn("agent agent-0 (1 slots, pool default) was lost", text)
            self.assertEqual(cluster.alerts(), [("AGENT_LOST", "agent-0", False)])
            self.assertEqual(cluster.value("muster_alerts_open", kind="AGENT_LOST"), 1)
            self.assertEqual(cluster.value("muster_agents_lost_total"), 2)

            cluster.master.kill9()
            cluster.start_master()  # the trouble lasts, and nobody hears of it again
            asked = cluster.value("muster_alerts_open", kind="AGENT_LOST")
            wait_for("the first count", lambda: cluster.value("muster_alerts_open", kind="AGENT_LOST") == 1)
            cluster.agents[0].start()
            wait_for("the end of the alert", lambda: cluster.alerts() == [("AGENT_LOST", "agent-0", True)])
            wait_for("its webhook", lambda: len(hook.requests) >= 2)
            wait_for("its e-mail", lambda: len(mail.mails) >= 2)
            self.assertIn(asked, (None, 1))
            self.assertEqual(alerts_of(hook), [("AGENT_LOST", "agent-0", "BEGAN"), ("AGENT_LOST", "agent-0", "ENDED")])
            self.assertEqual(mail.subjects(), ["[lab] AGENT_LOST agent-0", "[lab] over: AGENT_LOST agent-0"])

    def test_disk_and_backup(self):
        data = pathlib.Path("disk/master").resolve()
        (data / "backups").mkdir(parents=True)
        (data / "backups" / "muster-20200101T000000Z.db").touch()
        mail = MailServer()
        mailed = ("--smtp-url", mail.url, "--alert-mail", "ann@example.org", "--alert-calm", "1")
        backed = ("--backup-every", "24", "--backup-keep", "2")
        with Monitored("disk", slots=(), master_flags=(*mailed, *backed, "--disk-floor", "99%")) as cluster:
            cluster.sign_in_as_admin()
            began = [("BACKUP_OVERDUE", "", False), ("DISK_FILLING", "data", False)]
            wait_for("both alerts", lambda: sorted(cluster.alerts()) == began)
            wait_for("one e-mail for both", lambda: mail.mails)
            self.assertIn("--backup-every 24): the newest one is 2020-01-01", mail.mails[0][1])
            self.assertIn("fills up", mail.mails[0][1])
            self.assertEqual(cluster.get("/readyz")[0], 200)  # a full disk stops new work, not the master
            cluster.master.stop()
            cluster.master_flags = (*mailed, *backed, "--disk-floor", "0")
            cluster.start_master()
            wait_for("a backup", lambda: cluster.value("muster_backup_newest_timestamp_seconds") > 1.6e9)
            wait_for("the end of both", lambda: [row[2] for row in cluster.alerts()] == [True, True])
            wait_for("the second e-mail", lambda: len(mail.mails) >= 2)
            self.assertEqual(len(mail.mails), 2)
            self.assertIn(", and 1 more", mail.subjects()[1])

    def test_only_old_emails_are_given_up(self):
        mail = MailServer(fails=1)
        flags = ("--smtp-url", mail.url, "--alert-mail", "ann@example.org", "--disk-floor", "0")
        with Monitored("given-up", slots=(), master_flags=flags) as cluster:
            cluster.master.stop()
            now = int(time.time() * 1e6)
            with contextlib.closing(sqlite3.connect(cluster.folder / "master" / "muster.db")) as db, db:
                db.executemany("INSERT INTO mail_outbox (subject, body, created_at) VALUES (?, ?, ?)",
                               [("OLD", "from yesterday", now - 25 * 3600 * 10**6), ("NEW", "from today", now)])
            cluster.start_master()
            wait_for("the e-mail of today", lambda: mail.mails)
            self.assertEqual(mail.subjects(), ["[muster] NEW"])
            self.assertEqual(mail.attempts, 2)
            self.assertNotIn("from yesterday", mail.mails[0][1])
            self.assertIn("an e-mail was given up", cluster.master.tail())

    def test_an_address_that_is_refused(self):
        """The others get the e-mail, once."""
        mail = MailServer()
        flags = ("--smtp-url", mail.url, "--alert-mail", "ann@example.org", "--alert-mail", "gone@example.org",
                 "--alert-mail", "bob@example.org", "--disk-floor", "99%")
        with Monitored("refused", slots=(), master_flags=flags) as cluster:
            wait_for("the e-mail", lambda: mail.mails)
            wait_for("an empty outbox", lambda: cluster.value("muster_outbox_length", to="mail") == 0)
            self.assertEqual([people for people, _ in mail.mails], [["ann@example.org", "bob@example.org"]])
            self.assertIn("RCPT failed: 550", cluster.master.tail())

    def test_a_password_needs_tls(self):
        mail = MailServer()
        secret = pathlib.Path("smtp-password").resolve()
        secret.write_text("confidential\n")
        flags = ("--smtp-url", mail.url, "--alert-mail", "ann@example.org", "--smtp-user", "muster",
                 "--smtp-password-file", secret, "--disk-floor", "99%")
        with Monitored("password", slots=(), master_flags=flags) as cluster:
            wait_for("a refusal", lambda: "an e-mail could not be sent" in cluster.master.tail())
            self.assertIn("EHLO", mail.said[0])
            self.assertFalse([words for words in mail.said if "AUTH" in words or "MAIL" in words])
            self.assertNotIn("confidential", cluster.master.tail())
            config = cluster.get("/api/v1/master/config", cluster.token_of("admin"))[2]
            self.assertIn("ann@example.org", config)
            self.assertNotIn("confidential", config)
            cluster.master.stop()
            secret.write_text("\n")
            with self.assertRaisesRegex(AssertionError, "contains no password"):
                cluster.start_master()

    def test_an_automatic_backup_is_restored(self):
        with Monitored("source", slots=(), master_flags=("--backup-every", "24", "--backup-keep", "1")) as cluster:
            cluster.sign_in_as_admin()
            cluster.muster("team", "create", "kept")
            folder = cluster.folder / "master" / "backups"
            first = wait_for("the first backup", lambda: list(folder.glob("muster-*.db")))[0]
            cluster.master.stop()
            old = folder / "muster-20200101T000000Z.db"
            first.rename(old)  # as if it were old: the next start makes another
            cluster.start_master()
            wait_for("the second backup", lambda: list(folder.glob("muster-*.db")) not in ([], [old]) and not old.exists())
            self.assertEqual(len(list(folder.glob("muster-*.db"))), 1)  # --backup-keep
            backup = next(folder.glob("muster-*.db"))
            cluster.muster("team", "create", "later")
            cluster.master.stop()
            cluster.muster("master", "restore", backup, "--data-dir", cluster.folder / "master")
            cluster.start_master()
            names = {row["name"] for row in cluster.rows("team", "list")}
            self.assertIn("kept", names)
            self.assertNotIn("later", names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
