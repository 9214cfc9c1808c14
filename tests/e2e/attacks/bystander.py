"""Callers who are not part of an attack: they make calls, and their waiting times are recorded.

    with Bystander(cluster) as others:
        others.assert_served(30)        # before the attack
        attack()
        others.assert_served(30)
        others.p99("info"), others.worst("submit"), others.p99("poll")

One thread runs for each kind of call, each call on its own connection: `info` is GET /info
without a token, `submit` is a signed-in user who submits a tiny paused experiment, `poll` is an
agent without slots that syncs and is answered at once. A call that fails counts as if it took
its whole patience, and its reason is kept.
"""

import http.client
import json
import threading
import time
import uuid

from cluster import PASSWORD

KINDS = ("info", "submit", "poll")
LATE = 0.02  # seconds to connect and send a request, which a caller takes only if it waits for a processor
CONFIG = """\
name: bystander
entrypoint: "true"
resources: {slots_per_trial: 1}
searcher: {name: single, metric: loss}
"""


class CallFailed(Exception):
    pass


def request(port, method, path, body=None, token=None, timeout=30.0, source=None, again=False):
    """Returns (status, bytes) of one call on a new connection. `source` is the caller's own
    loopback address.

    `again` is for small calls during a flood. The master closes the oldest connection of an address
    that opens too many. On a busy machine this may be a caller who has connected and waits for a
    processor before it sends its request. It connects again; the time counts."""
    data = json.dumps(body) if body is not None and not isinstance(body, (str, bytes)) else body
    begun = time.monotonic()
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout,
                                                source_address=(source, 0) if source else None)
        connecting, late = time.monotonic(), False
        try:
            connection.request(method, path, data, {"Authorization": f"Bearer {token}"} if token else {})
            late = time.monotonic() - connecting > LATE
            response = connection.getresponse()
            return response.status, response.read()
        except ConnectionError:
            if not again or not late or time.monotonic() - begun > timeout:
                raise
        finally:
            connection.close()


def log_in(port, user="determined", password=PASSWORD, source=None):
    status, answer = request(port, "POST", "/api/v1/auth/login",
                             {"username": user, "password": password, "isHashed": False}, source=source)
    if status != 200:
        raise CallFailed(f"login as {user}: {status} {answer[:200]!r}")
    return json.loads(answer)["token"]


class Bystander:
    def __init__(self, cluster, patience=30.0, pause=0.05, source=None):
        """`patience` is the time in seconds after which a call counts as failed, `pause` the time
        between two calls of one kind, `source` the loopback address of the callers (the
        attacker's is 127.0.0.1)."""
        self.port, self.patience, self.pause, self.source = cluster.port, patience, pause, source
        self.token = log_in(self.port, source=source)
        self.agent_token = (cluster.folder / "master" / "agent.token").read_text().strip()
        self.session = str(uuid.uuid4())
        self.name = "bystander-" + self.session[:8]
        self.taken = {kind: [] for kind in KINDS}  # (time of the end, duration in seconds)
        self.failures = []                          # (kind, reason)
        self.over = threading.Event()
        self.threads = []

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.over.clear()
        self.threads = [threading.Thread(target=self._go_on, args=(kind,), daemon=True) for kind in KINDS]
        for thread in self.threads:
            thread.start()
        return self

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(self.patience + 10)
        self.threads = []

    # calls

    def _info(self):
        return request(self.port, "GET", "/info", timeout=self.patience, source=self.source, again=True)

    def _submit(self):
        return request(self.port, "POST", "/api/v1/experiments",
                       {"config": CONFIG, "activate": False, "modelDefinition": []}, self.token,
                       self.patience, self.source, again=True)

    def _poll(self):
        return request(self.port, "POST", f"/api/v1/agents/{self.name}/sync",
                       {"version": "0", "session": self.session, "pool": "default", "hostname": self.name,
                        "address": "127.0.0.1", "slots": [], "seen": -1, "tasks": []},
                       self.agent_token, self.patience, self.source, again=True)

    def _go_on(self, kind):
        call = getattr(self, "_" + kind)
        while not self.over.is_set():
            begun = time.monotonic()
            try:
                status, answer = call()
                if status != 200:
                    raise CallFailed(f"{status} {answer[:200]!r}")
                took = time.monotonic() - begun
            except (OSError, http.client.HTTPException, CallFailed) as error:
                waited = time.monotonic() - begun
                self.failures.append((kind, f"{type(error).__name__} after {waited:.3f} s: {error}"))
                took = max(self.patience, waited)
            self.taken[kind].append((time.monotonic(), took))
            self.over.wait(self.pause)

    # results

    def count(self, kind):
        return len(self.taken[kind])

    def p99(self, kind):
        """Returns the 99th percentile of the durations in seconds."""
        taken = sorted(took for _, took in self.taken[kind])
        return taken[min(len(taken) - 1, int(len(taken) * 0.99))] if taken else float("inf")

    def worst(self, kind):
        return max((took for _, took in self.taken[kind]), default=float("inf"))

    def forget(self):
        """Clears the record, so that it then covers only an attack."""
        self.taken = {kind: [] for kind in KINDS}
        self.failures = []

    def assert_served(self, seconds):
        """Checks that each kind was answered, that no call failed, and that none took longer than
        `seconds`. While the threads run, it waits that long for a first answer and until the
        calls under way have ended."""
        since = time.monotonic()
        while self.threads and time.monotonic() < since + seconds and not all(
                any(moment > since for moment, _ in list(self.taken[kind])) for kind in KINDS):
            time.sleep(0.02)
        said = ", ".join(f"{kind}: {self.count(kind)} calls, p99 {self.p99(kind):.3f} s, "
                         f"worst {self.worst(kind):.3f} s" for kind in KINDS)
        if self.failures:
            raise AssertionError(f"{len(self.failures)} calls failed, first {self.failures[0]}; {said}")
        for kind in KINDS:
            if self.worst(kind) > seconds:
                raise AssertionError(f"{kind} was not answered within {seconds} s; {said}")
            if self.threads and not any(moment > since for moment, _ in self.taken[kind]):
                raise AssertionError(f"{kind} was not answered for {seconds} s; {said}")
