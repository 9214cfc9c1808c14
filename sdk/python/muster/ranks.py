"""Meetings of the ranks of one run, without torch: a star of TCP connections through rank 0.

Both ends prove that they know a secret of the run before anything else is read. Messages are lines
of JSON. A connection lives as long as the run; an end of it means that the rank is gone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import select
import socket
import threading
import time
from typing import Any, Callable, Optional

from muster.columns import encode
from muster.environment import RankAddress
from muster.errors import Error, RankError

MESSAGE_BYTES = 64 << 20
HELLO_BYTES = 4 << 10  # of a message of a program that has not proved anything yet
TELL_S = 60.0  # a rank that waits so long says so
JOIN_S = 1800.0  # rank 0 may load data before its first meeting
HELLO_S = 10.0
PATIENCE_S = 5.0  # a rank that waits so long for a decision tells rank 0 where it is


def proof(secret: bytes, *parts: str) -> str:
    """The HMAC of some texts: its sender knows the secret."""
    data = "\0".join(parts).encode(errors="replace")
    return hmac.new(secret, data, hashlib.sha256).hexdigest()


def same(found: Any, expected: str) -> bool:
    """Whether a stranger's text is the expected one."""
    return hmac.compare_digest(str(found).encode(errors="replace"), expected.encode())


def wait_readable(connection: socket.socket, seconds: float) -> bool:
    """Waits until there is something to read or accept. False: not within these seconds. Unlike
    select(), poll() takes descriptors of 1024 and more."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Peer:
    """A connection to another rank."""

    def __init__(self, connection: socket.socket, name: str, tell: Callable[[str], None]) -> None:
        self.connection, self.name, self._tell = connection, name, tell
        self._buffer = bytearray()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message. Error: it is too large; RankError: the other rank is gone."""
        data = encode(message)
        if len(data) > MESSAGE_BYTES:
            raise Error(f"{message.get('call', 'a message')}: {len(data)} bytes; ranks exchange at "
                        f"most {MESSAGE_BYTES} bytes at once: write large data into a file")
        self.send_line(data)

    def send_line(self, data: bytes) -> None:
        """Sends an encoded message of at most MESSAGE_BYTES."""
        try:
            self.connection.sendall(data)
        except OSError as error:
            raise RankError(f"{self.name} is gone: {error}; its own log says why") from None

    def receive(self, what: str, seconds: Optional[float] = None,
                patience: Optional[dict[str, Any]] = None,
                limit: int = MESSAGE_BYTES) -> dict[str, Any]:
        """The next message. Without one for PATIENCE_S seconds, `patience` is sent."""
        end = self._buffer.find(b"\n")
        start = time.monotonic()
        while end < 0:
            seen = len(self._buffer)
            if seconds is not None and time.monotonic() - start > seconds:
                raise RankError(f"{self.name} has sent {seen} bytes of its message within "
                                f"{seconds:.0f} s at {what}")
            self._wait(what, start, seconds, patience)
            try:
                part = self.connection.recv(1 << 16)
            except OSError as error:
                raise RankError(f"{self.name} is gone: {error}; its own log says why") from None
            if not part:
                raise RankError(f"{self.name} has ended while this rank waits for it at {what}; "
                                "its own log says why")
            self._buffer += part
            end = self._buffer.find(b"\n", seen)
            if end < 0 and len(self._buffer) > limit:
                raise RankError(f"{self.name} sends no message of this package")
        line = bytes(self._buffer[:end])
        del self._buffer[:end + 1]
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise RankError(f"{self.name} sends no message of this package")
        return message

    def _wait(self, what: str, start: float, seconds: Optional[float],
              patience: Optional[dict[str, Any]]) -> None:
        told = start
        while not wait_readable(self.connection, min(1.0, seconds or 1.0)):
            now = time.monotonic()
            if patience and now - start > PATIENCE_S:
                self.send(patience)
                patience = None
            if seconds is not None and now - start > seconds:
                raise RankError(f"{self.name} does not answer within {seconds:.0f} s at {what}")
            if now - told > TELL_S:
                told = now
                self._tell(f"waiting for {self.name} at {what} for {now - start:.0f} s")


