"""Completion as a user sees it: a shell on a terminal, a partial command line, and the Tab key."""

import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import time
import unittest

from cluster import BIN, SOURCE, Cluster

PROMPT = "ready>"
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
SETUP = {
    "bash": "bind 'set bell-style none'; bind 'set completion-query-items 0'; bind 'set page-completions off'; "
            "source <(muster completion bash); PS1='{0}'",
    "zsh": "unsetopt beep; autoload -U compinit; compinit -u -D; source <(muster completion zsh); PS1='{0}'",
}


class Terminal:
    """An interactive shell; all its output is in `seen`."""

    def __init__(self, shell, env):
        self.seen = ""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ.update({**env, "TERM": "dumb", "COLUMNS": "200"})
            os.execvp(START[shell][0], START[shell])
        self.type(SETUP[shell].format(PROMPT[:3] + "''" + PROMPT[3:]) + "\n")
        self.wait(PROMPT)

    def type(self, text):
        self.seen = ""
        os.write(self.file, text.encode())

    def wait(self, text, seconds=30):
        deadline = time.monotonic() + seconds
        while text not in self.seen and time.monotonic() < deadline:
            if select.select([self.file], [], [], 0.2)[0]:
                self.seen += os.read(self.file, 65536).decode(errors="replace").replace("\r", "").replace("\a", "")
        if text not in self.seen:
            raise AssertionError(f"timed out waiting for {text!r}; the output is {self.seen!r}")

    def completes(self, start, whole):
        self.type(start + "\t")
        self.wait(whole)
        self.type("\x15\n")  # discards the line
        self.wait(PROMPT)

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.file)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(1,)).__enter__()
        hello = SOURCE / "examples" / "hello"
        cls.experiment = cls.cluster.create(hello / "experiment.yaml", hello, "--paused",
                                            "--config", "resources.slots_per_trial=1")
        cls.cluster.muster("team", "create", "vision")
        cls.env = {**cls.cluster.env, "PATH": f"{BIN}:{os.environ['PATH']}"}
        pathlib.Path("trace.csv").touch()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def on_a_terminal(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed")
        terminal = Terminal(shell, self.env)
        try:
            terminal.completes("muster exper", "muster experiment ")
            terminal.completes("muster experiment unarc", "muster experiment unarchive ")
            terminal.completes("muster experiment create --validate-o", "--validate-only ")
            terminal.completes("muster experiment describe ", f"describe {self.experiment}")
            terminal.completes("muster agent describe ", "describe agent-0")
            terminal.completes("muster team members v", "members vision ")
            terminal.completes("muster queue list --pool d", "--pool default ")
            terminal.completes("muster queue list --pool=d", "--pool=default")
            terminal.completes("muster experiment list -o csv --state que", "--state queued ")
            terminal.completes("muster e move 1 vision d", "vision default ")
            terminal.completes("muster simulate --trace tra", "--trace trace.csv")
            terminal.completes("muster help sched", "help scheduling ")
        finally:
            terminal.end()

    def test_bash(self):
        self.on_a_terminal("bash")

    def test_zsh(self):
        self.on_a_terminal("zsh")

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")

        def offered(line):
            done = subprocess.run(["fish", "--no-config", "-c", 'muster completion fish | source; complete -C "$argv"',
                                   line], env=self.env, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.stderr, "")
            return dict(one.partition("\t")[::2] for one in done.stdout.splitlines())
        self.assertEqual(list(offered("muster exper")), ["experiment"])
        self.assertIn("Checkpoint", offered("muster experiment pau")["pause"])
        self.assertEqual(list(offered("muster experiment create --validate-o")), ["--validate-only"])
        self.assertEqual(offered("muster experiment describe "), {str(self.experiment): "hello"})
        self.assertEqual(list(offered("muster team members v")), ["vision"])
        self.assertEqual(list(offered("muster queue list --pool d")), ["default"])
        self.assertEqual(list(offered("muster queue list --pool=d")), ["--pool=default"])
        self.assertEqual(list(offered("muster e move 1 vision d")), ["default"])
        self.assertIn("trace.csv", offered("muster simulate --trace tra"))

    def test_silent_without_a_master(self):
        nobody = {**self.env, "MUSTER_MASTER": "http://127.0.0.1:1", "XDG_CONFIG_HOME": "/nonexistent"}
        done = subprocess.run(["muster", "complete-words", "bash", "--", "experiment", "describe", ""], env=nobody,
                              capture_output=True, text=True, timeout=30)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        done = subprocess.run(["muster", "completion", "csh"], env=nobody, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
