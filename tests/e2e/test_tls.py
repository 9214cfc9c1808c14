"""Certificates of the master's own authority, enrolment of agents, and clients that verify both."""

import hashlib
import http.client
import json
import os
import pathlib
import secrets
import signal
import socket
import ssl
import subprocess
import time
import unittest
import urllib.error
import urllib.request
import warnings

import trainings
from cluster import BIN, Cluster, Daemon, wait_for
from tls_server import TlsRecorder, make_certificates

EXIT_REFUSED, EXIT_PEER = 4, 6

PROGRAM = """
import json, os, ssl, subprocess, urllib.request
import muster

with muster.init() as run:
    authority = os.environ["DET_MASTER_CERT_FILE"]
    assert os.path.dirname(authority) == os.environ["MUSTER_RUN_DIR"], authority
    context = ssl.create_default_context(cafile=authority)
    path = f"/api/v1/allocations/{os.environ['DET_ALLOCATION_ID']}/signals/preemption?timeout_seconds=0"
    token = {"Grpc-Metadata-x-allocation-token": "Bearer " + os.environ["DET_SESSION_TOKEN"]}
    call = urllib.request.Request(os.environ["DET_MASTER"] + path, headers=token)
    print("answer", json.loads(urllib.request.urlopen(call, context=context).read()), os.environ["DET_MASTER"])
    print("command", subprocess.run(["muster", "whoami"], capture_output=True, text=True).stdout.split())
    for step in run.steps(0, 3):
        run.report(step, loss=1 / step)
    run.validate(3, loss=0.25)
"""


