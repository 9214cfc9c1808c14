"""An attacker without an account keeps connections open and guesses passwords.

The attacker reaches the master's port and has no token. Connections that send nothing, send a
header or a body byte by byte, or never read their answers must not keep others out, and the
master must close them. Wrong passwords must lock out neither other users at the attacker's
address nor the same user at another address. Each attack is a function that takes a cluster, so
that tests/bench/attacks can run it, too.
"""

import json
import resource
import selectors
import socket
import time
import unittest

from bystander import Bystander, log_in, request
from cluster import PASSWORD, Cluster

GENEROUS = 15.0  # seconds within which a bystander is answered on a busy machine
TOO_LONG = 40.0  # seconds within which the master closes slow connections

HEADERS = b"GET /info HTTP/1.1\r\nHost: attacked\r\n"
BODY = b"POST /api/v1/auth/login HTTP/1.1\r\nHost: attacked\r\nContent-Length: 4000\r\n\r\n"
READ = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: attacked\r\n\r\n"


def may_open(wanted):
    """Returns how many of the connections this process may open; raises its limit as far as
    permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(wanted, hard - 1000)


class Flood:
    """The connections of an attacker, and which of them the master has closed."""

    def __init__(self, cluster, count, first=b"", source="127.0.0.1"):
        self.waiting = selectors.DefaultSelector()
        self.open = set()
        self.first, self.source = first, source
        self.port = cluster.port
        self.closed = 0
        for number in range(may_open(count)):
            self.add()
            if number % 64 == 0:
                self.look(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in list(self.open):
            self.drop(one)
        self.waiting.close()

    def add(self):
        one = socket.socket()
        one.bind((self.source, 0))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(5)
        try:
            one.connect(("127.0.0.1", self.port))
            one.setblocking(False)
            one.send(self.first)
        except OSError:
            one.close()
            self.closed += 1
            return
        self.open.add(one)
        self.waiting.register(one, selectors.EVENT_READ)

    def drop(self, one):
        self.waiting.unregister(one)
        self.open.discard(one)
        one.close()

    def look(self, seconds, read=True):
        """Waits and records which connections were closed. `read` also reads what has arrived."""
        until = time.monotonic() + seconds
        while True:
            for key, _ in self.waiting.select(max(0, min(0.1, until - time.monotonic()))):
                try:
                    alive = not read or key.fileobj.recv(65536)
                except BlockingIOError:
                    continue
                except OSError:
                    alive = False
                if not alive:
                    self.drop(key.fileobj)
                    self.closed += 1
            if time.monotonic() >= until:
                return

    def drip(self, piece):
        for one in list(self.open):
            try:
                one.send(piece)
            except BlockingIOError:
                continue
            except OSError:
                self.drop(one)
                self.closed += 1

    def is_over(self, seconds):
        """Returns whether the master closes all connections within so many seconds."""
        until = time.monotonic() + seconds
        while self.open and time.monotonic() < until:
            self.look(0.2)
        return not self.open


def idle_flood(cluster, seconds=3.0, count=8192):
    """Opens connections that send nothing."""
    with Flood(cluster, count) as flood:
        flood.look(seconds)


def header_drip(cluster, seconds=3.0, count=2000):
    with Flood(cluster, count, HEADERS) as flood:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            flood.look(0.5)
            flood.drip(b"X-Drip: 1\r\n")


def body_drip(cluster, seconds=3.0, count=2000):
    with Flood(cluster, count, BODY) as flood:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            flood.look(0.5)
            flood.drip(b" ")


def slow_readers(cluster, seconds=3.0, count=500):
    """Requests answers and does not read them."""
    with Flood(cluster, 0) as flood:
        flood.first = READ
        for _ in range(count):
            flood.add()
        time.sleep(seconds)


def guess(cluster, user, times, source="127.0.0.1"):
    """Signs in with wrong passwords; returns the statuses."""
    return [request(cluster.port, "POST", "/api/v1/auth/login",
                    {"username": user, "password": f"guess {number}", "isHashed": False}, source=source)[0]
            for number in range(times)]


ATTACKS = (idle_flood, header_drip, body_drip, slow_readers)


class Connections(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("connections", slots=(1,))
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.cluster.__enter__()

    def attack(self, attack):
        with Bystander(self.cluster) as others:
            others.assert_served(GENEROUS)
            others.forget()
            attack(self.cluster)
            others.assert_served(GENEROUS)
            others.stop()
            others.assert_served(GENEROUS)
        with Bystander(self.cluster, source="127.0.0.9") as others:
            others.assert_served(GENEROUS)

    def test_idle_connections(self):
        self.attack(idle_flood)

    def test_dripping_headers(self):
        self.attack(header_drip)

    def test_dripping_bodies(self):
        self.attack(body_drip)

    def test_answers_that_are_not_read(self):
        self.attack(slow_readers)

    def test_slow_connections_are_closed(self):
        """There are few of each kind, so none is closed for lack of room: they are closed because
        they are slow."""
        with Flood(self.cluster, 20) as idle, Flood(self.cluster, 20, HEADERS) as headers, \
                Flood(self.cluster, 20, BODY) as bodies:
            until = time.monotonic() + TOO_LONG
            while time.monotonic() < until and (idle.open or headers.open or bodies.open):
                idle.look(0.3)
                headers.look(0.3)
                headers.drip(b"X-Drip: 1\r\n")
                bodies.look(0.3)
            self.assertFalse(idle.open, "connections that send nothing are kept")
            self.assertFalse(headers.open, "connections that send headers byte by byte are kept")
            self.assertFalse(bodies.open, "connections that send no body are kept")

    def test_authenticated_connections_survive(self):
        """A keep-alive connection of a user and one of an agent survive a flood from their address.
        """
        import http.client
        token = log_in(self.cluster.port)
        agent = (self.cluster.folder / "master" / "agent.token").read_text().strip()
        kept = []
        for proof, path in ((token, "/api/v1/me"), (agent, "/api/v1/me")):
            one = http.client.HTTPConnection("127.0.0.1", self.cluster.port, timeout=30)
            one.request("GET", path, headers={"Authorization": f"Bearer {proof}"})
            one.getresponse().read()
            kept.append((one, path, proof))
        with Flood(self.cluster, 3000) as flood:
            flood.look(0.5)
            one, path, proof = kept[0]
            local = one.sock.getsockname()
            one.request("GET", path, headers={"Authorization": f"Bearer {proof}"})
            answer = one.getresponse()
            answer.read()
            self.assertEqual(answer.status, 200)
            self.assertEqual(one.sock.getsockname(), local, "it was closed and opened again")
        for one, _, _ in kept:
            one.close()

    def test_guesses_do_not_lock_out_others(self):
        cluster = self.cluster
        # A neighbour behind the same address guesses the passwords of others, far beyond every
        # limit.
        for number in range(9):
            guess(cluster, f"nobody-{number}", 10)
        self.assertEqual(guess(cluster, "admin", 12)[-1], 429)
        self.assertTrue(log_in(cluster.port, "determined"))
        # An attacker at one address does not lock out a user at another address.
        self.assertTrue(log_in(cluster.port, "admin", source="127.0.0.2"))
        # Many addresses together do not either.
        for place in range(30):
            guess(cluster, "determined", 4, source=f"127.0.1.{place + 1}")
        self.assertTrue(log_in(cluster.port, "determined", source="127.0.0.3"))
        self.assertTrue(log_in(cluster.port, "determined"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
