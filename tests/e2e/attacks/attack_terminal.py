"""A user with the role editor writes escape sequences into everything that others read on a
terminal.

The attacker submits an experiment whose name, labels, description, notes, metadata and log lines
contain control characters, in UTF-8 and as raw bytes, bidirectional controls and separators, and
comments on it. The victim lists, describes, follows and exports these objects with `muster` on a
terminal (a pty). No byte that a terminal interprets may arrive there, while pipes and JSON carry
the text unchanged. Cells of CSV hold no formulas.
"""

import csv
import io
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import time
import unittest
import urllib.request

from cluster import BIN, PASSWORD, Cluster

ESCAPES = "\x1b]0;owned\x07\x1b[2J\u009b31m\x7f\u202egnp.exe\u2066\u200f\u061c\u2028\x85\x08\r"
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
TASK = """\
import sys
sys.stdout.buffer.write(%s.encode() + b"\\nbare \\x9b31m \\xff \\x1b[31mred\\n")
sys.stderr.buffer.write(b"\\x1b]52;c;ZXZpbA==\\x07 clipboard\\n")
"""
CONFIG = """\
name: {text}
description: {text}
labels: [{text}]
entrypoint: python3 task.py
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: loss}}
"""


def on_terminal(arguments, env, seconds=30):
    """Returns (exit code, bytes) of a program on a terminal of its own, without the \\r that the
    terminal adds before \\n."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(arguments[0], arguments, env)
    data, deadline = b"", time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.5)[0]:
                try:
                    piece = os.read(terminal, 65536)
                except OSError:  # the other side was closed
                    break
                if not piece:
                    break
                data += piece
        else:
            os.kill(pid, 9)
            raise AssertionError(f"{arguments} did not end within {seconds} s: {data!r}")
    finally:
        os.close(terminal)
        status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status), data.replace(b"\r\n", b"\n")


def get(cluster, path):
    """Returns the text that the master sends to an administrator."""
    login = urllib.request.Request(f"http://127.0.0.1:{cluster.port}/api/v1/auth/login", json.dumps(
        {"username": "admin", "password": PASSWORD, "isHashed": False}).encode())
    with urllib.request.urlopen(login, timeout=30) as answer:
        token = json.load(answer)["token"]
    request = urllib.request.Request(f"http://127.0.0.1:{cluster.port}{path}",
                                     headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


class Terminal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("terminal", slots=(1,)).__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        folder = cls.cluster.folder
        (folder / "context").mkdir(exist_ok=True)
        (folder / "context/task.py").write_text(TASK % ascii(ESCAPES))
        (folder / "hostile.yaml").write_text(CONFIG.format(text=json.dumps(ESCAPES)))
        cls.experiment = cls.cluster.create(folder / "hostile.yaml", folder / "context")
        cls.cluster.wait(cls.experiment)
        cls.cluster.muster("login", "admin", "--password-file", folder / "password")
        cls.trial = cls.cluster.trial(cls.experiment)["id"]

    def terminal(self, *arguments, code=0):
        got, data = on_terminal([str(BIN / "muster"), *map(str, arguments)], self.cluster.env)
        self.assertEqual(got, code, data)
        return data

    def assert_tame(self, data, own=()):
        """`own` names the sequences of the program itself."""
        for sequence in own:
            data = data.replace(sequence, b"")
        text = data.decode()  # fails on bytes that are not UTF-8
        found = ACTS.search(text)
        self.assertIsNone(found, found and f"{found[0]!r} in {text!r}")
        return text

    def test_terminal_controls_do_not_reach_the_terminal(self):
        for arguments in (["experiment", "list"], ["experiment", "describe", self.experiment],
                          ["experiment", "list", "-o", "json"], ["experiment", "list", "-o", "jsonl"],
                          ["experiment", "list", "-o", "csv", "--columns", "id,name,labels"],
                          ["experiment", "config", self.experiment], ["experiment", "logs", self.experiment],
                          ["trial", "logs", self.trial], ["trial", "logs", self.trial, "-o", "json"],
                          ["api", "GET", f"/api/v1/experiments/{self.experiment}"],
                          ["audit", "list"], ["master", "logs", "--tail", "50"]):
            with self.subTest(" ".join(map(str, arguments))):
                self.assert_tame(self.terminal(*arguments))
        text = self.assert_tame(self.terminal("experiment", "describe", self.experiment))
        self.assertIn(r"\u001b]0;owned\u0007\u001b[2J\u009b31m\u007f\u202egnp.exe", text)
        logs = self.assert_tame(self.terminal("experiment", "logs", self.experiment))
        self.assertIn(r"\u001b[31mred" "\n", logs)

    def test_following_and_watching_send_only_their_own_sequences(self):
        own = (b"\r\x1b[K",)
        data = self.terminal("experiment", "follow", self.experiment)
        self.assertIn(own[0], data)  # the command redraws a terminal
        self.assert_tame(data, own)

    def test_error_messages_are_escaped(self):
        for arguments in (["experiment", "describe", ESCAPES], ["checkpoint", "describe", ESCAPES],
                          ["api", "GET", f"/api/v1/models/x{ESCAPES.replace(chr(13), '')}"], [ESCAPES]):
            with self.subTest(arguments[0]):
                code, data = on_terminal([str(BIN / "muster"), *map(str, arguments)], self.cluster.env)
                self.assertNotEqual(code, 0)
                self.assert_tame(data)
        broken = on_terminal([str(BIN / "muster"), b"experiment\x9b31m"], self.cluster.env)[1]
        self.assertIn(rb"experiment\x9b31m", broken)

    def test_pipes_carry_the_text_unchanged(self):
        described = self.cluster.rows("experiment", "describe", self.experiment)
        self.assertEqual(described["name"], ESCAPES)
        logs = subprocess.run([BIN / "muster", "experiment", "logs", str(self.experiment)], env=self.cluster.env,
                              capture_output=True, timeout=60, check=True).stdout
        self.assertIn(b"\x1b[31mred\n", logs)

    def test_log_of_the_master_is_escaped(self):
        self.cluster.run("login", "nobody" + ESCAPES, "--password-file", self.cluster.folder / "password")
        text = pathlib.Path(self.cluster.master.log_path).read_bytes().decode()
        self.assertIsNone(ACTS.search(text))

    def test_csv_has_no_formulas(self):
        (self.cluster.folder / "formula.yaml").write_text(
            CONFIG.format(text=json.dumps('=HYPERLINK("http://127.0.0.1/?x="&A1,"open")')))
        formula = self.cluster.create(self.cluster.folder / "formula.yaml", self.cluster.folder / "context")
        self.cluster.wait(formula)
        table = self.cluster.muster("experiment", "list", "-o", "csv", "--columns", "id,name,labels")
        used = get(self.cluster, "/resources/allocation/raw?timestampAfter=2020-01-01T00:00:00Z"
                                 "&timestampBefore=2100-01-01T00:00:00Z")
        self.assertIn("HYPERLINK", used)
        cells = [cell for text in (table, used) for row in csv.reader(io.StringIO(text)) for cell in row]
        self.assertTrue(any("HYPERLINK" in cell for cell in cells), table)
        self.assertEqual([cell for cell in cells if re.match(r"[=+@\t\r]|-(?![\d.])", cell)], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
