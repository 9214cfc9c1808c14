"""Fifty unmanaged experiments that report ten times a second, each time a better value."""

import datetime
import json
import socket
import threading
import time

EXPERIMENTS, EVERY_S = 50, 0.1
CONFIG = "name: live-{:02d}\nsearcher: {{name: single, metric: loss}}\n"
FIRST = 900_000  # the first loss; every report changes the displayed digits


def report(number):
    return json.dumps({"group": "validation", "metrics": {
        "stepsCompleted": number, "reportTime": datetime.datetime.utcnow().isoformat() + "Z",
        "metrics": {"avgMetrics": {"loss": FIRST - number}, "batchMetrics": None}}})


class Load:
    """A context manager that reports while it is open. Each report waits for the answer to the previous one."""

    def __init__(self, master):
        self.master, self.ends, self.sent = master, threading.Event(), 0
        self.thread = threading.Thread(target=self.run)
        self.fault = None

    def __enter__(self):
        self.master.connection.close()  # it may have timed out; the next call opens a new one
        self.trials = [self.begin(number) for number in range(EXPERIMENTS)]
        self.connections = [socket.create_connection((self.master.host, int(self.master.port)))
                            for _ in self.trials]
        self.began = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        self.seconds = time.monotonic() - self.began
        self.master.connection.close()
        for trial in self.trials:
            self.change(trial, "STATE_COMPLETED")
        if self.fault:
            raise self.fault

    def begin(self, number):
        call = self.master.call
        experiment = json.loads(call("POST", "/api/v1/experiments", {
            "config": CONFIG.format(number), "unmanaged": True}))["experiment"]["id"]
        trial = json.loads(call("POST", "/api/v1/trials", {
            "experimentId": experiment, "hparams": {}, "unmanaged": True}))["trial"]["id"]
        self.change(trial, "STATE_RUNNING")
        return trial

    def change(self, trial, state):
        self.master.call("PATCH", f"/api/v1/trials/{trial}", {"trialId": trial, "state": state})

    def rate(self):
        return self.sent / self.seconds

    def run(self):
        try:
            self.send_all()
        except (OSError, RuntimeError) as fault:
            self.fault = fault

    def send_all(self):
        """Sends the reports of all trials in turn, evenly spaced in time."""
        turns = EXPERIMENTS * EVERY_S / EXPERIMENTS / EXPERIMENTS
        while not self.ends.is_set():
            at = self.sent % EXPERIMENTS
            time.sleep(max(0, self.began + self.sent * turns - time.monotonic()))
            if self.sent >= EXPERIMENTS:
                self.hear(self.connections[at])
            body = report(self.sent // EXPERIMENTS)
            self.connections[at].sendall(
                (f"POST /api/v1/trials/{self.trials[at]}/metrics HTTP/1.1\r\nHost: {self.master.host}\r\n"
                 f"Authorization: Bearer {self.master.token}\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
            self.sent += 1

    @staticmethod
    def hear(connection):
        answer = connection.recv(1 << 16)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"a report was refused: {answer[:300]}")
