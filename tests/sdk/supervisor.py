"""A stand-in for the socket of a task's supervisor, and the environment of a trial.

It answers each line like the real one, and keeps what it took. `refuse` and `full` make it answer
with errors.
"""

import json
import os
import pathlib
import socket
import threading


def refuse(word):
    raise ValueError(f"{word} is no JSON")


def whole(digits):
    number = int(digits)
    return number if -2**63 <= number < 2**63 else refuse(digits)


class Supervisor:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lines, self.connections, self.refused = [], [], []
        self.refuse = lambda message: ""  # the text of a refusal
        self.full = False  # whether the spool is full
        self.retry = lambda message: False  # whether to ask for the line again
        self.cut_after = -1  # breaks the connection after so many lines
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        here = os.open(self.folder, os.O_PATH)
        (self.folder / "report.sock").unlink(missing_ok=True)
        self.listener.bind(f"/proc/self/fd/{here}/report.sock")
        os.close(here)
        self.listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                answer = self._answer(line)
                self.refused += [answer["error"]] if "error" in answer else []
                try:
                    connection.sendall(json.dumps(answer).encode() + b"\n")
                except OSError:
                    return
                if self.cut_after >= 0 and len(self.lines) > self.cut_after:
                    self.cut_after = -1
                    connection.shutdown(socket.SHUT_RDWR)
                    return

    def _answer(self, line):
        if len(line) > 1 << 20:
            return {"error": "line: longer than 1 MiB"}
        try:
            message = json.loads(line, parse_constant=refuse, parse_int=whole)
            json.dumps(message, ensure_ascii=False).encode()  # fails where half a surrogate is
            if "\\u0000" in json.dumps(message):
                raise ValueError("NUL")
        except ValueError as error:
            return {"error": f"report: invalid JSON: {error}"}
        if len(message.get("metrics", ())) > 10_000:
            return {"error": "metrics: more than 10000 names"}
        if self.full or self.retry(message):
            return {"error": "the spool is full", "retry": True}
        text = self.refuse(message)
        if text:
            return {"error": text}
        self.lines.append(message)
        return {"sequence": len(self.lines)}

    def of_kind(self, kind):
        return [message for message in self.lines if message["kind"] == kind]

    def curve(self, name, group="training"):
        """The points of a metric: [(step, value)]."""
        points = []
        for message in self.of_kind("metrics"):
            if message["group"] == group and name in message["metrics"]:
                points += [(step, value) for step, value in zip(message["steps"], message["metrics"][name])
                           if value is not None]
        return points

    def environment(self, storage, **more):
        """The variables of a trial of this supervisor."""
        config = {"checkpoint_storage": {"type": "directory", "container_path": str(storage)}}
        return {"DET_MASTER": "http://127.0.0.1:9", "DET_SESSION_TOKEN": "ab" * 32, "DET_TRIAL_ID": "7",
                "DET_EXPERIMENT_ID": "3", "DET_CLUSTER_ID": "c1", "DET_ALLOCATION_ID": "3.task.1", "DET_TASK_ID": "3.task",
                "DET_TRIAL_SEED": "41", "DET_HPARAMS": '{"lr": 0.5}', "MUSTER_RUN_DIR": str(self.folder),
                "DET_EXPERIMENT_CONFIG": json.dumps(config), "DET_STEPS_COMPLETED": "0", **more}
