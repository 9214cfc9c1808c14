"""The daemons as their units start them, with a socket of the test in the place of systemd's."""

import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import time
import unittest

from pack import BUILD, SOURCE

BIN = BUILD / "bin"


def unit_of(daemon):
    return (SOURCE / f"packaging/systemd/muster-{daemon}.service").read_text()


def command_of(daemon, folder, settings=None):
    """The words of ExecStart, with the programs of the build and all folders below `folder`."""
    line = re.search(r"^ExecStart=(.*)$", unit_of(daemon), re.M).group(1)
    for name, value in (settings or {}).items():
        line = line.replace(f"${name}", value)
    line = line.replace("/usr/bin/", f"{BIN}/")
    return shlex.split(re.sub(r"(?<=\s)/(?=etc/|var/)", f"{folder}/", line))


class Daemon:
    """A daemon with NOTIFY_SOCKET and a watchdog of one second; `kept`: the socket that systemd has kept for it."""

    def __init__(self, name, command, environment=(), kept=None):
        path = str(pathlib.Path(f"{name}.socket").resolve())
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        pathlib.Path(path).unlink(missing_ok=True)
        self.socket.bind(path)
        self.log = open(f"{name}.log", "ab")
        # As a shell that becomes the daemon: WATCHDOG_PID is the daemon's own.
        script = 'export WATCHDOG_PID=$$ WATCHDOG_USEC=1000000; '
        if kept:
            script += f'export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=listener; exec 3<&{kept.fileno()}; '
        script += 'exec "$@"'
        self.process = subprocess.Popen(["sh", "-c", script, "sh", *command], stderr=self.log,
                                        pass_fds=[kept.fileno()] if kept else [],
                                        env={**os.environ, "NOTIFY_SOCKET": path, **dict(environment)})

    def receive(self, seconds=20.0):
        """The next message; None: there was none in time."""
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(4096).decode()
        except socket.timeout:
            return None

    def wait_for(self, line, seconds=20.0):
        """Reads messages up to one that has this line, and returns all of it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = self.receive(max(0.1, deadline - time.monotonic()))
            if message and line in message.split("\n"):
                return message
        raise AssertionError(f"no {line} within {seconds:.0f} s; log: "
                             + pathlib.Path(self.log.name).read_text()[-2000:])

    def drain(self):
        while self.receive(0.01):
            pass

    def stop(self, sign=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sign)
        return self.process.wait(30)

    def close(self):
        self.stop(signal.SIGKILL)
        self.socket.close()
        self.log.close()


def request(method, path, body=None, token=None):
    text = json.dumps(body) if body else ""
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}Content-Type: application/json\r\n"
            f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}").encode()


def exchange(address, message, whole=False):
    """The body of the answer, or all of it."""
    with socket.create_connection(address, 20) as connection, connection.makefile("rb") as answer:
        connection.sendall(message)
        text = answer.read().decode()
    return text if whole else text.partition("\r\n\r\n")[2]


class Services(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path().resolve()
        for name in ("etc/muster", "etc/default", "var/lib/muster"):
            (cls.folder / name).mkdir(parents=True)
        settings = (SOURCE / "packaging/etc/master.yaml").read_text().replace("/var/lib/", f"{cls.folder}/var/lib/")
        (cls.folder / "etc/muster/master.yaml").write_text(settings + "port: 0\nbind: 127.0.0.1\n")
        cls.master = Daemon("master", command_of("master", cls.folder))
        cls.addClassCleanup(cls.master.close)
        ready = cls.master.wait_for("READY=1")
        password = cls.folder / "var/lib/muster/initial-password"
        assert password.stat().st_mode & 0o777 == 0o600 and len(password.read_text()) > 8
        cls.url = re.search(r"^STATUS=listening on (http://\S+)$", ready, re.M).group(1)
        token = (cls.folder / "var/lib/muster/agent.token").read_text()
        (cls.folder / "etc/muster/agent.token").write_text(token)

    def start_agent(self, name, url, token=None):
        settings = (SOURCE / "packaging/etc/muster-agent.default").read_text()
        values = dict(re.findall(r"^(\w+)=(.*)$", settings, re.M))
        self.assertEqual(values["MUSTER_MASTER"], "http://127.0.0.1:8080")
        command = command_of("agent", self.folder, {"MUSTER_AGENT_FLAGS": f"--slots 1 --id {name} --tasks-as-root"})
        command[command.index("--work-dir") + 1] = str(self.folder / name)
        if token:
            command[command.index("--token-file") + 1] = token
        agent = Daemon(name, command, {"MUSTER_MASTER": url}.items())
        self.addCleanup(agent.close)
        return agent

    def run_muster(self, *arguments):
        environment = {**os.environ, "MUSTER_MASTER": self.url}
        answer = subprocess.run([BIN / "muster", *arguments], env=environment, capture_output=True, text=True,
                                check=False)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def check_signs_of_life(self, daemon):
        daemon.drain()
        for _ in range(4):
            self.assertEqual(daemon.receive(1.0), "WATCHDOG=1")
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        daemon.drain()
        self.assertIsNone(daemon.receive(1.5), "a stopped daemon gives no sign of life")
        daemon.process.send_signal(signal.SIGCONT)
        daemon.wait_for("WATCHDOG=1")

    def test_units_expect_these_messages(self):
        for daemon in ("master", "agent"):
            self.assertIn("\nType=notify\n", unit_of(daemon))
            self.assertRegex(unit_of(daemon), r"\nWatchdogSec=\d+\n")
        self.assertIn("\nKillMode=process\n", unit_of("agent"))

    def test_master_lives(self):
        self.check_signs_of_life(self.master)

    def test_agent_lives_and_its_tasks_see_nothing(self):
        agent = self.start_agent("first", self.url)
        self.assertIn(f"STATUS=connected to {self.url}", agent.wait_for("READY=1"))
        self.check_signs_of_life(agent)
        self.run_muster("login", "admin", "--password-file", "var/lib/muster/initial-password")
        names = self.run_muster("command", "run", "--", "env")
        self.assertIn("DET_MASTER=", names)
        self.assertNotRegex(names, "NOTIFY_SOCKET|WATCHDOG_")
        self.assertEqual(agent.stop(), 0)
        agent.wait_for("STOPPING=1")

    def test_agent_is_ready_while_the_master_is_down(self):
        agent = self.start_agent("lonely", "http://127.0.0.1:9")
        self.assertIn("STATUS=no connection to http://127.0.0.1:9", agent.wait_for("READY=1"))
        agent.wait_for("WATCHDOG=1")

    def test_agent_with_a_wrong_token_is_never_ready(self):
        pathlib.Path("wrong.token").write_text("0123456789abcdef0123456789abcdef\n")
        agent = self.start_agent("refused", self.url, token="wrong.token")
        self.assertEqual(agent.process.wait(20), 4)
        messages = []
        while message := agent.receive(0.1):
            messages.append(message)
        self.assertNotIn("READY=1", "\n".join(messages))
        self.assertIn("4", re.search(r"RestartPreventExitStatus=(.*)", unit_of("agent")).group(1).split())

    def start_master_with(self, kept, *flags):
        """A second master, to which systemd gives the kept socket."""
        folder = self.folder / "second"
        for name in ("etc/muster", "var/lib/muster"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        settings = (SOURCE / "packaging/etc/master.yaml").read_text().replace("/var/lib/", f"{folder}/var/lib/")
        (folder / "etc/muster/master.yaml").write_text(settings)
        master = Daemon("second", [*command_of("master", folder), *map(str, flags)], kept=kept)
        self.addCleanup(master.close)
        return master

    def test_kept_socket(self):
        kept = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(kept.close)
        address = kept.getsockname()
        master = self.start_master_with(kept, "--bind", "127.0.0.1", "--port", address[1])
        self.assertIn(f"STATUS=listening on http://127.0.0.1:{address[1]}", master.wait_for("READY=1").split("\n"))
        password = (self.folder / "second/var/lib/muster/initial-password").read_text().strip()
        login = request("POST", "/api/v1/auth/login", {"username": "admin", "password": password})
        token = json.loads(exchange(address, login))["token"]
        master.close()
        with socket.create_connection(address) as abandoned:
            abandoned.sendall(request("POST", "/api/v1/workspaces", {"name": "abandoned"}, token))
        with socket.create_connection(address) as waiting:
            waiting.sendall(request("POST", "/api/v1/workspaces", {"name": "waiting"}, token))
            time.sleep(1.5)  # until the first caller has waited for long enough to have given up
            self.start_master_with(kept, "--bind", "127.0.0.1", "--port", address[1]).wait_for("READY=1")
            waiting.settimeout(20)
            self.assertRegex(waiting.recv(1 << 16), rb"^HTTP/1.1 20\d ")
        found = json.loads(exchange(address, request("GET", "/api/v1/workspaces", token=token)))["workspaces"]
        self.assertIn("waiting", [row["name"] for row in found])
        self.assertNotIn("abandoned", [row["name"] for row in found])

    def test_kept_socket_of_ipv6(self):
        try:
            kept = socket.create_server(("::1", 0), family=socket.AF_INET6)
        except OSError as error:
            self.skipTest(f"no IPv6: {error}")
        self.addCleanup(kept.close)
        port = kept.getsockname()[1]
        master = self.start_master_with(kept, "--bind", "::1", "--port", port)
        message = ""
        while "READY=1" not in message:
            message = master.receive() or self.fail("the master is not ready")
            self.assertNotIn("FDSTORE", message, "systemd has this socket already")
        self.assertIn(f"http://[::1]:{port}", message)

    def test_kept_socket_of_another_address(self):
        kept = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(kept.close)
        port = kept.getsockname()[1]
        with socket.create_connection(kept.getsockname()) as waiting:
            master = self.start_master_with(kept, "--bind", "0.0.0.0", "--insecure", "--port", port)
            self.assertEqual(master.receive(), "FDSTOREREMOVE=1\nFDNAME=listener")
            message, stored, _, _ = socket.recv_fds(master.socket, 4096, 1)
            self.assertEqual(message, b"FDSTORE=1\nFDNAME=listener")
            with socket.socket(fileno=stored[0]) as new:
                self.assertEqual(new.getsockname(), ("0.0.0.0", port))
            self.assertRaises(ConnectionResetError, waiting.recv, 1)
        self.assertRaises(OSError, kept.accept)
        master.wait_for("READY=1")
        self.assertIn("HTTP/1.1 200", exchange(("127.0.0.1", port), request("GET", "/healthz"), whole=True))

    def test_zz_master_stops(self):
        self.assertEqual(self.master.stop(), 0)
        self.master.wait_for("STOPPING=1")


if __name__ == "__main__":
    unittest.main()