class Ranks:
    """The meetings of this process with the other ranks. One thread at a time may use it; the
    connections are made at the first meeting, which every rank must reach."""

    def __init__(self, address: RankAddress, tell: Callable[[str], None]) -> None:
        self.rank, self.size = address.rank, address.world_size
        self._address, self._tell = address, tell
        self._peers: list[Peer] = []  # on rank 0: ranks 1 and up; elsewhere: rank 0
        self._calls = 0
        self._decided_step = -1  # the step of the newest decision of rank 0
        self._busy = threading.Lock()

    # joining

    def open(self) -> None:
        """Connects to the others; further calls do nothing."""
        if self._peers or self.size == 1:
            return
        if self.rank == 0:
            self._peers = self._accept_all()
        else:
            self._peers = [self._join()]

    def _accept_all(self) -> list[Peer]:
        address = self._address
        try:
            listener = listen(address)
        except OSError as error:
            raise RankError(f"rank 0 cannot listen at port {address.port}: {error}; set "
                            "MUSTER_PORT to a free port on every rank") from None
        found: dict[int, Peer] = {}
        start = told = time.monotonic()
        with listener:
            while len(found) < self.size - 1:
                now = time.monotonic()
                missing = sorted(set(range(1, self.size)) - set(found))
                if now - start > JOIN_S:
                    raise RankError(f"ranks {missing} did not join within {JOIN_S:.0f} s")
                if now - told > TELL_S:
                    told = now
                    self._tell(f"rank 0 waits for ranks {missing} to join")
                if wait_readable(listener, 1.0):
                    self._welcome(listener.accept()[0], found)
        return [found[rank] for rank in sorted(found)]

    def _welcome(self, connection: socket.socket, found: dict[int, Peer]) -> None:
        """Takes a connection if the other end proves that it is a rank of this run."""
        peer = Peer(connection, "a new connection", self._tell)
        nonce = os.urandom(16).hex()
        try:
            peer.send({"nonce": nonce})
            hello = peer.receive("its first message", HELLO_S, limit=HELLO_BYTES)
            rank, answer = hello.get("rank"), str(hello.get("nonce"))
            if type(rank) is not int or not 0 < rank < self.size:
                raise RankError("not a rank of this run")
            if not same(hello.get("proof"),
                        proof(self._address.secret, "join", nonce, answer, str(rank))):
                raise RankError("not a rank of this run")
            if hello.get("size") != self.size:
                raise RankError(f"rank {rank} counts {hello.get('size')} ranks, not {self.size}")
            peer.send({"proof": proof(self._address.secret, "welcome", answer, nonce)})
        except RankError as error:
            self._tell(f"rank 0 refuses a connection: {error}")
            connection.close()
            return
        peer.name = f"rank {rank}"
        if rank in found:
            found[rank].connection.close()
        found[rank] = peer

    def _join(self) -> Peer:
        start = told = time.monotonic()
        while True:
            try:
                return self._try_to_join()
            except (OSError, RankError) as error:
                now = time.monotonic()
                if now - start > JOIN_S:
                    raise RankError(
                        f"rank {self.rank} cannot reach rank 0 at {self._address.host}:"
                        f"{self._address.port} for {JOIN_S:.0f} s: {error}; does rank 0 make the "
                        "same calls (barrier, gather, steps, should_stop)?") from None
                if now - told > TELL_S:
                    told = now
                    self._tell(f"rank {self.rank} waits for rank 0 to join: {error}")
                time.sleep(0.05)

    def _try_to_join(self) -> Peer:
        address = self._address
        connection = socket.create_connection((address.host, address.port), HELLO_S)
        try:
            connection.settimeout(None)
            peer = Peer(connection, "rank 0", self._tell)
            nonce = os.urandom(16).hex()
            theirs = str(peer.receive("the first message", HELLO_S,
                                      limit=HELLO_BYTES).get("nonce"))
            peer.send({"rank": address.rank, "size": address.world_size, "nonce": nonce,
                       "proof": proof(address.secret, "join", theirs, nonce, str(address.rank))})
            answer = peer.receive("the welcome", HELLO_S, limit=HELLO_BYTES).get("proof")
            if not same(answer, proof(address.secret, "welcome", nonce, theirs)):
                raise RankError("the program at this port is not rank 0 of this run")
            return peer
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Ends the connections."""
        for peer in self._peers:
            peer.connection.close()
        self._peers = []

    # meetings of all ranks

    def gather(self, call: str, value: Any) -> list:
        """Returns the values of all ranks, on every rank. Every rank makes the same calls in the
        same order; if not, all of them get an exception that names the calls."""
        if self.size == 1:
            return [value]
        if not self._busy.acquire(blocking=False):
            raise RankError(f"{call}: another thread is in a meeting of the ranks; call barrier, "
                            "gather, steps, should_stop and sharded checkpoints from one thread")
        try:
            return self._gather(call, value)
        finally:
            self._busy.release()

    def _gather(self, call: str, value: Any) -> list:
        self.open()
        self._calls += 1
        mine = {"call": call, "number": self._calls, "value": value}
        if self.rank:
            self._peers[0].send(mine)
            return self._take("values", call)["values"]
        messages = [mine] + [self._next_call(peer, call) for peer in self._peers]
        fault, values, answer = differing_calls(messages), [], b""
        if not fault:
            values = [message["value"] for message in messages]
            answer = encode({"values": values})
        if len(answer) > MESSAGE_BYTES:
            fault = (f"{call}: the values of all ranks have {len(answer)} bytes together; ranks "
                     f"exchange at most {MESSAGE_BYTES} bytes at once: write large data into a "
                     "file")
        if fault:
            answer = encode({"error": fault})
        for peer in self._peers:
            peer.send_line(answer)
        if fault:
            raise RankError(fault)
        return values

    def _next_call(self, peer: Peer, call: str) -> dict[str, Any]:
        """The next call of another rank. One that waits for a decision of a later step is at
        another place of the program, and would wait for ever."""
        message = peer.receive(call)
        while message.get("waits", self._decided_step + 1) <= self._decided_step:
            message = peer.receive(call)
        if "waits" in message:
            message["call"] = f"step {message['waits']}"
        return message

    def _take(self, key: str, call: str, step: Optional[int] = None) -> dict[str, Any]:
        """The next message of rank 0, which must have this key."""
        patience = None if step is None else {"waits": step}
        message = self._peers[0].receive(call, patience=patience)
        if "error" in message:
            raise RankError(message["error"])
        if key not in message:
            raise RankError(f"rank {self.rank} is at {call} and rank 0 is not: "
                            "every rank must make the same steps and calls in the same order")
        return message

    # decisions of rank 0

    def announce(self, decision: dict[str, Any]) -> None:
        """Rank 0 tells the others a decision and does not wait for them."""
        self.open()
        self._decided_step = decision["step"]
        for peer in self._peers:
            peer.send({"decision": decision})

    def hear(self, step: int) -> dict[str, Any]:
        """Another rank waits for the decision of rank 0 about a step."""
        self.open()
        return self._take("decision", f"step {step}", step)["decision"]


def listen(address: RankAddress) -> socket.socket:
    """Rank 0 listens only where the others look for it."""
    local = address.host in ("127.0.0.1", "localhost", "::1")
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host if local else "", address.port))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener


def differing_calls(messages: list[dict[str, Any]]) -> str:
    """Says which ranks are at different calls; empty: they agree."""
    first = (messages[0].get("call"), messages[0].get("number"))
    for rank, message in enumerate(messages):
        if (message.get("call"), message.get("number")) != first:
            return (f"rank {rank} is at {message.get('call')} and rank 0 at {first[0]}: every rank "
                    "must make the same calls with the same steps in the same order")
    return ""