class Api:
    """Calls over TLS that trust the cluster's authority alone."""

    def __init__(self, cluster, token=None):
        self.url, self.token = cluster.url, token
        self.context = ssl.create_default_context(cafile=cluster.folder / "master" / "tls" / "ca.pem")

    def call(self, method, path, body=None):
        """Returns (status, text)."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + "/api/v1" + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=60) as answer:
                return answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def token_of(line):
    return line.rsplit(":", 1)[1]


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=())
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.data = cls.cluster.folder / "master"
        cls.fingerprint = make_certificates(cls.data)
        cls.cluster.start_master()
        cls.cluster.muster("login", "admin", "--password-file", cls.cluster.folder / "password",
                           "--fingerprint", cls.fingerprint)
        cls.anybody = Api(cls.cluster)

    def line(self, *flags):
        return self.cluster.muster("agent", "enroll", "-q", *flags).strip()

    def agent(self, name, *flags):
        """An agent with a work folder of its own, which is not started yet."""
        folder = self.cluster.folder / name
        return Daemon("muster-agent", ["--work-dir", folder, "--slots", 1, "--tasks-as-root", *flags], self.cluster.folder / f"{name}.log")

    def start_enrolled(self, name, *flags, start=True):
        """Enrols an agent; returns its daemon, whose later starts need no line."""
        line = self.line(*flags)
        done = subprocess.run([BIN / "muster-agent", "--work-dir", self.cluster.folder / name, "--id", name,
                               "--enroll-only", "--enroll-file", "-"], input=line, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        agent = self.agent(name)
        if start:
            agent.start()
            self.addCleanup(agent.stop)
            self.await_agent(name)
        return agent

    def await_agent(self, name):
        wait_for(f"agent {name}", lambda: [row for row in self.cluster.rows("agent", "list")
                                           if row["id"] == name and row["connected"]])

    def run_command(self, pool, *arguments):
        """Starts a command in a pool; returns the id of its task."""
        task = json.loads(self.cluster.muster("command", "run", "--detach", "-o", "json", "--pool", pool, *arguments))["id"]
        self.addCleanup(self.cluster.run, "command", "kill", task)
        return task

    def enrol_fails(self, folder, line, code, words, *flags):
        done = subprocess.run([BIN / "muster-agent", "--work-dir", self.cluster.folder / folder, "--enroll-only",
                               "--enroll-file", "-", *flags], input=line, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertNotIn(token_of(line), done.stderr)
        self.assertFalse((self.cluster.folder / folder / "credential.json").exists())

    def credential(self, name):
        return json.loads((self.cluster.folder / name / "credential.json").read_text())["token"]

    # the master

    def test_the_master_serves_https(self):
        self.assertRegex(self.cluster.url, r"^https://127\.0\.0\.1:\d+$")
        self.assertFalse((self.data / "agent.token").exists(), "agents get credentials of their own")
        self.assertEqual(self.anybody.call("GET", "/master")[0], 200)
        with self.assertRaises(ssl.SSLCertVerificationError):
            with socket.create_connection(("127.0.0.1", self.cluster.port)) as plain:
                ssl.create_default_context().wrap_socket(plain, server_hostname="127.0.0.1")
        with socket.create_connection(("127.0.0.1", self.cluster.port)) as plain:
            plain.sendall(b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n")
            plain.settimeout(60)
            self.assertNotIn(b"200", plain.recv(4096))

    def test_versions_of_tls(self):
        def connect(version):
            context = ssl.create_default_context(cafile=self.data / "tls" / "ca.pem")
            context.set_ciphers("ALL:@SECLEVEL=0")  # so that it is not this client that refuses
            context.minimum_version = context.maximum_version = version
            with socket.create_connection(("127.0.0.1", self.cluster.port)) as plain:
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as peer:
                    return peer.version()

        self.assertEqual(connect(ssl.TLSVersion.TLSv1_3), "TLSv1.3")
        self.assertEqual(connect(ssl.TLSVersion.TLSv1_2), "TLSv1.2")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
                with self.assertRaises(ssl.SSLError):
                    connect(version)

    def test_init_again(self):
        before = {path.name: path.read_bytes() for path in (self.data / "tls").iterdir()}
        done = subprocess.run([BIN / "muster-master", "--init", "--data-dir", self.data], capture_output=True, text=True, check=True)
        self.assertIn("unchanged", done.stdout)
        self.assertIn(self.fingerprint, done.stdout)
        self.assertRegex(done.stdout, r"muster login admin --master https://[^ ]+:8080\n")
        self.assertEqual({path.name: path.read_bytes() for path in (self.data / "tls").iterdir()}, before)

    def test_a_further_name_takes_effect_at_once(self):
        name = "front.example.org"
        subprocess.run([BIN / "muster-master", "--init", "--data-dir", self.data, "--host-name", name],
                       capture_output=True, check=True)

        def names():
            with socket.create_connection(("127.0.0.1", self.cluster.port)) as plain:
                with self.anybody.context.wrap_socket(plain, server_hostname="127.0.0.1") as peer:
                    return [value for _, value in peer.getpeercert()["subjectAltName"]]

        wait_for("the new certificate", lambda: name in names(), every=0.5)
        self.assertEqual(self.cluster.run("agent", "list").returncode, 0)

    def test_plain_http_stays_on_the_machine(self):
        def start(*flags):
            return subprocess.Popen([BIN / "muster-master", "--data-dir", self.cluster.folder / "plain", "--port", "0", *flags],
                                    stderr=subprocess.PIPE, text=True)

        process = start("--bind", "0.0.0.0")
        _, text = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 2, text)
        self.assertIn("--init", text)
        self.assertIn("--insecure", text)
        everywhere, this_machine = "00000000", "0100007F"  # as /proc/net/tcp writes them
        for flags, address in ((("--bind", "0.0.0.0", "--insecure"), everywhere), ((), this_machine)):
            process = start(*flags)
            self.addCleanup(process.kill)
            for line in process.stderr:
                if "master is up" in line:
                    break
            port = int((self.cluster.folder / "plain/master.url").read_text().strip().rsplit(":", 1)[1])
            listening = [row.split()[1].split(":")[0] for row in pathlib.Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()
                         if row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A"]
            self.assertEqual(listening, [address])
            process.terminate()
            process.stderr.close()
            process.wait(120)

    # enrolment

    def test_a_pasted_line_needs_no_end_of_file(self):
        with subprocess.Popen([BIN / "muster-agent", "--work-dir", self.cluster.folder / "pasted", "--id", "pasted",
                               "--enroll-only", "--enroll-file", "-"], stdin=subprocess.PIPE, text=True) as enrolling:
            enrolling.stdin.write(self.line() + "\n")
            enrolling.stdin.flush()
            self.assertEqual(enrolling.wait(timeout=60), 0)

    @unittest.skipIf(os.geteuid() != 0, "only an agent that runs as root needs an account for tasks")
    def test_an_agent_without_an_account_for_tasks_says_so(self):
        self.start_enrolled("accountless", start=False)
        agent = Daemon("muster-agent", ["--work-dir", self.cluster.folder / "accountless", "--slots", 1],
                       self.cluster.folder / "accountless.log")
        agent.start()
        self.addCleanup(agent.stop)
        self.await_agent("accountless")
        self.assertIn("start it with --task-account", (self.cluster.folder / "accountless.log").read_text())

    def test_a_line_enrols_one_agent(self):
        line = self.line("--pool", "default")
        self.assertRegex(line, rf"^muster1:[^:]+:{self.cluster.port}:{self.fingerprint}:[0-9a-f]{{64}}$")
        agent = self.agent("first", "--id", "first", "--enroll", line)
        agent.start()
        self.addCleanup(agent.stop)
        self.await_agent("first")
        self.assertNotIn(token_of(line), pathlib.Path(f"/proc/{agent.process.pid}/cmdline").read_text())
        folder = self.cluster.folder / "first"
        self.assertEqual((folder / "credential.json").stat().st_mode & 0o777, 0o600)
        self.assertFalse((folder / "credential.pending.json").exists())
        self.enrol_fails("second", line, EXIT_REFUSED, "was used already", "--id", "second")
        agent.kill9()
        again = self.agent("first")  # knows its master, its name and its credential
        again.start()
        self.addCleanup(again.stop)
        self.await_agent("first")
        again.stop()
        same = self.agent("first", "--enroll", line)  # as in a unit that still has the line
        same.start()
        self.addCleanup(same.stop)
        self.await_agent("first")
        self.assertIn("first", [row["agent"] for row in self.cluster.rows("agent", "credentials")])
        joined = [row for row in self.cluster.rows("audit", "list", "--path", "agent-credentials")
                  if "agentId=first" in row["detail"]]
        self.assertEqual(len(joined), 1, joined)
        store = b"".join(path.read_bytes() for path in self.data.glob("muster.db*"))
        self.assertNotIn(self.credential("first").encode(), store)
        self.assertNotIn(token_of(line).encode(), store)

    def test_a_lost_answer_burns_nothing(self):
        line = self.line()
        hash_of = sha256(secrets.token_hex(32))
        body = {"token": token_of(line), "agentId": "repeater", "credentialHash": hash_of}
        for _ in range(3):
            self.assertEqual(self.anybody.call("POST", "/agent-credentials", body)[0], 200)
        self.assertEqual(self.anybody.call("POST", "/agent-credentials", {**body, "agentId": "thief"})[0], 403)
        self.assertEqual(self.anybody.call("POST", "/agent-credentials", {**body, "credentialHash": sha256("x")})[0], 403)

    def test_a_start_that_was_killed_goes_on_with_its_credential(self):
        line = self.line("--name", "halfway")
        with TlsRecorder(self.data) as silent:  # the master's own certificate, and never an answer
            aside = line.replace(f":{self.cluster.port}:", f":{silent.port}:")
            aside = "muster1:127.0.0.1:" + aside.split(":", 2)[2]
            process = subprocess.Popen([BIN / "muster-agent", "--work-dir", self.cluster.folder / "halfway", "--id", "halfway",
                                        "--enroll-only", "--enroll", aside])
            wait_for("the token", lambda: token_of(line).encode() in silent.received)
            process.send_signal(signal.SIGKILL)
            process.wait()
        pending = json.loads((self.cluster.folder / "halfway/credential.pending.json").read_text())["token"]
        self.assertNotIn(pending.encode(), silent.received)
        self.assertIn(sha256(pending).encode(), silent.received)
        # As if that server had passed the call on: the answer was lost after the use.
        body = {"token": token_of(line), "agentId": "halfway", "credentialHash": sha256(pending)}
        self.assertEqual(self.anybody.call("POST", "/agent-credentials", body)[0], 200)
        done = subprocess.run([BIN / "muster-agent", "--work-dir", self.cluster.folder / "halfway", "--id", "halfway",
                               "--enroll-only", "--enroll", line], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.credential("halfway"), pending)

    def test_another_server_does_not_get_the_token(self):
        other = make_certificates(self.cluster.folder / "other")
        line = self.line()
        with TlsRecorder(self.cluster.folder / "other") as server:
            aside = f"muster1:127.0.0.1:{server.port}:{self.fingerprint}:{token_of(line)}"
            self.enrol_fails("lured", aside, EXIT_PEER, "is not the master that was expected", "--id", "lured")
            self.assertGreaterEqual(server.connections, 1)
            self.assertEqual(server.received, b"")
            # The same server with its own fingerprint would get it: the recording works.
            process = subprocess.Popen([BIN / "muster-agent", "--work-dir", self.cluster.folder / "trusting", "--id", "lured",
                                        "--enroll", aside.replace(self.fingerprint, other)])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            wait_for("the token", lambda: token_of(line).encode() in server.received)

    def test_an_expired_line(self):
        line = self.line("--ttl", "1ms")
        time.sleep(0.01)
        self.enrol_fails("late", line, EXIT_REFUSED, "has expired", "--id", "late")

    def test_names(self):
        self.enrol_fails("misnamed", self.line("--name", "wanted"), EXIT_REFUSED, "is for agent wanted", "--id", "misnamed")
        self.start_enrolled("taken", start=False)
        self.enrol_fails("impostor", self.line(), 5, "has a credential already", "--id", "taken")
        before = self.credential("taken")
        # The machine is installed again: a line with its name replaces the credential.
        (self.cluster.folder / "taken").rename(self.cluster.folder / "taken-before")
        self.start_enrolled("taken", "--name", "taken", start=False)
        self.assertEqual(Api(self.cluster, before).call("POST", "/agents/taken/sync", {})[0], 401)
        self.assertEqual(Api(self.cluster, self.credential("taken")).call("POST", "/agents/other/sync", {})[0], 403)

    def test_limits_of_an_enrolment(self):
        admin = Api(self.cluster, json.loads((self.cluster.folder / "config/muster/credentials.json").read_text())["tokens"][self.cluster.url])
        for good, bad in (({"lifespan": "720h"}, {"lifespan": "720h1s"}), ({"uses": 4096}, {"uses": 4097}),
                          ({"uses": 1}, {"uses": 0}), ({"agentId": "a" * 255}, {"agentId": "a" * 256}),
                          ({"pool": "p" * 255}, {"pool": "p" * 256}), ({"agentId": "a"}, {"agentId": "a b"}), ({"agentId": "a"}, {"agentId": "a\x7f"}),
                          ({"agentId": "a", "uses": 1}, {"agentId": "a", "uses": 2}), ({"lifespan": "1s"}, {"lifespan": "0s"})):
            status, text = admin.call("POST", "/agent-enrolments", good)
            self.assertEqual(status, 200, (good, text))
            self.assertEqual(admin.call("POST", "/agent-enrolments", bad)[0], 400, bad)
            made = json.loads(text)["enrolment"]
            self.assertEqual(admin.call("DELETE", f"/agent-enrolments/{made['id']}")[0], 200)
        self.assertEqual(admin.call("DELETE", f"/agent-enrolments/{made['id']}")[0], 404)

    def test_withdrawn(self):
        line = self.cluster.rows("agent", "enroll")
        self.cluster.muster("api", "DELETE", f"/api/v1/agent-enrolments/{line['id']}")
        self.enrol_fails("withdrawn", line["enrolment"], EXIT_REFUSED, "not known here", "--id", "withdrawn")

    def test_only_administrators_enrol_and_revoke(self):
        environment = self.cluster.env
        self.cluster.env = {**environment, "XDG_CONFIG_HOME": str(self.cluster.folder / "config-of-user")}
        try:
            self.cluster.muster("login", "determined", "--password-file", self.cluster.folder / "password",
                                "--fingerprint", self.fingerprint)
            for command in (("agent", "enroll"), ("agent", "credentials"), ("agent", "revoke", "first")):
                done = self.cluster.run(*command)
                self.assertEqual(done.returncode, EXIT_REFUSED, done.stderr)
                self.assertIn("administrators", done.stderr)
        finally:
            self.cluster.env = environment

    # the calls that a credential opens

    def test_tasks_of_other_agents(self):
        owner = self.start_enrolled("owner", "--pool", "owners")
        self.start_enrolled("stranger", start=False)
        mine, other = Api(self.cluster, self.credential("owner")), Api(self.cluster, self.credential("stranger"))
        folder = self.cluster.folder / "files"
        folder.mkdir()
        (folder / "word").write_text("secret\n")
        task = self.run_command("owners", "--files", folder, "--", "sleep", "600")
        tasks = self.cluster.folder / "owner" / "tasks"
        allocation = wait_for("the task", lambda: next((path.name for path in tasks.iterdir()
                                                        if path.name.startswith(f"{task}.") and (path / "work").exists()), None))
        post = {"taskId": task, "allocationId": allocation, "agentId": "owner",
                "logs": [{"timestamp": "2026-11-21T09:00:00Z", "log": "from an agent"}]}
        self.assertEqual(mine.call("POST", "/task/logs", post), (200, "{}"))
        refused = [("POST", "/task/logs", post), ("POST", "/task/logs", {**post, "agentId": "stranger"}),
                   ("POST", "/task/logs", {**post, "allocationId": "", "agentId": "stranger"}),
                   ("GET", f"/tasks/{task}/context_directory", None), ("POST", "/agents/owner/sync", {})]
        for method, path, body in refused:
            status, text = other.call(method, path, body)
            self.assertEqual(status, 403, (path, text))
        self.assertEqual(mine.call("POST", "/task/logs", {**post, "agentId": "stranger"})[0], 403)
        self.assertEqual(mine.call("GET", f"/tasks/{task}/context_directory")[0], 200)
        for path in ("/experiments", "/agents", "/users", f"/tasks/{task}"):
            self.assertEqual(mine.call("GET", path)[0], 403, path)
        self.cluster.muster("command", "kill", task)
        wait_for("its end", lambda: self.cluster.rows("command", "describe", task)["exit"] is not None)
        self.assertEqual(mine.call("POST", "/task/logs", post)[0], 200)  # the last lines come after the end
        self.assertEqual(other.call("POST", "/task/logs", post)[0], 403)
        owner.stop()

    def test_revocation(self):
        agent = self.start_enrolled("leaver", "--pool", "leavers")
        task = self.run_command("leavers", "--", "sh", "-c", "echo $$ > pid; exec sleep 600")
        pid = int(wait_for("the program", lambda: "".join(
            path.read_text() for path in self.cluster.files_of_tasks("leaver", "pid"))))
        self.cluster.muster("agent", "revoke", "leaver")
        self.assertEqual(agent.process.wait(120), EXIT_REFUSED)
        self.assertIn("revoked", agent.tail())
        self.assertIn("muster agent enroll --name leaver", agent.tail())
        os.kill(pid, 0)  # it runs
        self.assertEqual(Api(self.cluster, self.credential("leaver")).call("POST", "/agents/leaver/sync", {})[0], 401)
        agent = self.start_enrolled("leaver", "--name", "leaver")
        os.kill(pid, 0)
        self.assertEqual(self.cluster.rows("command", "describe", task)["state"], "RUNNING")
        self.cluster.muster("command", "kill", task)
        agent.stop()

    # programs

    def test_trainings(self):
        agent = self.start_enrolled("trainer", "--pool", "trainers")
        folder = self.cluster.folder / "native"
        folder.mkdir()
        trainings.write_images(folder)
        text = trainings.config("mlp", 2).replace("{slots_per_trial: 1}", "{slots_per_trial: 1, resource_pool: trainers}")
        (folder / "config.yaml").write_text(text)
        self.cluster.wait(self.cluster.create(folder / "config.yaml", folder))
        folder = self.cluster.folder / "python"
        folder.mkdir()
        (folder / "train.py").write_text(PROGRAM)
        (folder / "config.yaml").write_text("name: python\nentrypoint: /usr/bin/python3 train.py\nmax_restarts: 0\n"
                                            "searcher: {name: single, metric: loss}\n"
                                            "resources: {slots_per_trial: 1, resource_pool: trainers}\n")
        experiment = self.cluster.create(folder / "config.yaml", folder)
        self.cluster.wait(experiment)
        self.assertEqual(self.cluster.last_step(experiment), 3)
        log = self.cluster.muster("experiment", "logs", experiment)
        self.assertRegex(log, r"answer \{'preempt': False\} https://")
        self.assertIn("command ['username', 'admin'", log)
        agent.stop()

    # the command

    def command(self, *arguments):
        """The command of a user who has never called this master."""
        environment = {**os.environ, "HOME": str(self.cluster.folder), "MUSTER_MASTER": self.cluster.url,
                       "XDG_CONFIG_HOME": str(self.cluster.folder / "config-of-visitor")}
        return subprocess.run([BIN / "muster", *map(str, arguments)], env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)

    def test_the_command_trusts_what_it_was_told(self):
        login = ("login", "admin", "--password-file", self.cluster.folder / "password")
        for arguments in (login, ("trust",)):
            done = self.command(*arguments)
            self.assertEqual(done.returncode, EXIT_PEER, done.stderr)
            self.assertIn("is not trusted yet", done.stderr)
            self.assertIn(self.fingerprint, done.stderr)
        done = self.command(*login, "--fingerprint", "0" * 64)
        self.assertEqual(done.returncode, EXIT_PEER)
        self.assertIn("is not the master that was expected", done.stderr)
        self.assertEqual(self.command("trust", "--fingerprint", "abc").returncode, 2)
        done = self.command("trust", "--fingerprint", "SHA256:" + self.fingerprint.upper())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.command(*login).returncode, 0)
        self.assertEqual(self.command("agent", "list").returncode, 0)
        place = self.cluster.url.removeprefix("https://")
        self.assertEqual(self.command("--master", place, "agent", "list").returncode, 0)
        done = self.command("--master", "http://" + place, *login)
        self.assertEqual(done.returncode, EXIT_PEER, done.stderr)
        self.assertIn("this master is known by https", done.stderr)

    def test_the_command_notices_another_authority(self):
        folder = self.cluster.folder / "first-authority"
        first = make_certificates(folder)
        environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}

        def run(*arguments):
            return subprocess.run([BIN / "muster", "--master", server.url, *arguments], env=environment, capture_output=True,
                                  text=True, stdin=subprocess.DEVNULL, check=False)

        second = make_certificates(self.cluster.folder / "second-authority")
        with TlsRecorder(folder) as server:
            self.assertEqual(run("trust", "--fingerprint", first).returncode, 0)
            server.context.load_cert_chain(self.cluster.folder / "second-authority/tls/server.pem",
                                           self.cluster.folder / "second-authority/tls/server.key")
            done = run("agent", "list", "--token", "a-secret-token")
            self.assertEqual(done.returncode, EXIT_PEER, done.stderr)
            for words in ("has changed", first, second, "muster trust"):
                self.assertIn(words, done.stderr)
            self.assertEqual(server.received, b"")
            self.assertEqual(run("trust", "--fingerprint", second).returncode, 0)


class SharedToken(unittest.TestCase):
    """A cluster without certificates, whose agents share a token."""

    def test_number_of_enrolments(self):
        with Cluster("many", slots=()) as cluster:
            cluster.muster("login", "admin", "--password-file", cluster.folder / "password")
            token = json.loads((cluster.folder / "config/muster/credentials.json").read_text())["tokens"][cluster.url]
            connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60)
            self.addCleanup(connection.close)

            def post(path, body):
                connection.request("POST", "/api/v1" + path, json.dumps(body), {"Authorization": f"Bearer {token}"})
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())

            def enrol():
                return post("/agent-enrolments", {})

            for _ in range(1000):
                status, made = enrol()
                self.assertEqual(status, 200, made)
            status, refused = enrol()
            self.assertEqual(status, 409, refused)
            cluster.muster("api", "DELETE", f"/api/v1/agent-enrolments/{made['enrolment']['id']}")
            status, made = enrol()
            self.assertEqual(status, 200, made)
            self.assertEqual(enrol()[0], 409)
            used = {"token": made["token"], "agentId": "one", "credentialHash": sha256("one")}
            self.assertEqual(post("/agent-credentials", used)[0], 200)
            self.assertEqual(enrol()[0], 200, "one that was used up makes room")

    def test_shared_token(self):
        with Cluster("shared", slots=(1,)) as cluster:
            cluster.muster("login", "admin", "--password-file", cluster.folder / "password")
            line = cluster.muster("agent", "enroll", "-q").strip()
            self.assertIn(":plain:", line)
            subprocess.run([BIN / "muster-agent", "--work-dir", cluster.folder / "own", "--id", "own", "--enroll-only",
                            "--enroll", line], check=True, capture_output=True)
            pretender = cluster.add_agent("pretender", 1, flags=("--id", "own"))
            self.assertEqual(pretender.process.wait(120), EXIT_REFUSED)
            self.assertIn("has a credential of its own", pretender.tail())
            own = Daemon("muster-agent", ["--work-dir", cluster.folder / "own", "--slots", 1, "--tasks-as-root"], cluster.folder / "own.log")
            own.start()
            cluster.agents.append(own)
            wait_for("both agents", lambda: sum(row["connected"] for row in cluster.rows("agent", "list")) == 2)
            cluster.master.stop()
            cluster.master_flags = ("--no-shared-agent-token",)
            cluster.start_master()
            self.assertEqual(cluster.agents[0].process.wait(120), EXIT_REFUSED)
            wait_for("the other agent", lambda: [row["id"] for row in cluster.rows("agent", "list") if row["connected"]] == ["own"])


if __name__ == "__main__":
    unittest.main()
