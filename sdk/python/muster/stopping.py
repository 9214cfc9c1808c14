"""Requests to stop: pause, preemption, cancel, and the end of a trial by its searcher.

Rank 0 asks the master in a thread of its own. At certain steps, which all ranks know, rank 0
decides whether to stop and tells the others, so all ranks stop at the same step. The distance of
these steps adapts to the speed of the training: a decision costs some microseconds, and there are
a few in a second.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Callable, Optional

from muster.environment import Trial
from muster.errors import AllocationEnded, RankError
from muster.ranks import Ranks

ASK_S = 20  # the master holds the question so long
ANSWER_S = 15  # beyond that, the connection counts as broken
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)  # after failures
DECISION_S = 0.25  # seconds between two decisions, about
DECISION_STEPS = 10_000  # steps between two decisions, at most
ENDED = "allocation has ended"


class Master:
    """Calls of the task to the master."""

    def __init__(self, trial: Trial, certificate: Optional[str] = None) -> None:
        self._trial = trial
        self._tls = ssl.create_default_context(cafile=certificate or None) \
            if trial.master.startswith("https:") else None
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),  # no http_proxy: the master is in the cluster
            urllib.request.HTTPSHandler(context=self._tls))

    def call(self, method: str, path: str, seconds: float, body: Any = None) -> dict[str, Any]:
        """Sends a request and returns the answer, an object. OSError, HTTPException or ValueError:
        there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._trial.master + path, data=data, method=method)
        request.add_header("Grpc-Metadata-x-allocation-token", "Bearer " + self._trial.token)
        with self._opener.open(request, timeout=seconds) as answer:
            return json.loads(answer.read() or b"{}")


class StopRequest:
    """Asks the master whether this run should stop. It asks only after start(), because a program
    that has asked once is expected to stop by itself."""

    def __init__(self, master: Master, allocation: str, warn: Callable[[str], None]) -> None:
        self._master, self._warn = master, warn
        self._path = f"/api/v1/allocations/{allocation}/signals/"
        self.requested = False
        self.ended = False  # the cluster has given this start up, or the run has ended
        self._acknowledge = threading.Event()
        self._acknowledged = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def start(self) -> None:
        """Begins to ask; further calls do nothing."""
        if not self._thread:
            self._thread = threading.Thread(target=self._work, name="muster-stop", daemon=True)
            self._thread.start()

    def acknowledge(self) -> None:
        """Tells the master that the program is stopping."""
        self._acknowledge.set()

    def wait_until_acknowledged(self, seconds: float) -> bool:
        """Waits until the master has the acknowledgement, if there is one. False: not within these
        seconds."""
        return not self._acknowledge.is_set() or self.ended or self._acknowledged.wait(seconds)

    def close(self) -> None:
        """Ends the thread after the call to the master that it is in."""
        self.ended = True
        self._acknowledge.set()

    def _work(self) -> None:
        while not self.requested and not self.ended:
            answer = self._repeat("GET", f"preemption?timeout_seconds={ASK_S}", ASK_S + ANSWER_S)
            self.requested = bool(answer.get("preempt"))
        self._acknowledge.wait()
        if not self.ended:
            self._repeat("POST", "ack_preemption", ANSWER_S)
        self._acknowledged.set()

    def _repeat(self, method: str, what: str, seconds: float) -> dict[str, Any]:
        attempt = 0
        while not self.ended:
            try:
                return self._master.call(method, self._path + what, seconds,
                                         {} if method == "POST" else None)
            except urllib.error.HTTPError as error:
                self._judge(error)
            except (OSError, ValueError, http.client.HTTPException):
                pass  # the master is away; this is no reason to stop
            time.sleep(PAUSES_S[min(attempt, len(PAUSES_S) - 1)])
            attempt += 1
        return {}

    def _judge(self, error: urllib.error.HTTPError) -> None:
        try:
            text = error.read(4096).decode(errors="replace")
        except (OSError, ValueError, http.client.HTTPException):
            text = ""  # the connection broke within the answer
        if error.code == 403 and ENDED in text:
            self.ended = True
        elif error.code in (401, 403, 404):
            self._warn(f"the master refuses to say whether the run should stop: {error}")
            time.sleep(ASK_S)


class Agreement:
    """All ranks learn at the same step whether to stop."""

    def __init__(self, ranks: Ranks, request: Optional[StopRequest]) -> None:
        self._ranks, self._request = ranks, request
        self._next = -1  # the step of the next decision
        self._interval = 1
        self._last, self._last_time = 0, 0.0
        self.decided = False

    def restart(self) -> None:
        """A new loop begins, on every rank; its first step has a decision."""
        self._next = -1

    def at(self, step: int) -> bool:
        """Whether to stop at this step; every rank asks at the same steps."""
        if self._ranks.size == 1:
            if self._request and self._request.requested:
                self.decided = True
            if self._request and self._request.ended:
                raise AllocationEnded()
            return self.decided
        if step < self._next or self.decided:
            return self.decided
        if self._ranks.rank == 0:
            self._decide(step)
        else:
            self._follow(step)
        return self.decided

    def _decide(self, step: int) -> None:
        request = self._request
        ended = bool(request and request.ended)
        self.decided = bool(request and request.requested)
        self._adapt(step)
        self._next = step + self._interval
        self._ranks.announce({"step": step, "stop": self.decided, "ended": ended,
                              "next": self._next})
        if ended:
            raise AllocationEnded()

    def _adapt(self, step: int) -> None:
        """Chooses the distance to the next decision from the speed since the last one."""
        now = time.monotonic()
        if self._last_time and step > self._last:
            seconds = max((now - self._last_time) / (step - self._last), 1e-9)
            wanted = int(min(DECISION_S / seconds, DECISION_STEPS))
            self._interval = max(1, min(wanted, 2 * self._interval))
        self._last, self._last_time = step, now

    def _follow(self, step: int) -> None:
        decision = self._ranks.hear(step)
        if decision.get("step") != step:
            raise RankError(f"rank 0 is at step {decision.get('step')} and rank "
                            f"{self._ranks.rank} at step {step}: every rank must make the same "
                            "steps; load the checkpoint run.latest on every rank")
        if decision.get("ended"):
            raise AllocationEnded()
        self.decided, self._next = bool(decision["stop"]), int(decision["next"])
