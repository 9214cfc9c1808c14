"""The agent alone, with a small fake master: tasks, logs, and the loss of processes and
connections."""

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import unittest

from agent_fixture import SECONDS, TOKEN, AgentTest, FakeMaster, alive, processes_below, task, tgz
from cluster import BIN, Daemon, wait_for


class RunningTasks(AgentTest):
    def test_two_ranks_and_their_log_lines(self):
        script = ('echo "INFO: hello from $RANK"; echo "[rank=7] WARNING: odd"; echo plain; '
                  'echo "ERROR: bad" >&2; printf "bar 1\\rbar 2\\r\\nno end"')
        self.start(a=task("a", script, ranks=2))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([(r["rank"], r["exitCode"], r["signal"]) for r in report["ranks"]],
                         [(0, 0, None), (1, 0, None)])
        self.assertEqual(report["reason"], "")
        order = ["STARTING", "RUNNING", "EXITED"]
        seen = self.master.history["a"]
        self.assertEqual(seen, [state for state in order if state in seen])
        self.forget("a")
        wait_for("the rest of the files to be removed", lambda: not list((self.work / "trash").iterdir()), SECONDS)
        lines = self.master.lines("a")
        self.assertEqual(len(lines), 14)
        for rank in (0, 1):
            mine = [(l["level"], l["log"]) for l in lines if l.get("rankId") == rank and
                    l["stdtype"] == "stdout"]
            self.assertEqual(mine, [("LOG_LEVEL_INFO", f"hello from {rank}"),
                                    ("LOG_LEVEL_INFO", "plain"), ("LOG_LEVEL_INFO", "bar 1"),
                                    ("LOG_LEVEL_INFO", "bar 2"), ("LOG_LEVEL_INFO", "no end")])
        self.assertEqual([l["level"] for l in lines if l.get("rankId") == 7],
                         ["LOG_LEVEL_WARNING"] * 2)
        errors = [l for l in lines if l["stdtype"] == "stderr"]
        self.assertEqual([(l["level"], l["log"]) for l in errors], [("LOG_LEVEL_ERROR", "bad")] * 2)
        self.assertTrue(all(l["taskId"] == "task-a" and l["agentId"] == "agent-0" and
                            l["allocationId"] == "a" and l["timestamp"] for l in lines))
        self.assertEqual(self.master.repeated, 0)

    def test_output_that_another_task_holds(self):
        """A task ends although a program of another task has a descriptor of its output and writes for ever."""
        name = f"muster-test-{os.getpid()}"
        other = ("import array, os, socket, threading\n"
                 f"s = socket.socket(socket.AF_UNIX)\ns.bind('\\0{name}')\ns.listen(1)\nprint('up', flush=True)\n"
                 "c, _ = s.accept()\nfd = array.array('i', c.recvmsg(1, 1024)[1][0][2])[0]\nos.set_blocking(fd, True)\n"
                 "def fill():\n    while True:\n        os.write(fd, b'x' * 65536)\n"
                 "for _ in range(3): threading.Thread(target=fill).start()\nc.send(b'k')\n")
        lends = ("import array, socket, time\n"
                 f"c = socket.socket(socket.AF_UNIX)\nc.connect('\\0{name}')\n"
                 "c.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])\nc.recv(1)\n"
                 "print('lent', flush=True)\ntime.sleep(1000)\n")
        python = ["/usr/bin/python3", "-c"]
        self.start(other=task("other", "", argv=[*python, other]))
        self.wait_line("other", "up")
        one = task("a", "", argv=[*python, lends])
        self.master.change(a=one)
        self.master.wait("a descriptor that is lent", lambda: self.master.logs["a"])
        self.master.change(a={**one, "action": "KILL", "graceSeconds": 0})
        self.master.wait("a to end", lambda: self.master.state("a") == "EXITED", 20)

    def test_machine_properties_reported_to_the_master(self):
        self.agent = self.make_agent(rack="r7")
        self.start()
        self.master.wait("a request", lambda: self.master.request)
        request = self.master.request
        self.assertEqual([s["id"] for s in request["slots"]], [0, 1, 2, 3])
        for slot in request["slots"]:
            self.assertEqual(slot["type"], "CPU")
            self.assertTrue(slot["name"] and slot["uuid"])
            self.assertGreater(slot["memory"], 1 << 20)
        self.assertEqual(request["address"], "127.0.0.1")
        self.assertEqual(request["pool"], "default")
        self.assertEqual(request["rack"], "r7")
        self.assertEqual(request["masterUrl"], self.master.url)
        self.assertTrue(request["hostname"] and request["session"] and request["version"])

    def test_environment_and_files(self):
        os.environ["NOT_FOR_TASKS"] = "1"
        self.master.contexts["task-a"] = tgz({"run.sh": "#!/bin/sh\necho \"in $(pwd)\"; env\n",
                                              "deep/file": "x"})
        one = task("a", "", ranks=2, argv=["./run.sh"],
                   contextUrl="/api/v1/tasks/task-a/context_directory")
        one["env"].update(COMMON="all", BOTH="all")
        for rank in one["ranks"]:
            rank["env"] = {"BOTH": f"only {rank['rank']}"}
        one["ranks"][0]["slots"], one["ranks"][1]["slots"] = [2], [3]
        self.start(a=one)
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([r["exitCode"] for r in report["ranks"]], [0, 0])
        self.assertEqual(self.inside("a", "deep/file").read_text(), "x")
        self.forget("a")
        for rank in "01":
            said = {l["log"] for l in self.master.lines("a") if l["rankId"] == int(rank)}
            for word in (f"in {self.work}/tasks/a/work", f"RANK={rank}", f"LOCAL_RANK={rank}",
                         "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "COMMON=all", f"BOTH=only {rank}",
                         "DET_AGENT_ID=agent-0", "DET_SLOT_IDS=[2,3]", "OMP_NUM_THREADS=1",
                         f"MUSTER_RUN_DIR={self.work}/tasks/a", f"HOME={os.environ['HOME']}"):
                self.assertIn(word, said)
            self.assertFalse([w for w in said if w.startswith("NOT_FOR_TASKS")])

    def hook(self, name, script, **more):
        """A task with the startup hook `script`."""
        self.master.contexts[f"task-{name}"] = tgz({"startup-hook.sh": script})
        return task(name, more.pop("run", 'echo "the program: $HOOKED $RANK"'),
                    contextUrl=f"/api/v1/tasks/task-{name}/context_directory", **more)

    def test_startup_hook_runs_once_before_the_ranks(self):
        one = self.hook("a", 'echo "the hook: $COMMON in $(pwd)"\nread word || echo nothing to read\n'
                             'export HOOKED="it is\nhooked" COMMON=changed RANK=7\n(sleep 1000 &)\n',
                        run='echo "$HOOKED|$COMMON|$RANK"', ranks=2)
        one["env"]["COMMON"] = "all"
        self.start(a=one)
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([r["exitCode"] for r in report["ranks"]], [0, 0])
        self.forget("a")
        said = self.master.texts("a")
        self.assertEqual(said[:2], [f"the hook: all in {self.work}/tasks/a/work", "nothing to read"])
        self.assertEqual(sorted(said[2:]), ["hooked|changed|0", "hooked|changed|1", "it is", "it is"])
        self.assertIn("startup-hook.sh runs before the program", self.master.texts("a", "agent"))

    def test_startup_hook_that_ends_its_shell_starts_the_program(self):
        self.start(a=self.hook("a", "export HOOKED=no\nexit 0\n"))
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.wait_line("a", "the program:  0")

    def test_failing_startup_hook_fails_the_start(self):
        self.agent.start()
        for name, script, how in (("a", "echo begins; echo no such package >&2; exit 3\n", "exit 3: no such package"),
                                  ("b", "false\necho goes on\n", "exit 1; it printed nothing"),
                                  ("c", "kill -9 $$\n", "killed by SIGKILL, and not by Muster")):
            self.master.change(**{name: self.hook(name, script)})
            report = self.master.wait_state(name, "EXITED")
            self.assertEqual(report["reason"], f"startup-hook.sh: {how}")
            self.assertEqual([(r["pid"], r["exitCode"]) for r in report["ranks"]], [(0, None)])
            self.forget(name)
            self.assertNotIn("goes on", self.master.texts(name))
            self.assertFalse([text for text in self.master.texts(name) if "the program" in text])
            self.assertIn("non-zero exit code: ", self.master.texts(name, "agent")[-1])

    def test_startup_hook_is_killed(self):
        slow = self.hook("a", "echo up\nsleep 1000\n")
        self.start(a=slow)
        self.wait_line("a", "up")
        self.assertEqual(self.master.reports["a"]["state"], "STARTING")
        self.master.change(a={**slow, "action": "KILL", "graceSeconds": 5})
        self.assertEqual(self.master.wait_state("a", "EXITED")["reason"], "told to end")

    def test_each_task_has_its_own_run_determined(self):
        script = 'cat /run/determined/info/cluster.json; echo; ls /run/determined/train; echo done'
        settings = {"DET_MASTER": "http://m:1", "DET_CLUSTER_ID": "c", "DET_SESSION_TOKEN": "s",
                    "DET_TASK_TYPE": "TRIAL"}
        tasks = {}
        for name in ("a", "b"):
            tasks[name] = task(name, script)
            tasks[name]["env"].update(settings, DET_TASK_ID=f"task-{name}")
        self.start(**tasks)
        for name in tasks:
            self.master.wait_state(name, "EXITED")
            self.forget(name)
            if any("/run/determined" in text for text in self.master.texts(name, "agent")):
                self.skipTest("no mount namespaces here: " + self.master.texts(name, "agent")[0])
            said = self.master.texts(name)
            self.assertEqual(json.loads(said[0]), {
                "master_url": "http://m:1", "cluster_id": "c", "agent_id": "agent-0",
                "slot_ids": [0], "task_id": f"task-{name}", "allocation_id": name,
                "session_token": "s", "task_type": "TRIAL", "master_cert_name": None,
                "master_cert_file": None, "latest_checkpoint": None})
            self.assertEqual([text for text in said if text][1:], ["logs", "model", "done"])
        self.assertFalse(pathlib.Path("/run/determined/info").exists())

    def mounts(self, *pairs, required=False, **more):
        for source, _ in pairs:
            pathlib.Path(source).mkdir(parents=True, exist_ok=True)
        return [{"source": str(source), "target": str(target), "readOnly": False, "propagation": "",
                 "required": required, **more} for source, target in pairs]

    def test_task_sees_folders_under_other_names(self):
        here = self.folder
        (here / "at").mkdir()
        one = task("a", 'echo data >../../../../at/file; echo more >inside/file; ls /proc/self/status; echo end',
                   mounts=self.mounts((here / "from", here / "at"), (here / "other", "inside")))
        self.start(a=one)
        self.assertEqual(self.master.wait_state("a", "EXITED")["reason"], "")
        self.forget("a")
        if any("no effect" in text for text in self.master.texts("a", "agent")):
            self.skipTest("no mount namespaces here")
        self.assertEqual((here / "from" / "file").read_text(), "data\n")
        self.assertEqual((here / "other" / "file").read_text(), "more\n")
        self.assertEqual(list((here / "at").iterdir()), [])
        self.assertEqual(self.master.request["mountFault"], "")

    def test_mounts_uncover_nothing(self):
        self.start(a=task("a", "echo secret; sleep 1000"))
        self.wait_line("a", "secret")
        (self.folder / "at").mkdir()
        script = f'cd {self.folder}/at; ls work/tasks; cat token; cat work/tasks/a/task.json; echo end'
        self.master.change(b=task("b", script, mounts=self.mounts((self.folder, self.folder / "at"))))
        self.master.wait_state("b", "EXITED")
        self.forget("b")
        warned = [text for text in self.master.texts("b", "agent") if "not hidden" in text or "no effect" in text]
        if warned:
            self.skipTest("no mount namespaces here: " + warned[0])
        self.assertEqual([text for text in self.master.texts("b") if not text.startswith("cat: ")], ["b", "end"])

    def test_mount_that_cannot_be_made_fails_the_task(self):
        self.agent.start()
        for name, pair, words in (("a", (self.folder / "from", "/proc/1"), "it would cover /proc"),
                                  ("b", (self.folder / "from", self.work / "tasks"), "it would cover a folder of the agent"),
                                  ("c", (self.folder / "from", self.folder), "it would cover a folder of the agent")):
            self.master.change(**{name: task(name, "echo runs", mounts=self.mounts(pair))})
            report = self.master.wait_state(name, "EXITED")
            self.forget(name)
            if any("no effect" in text for text in self.master.texts(name, "agent")):
                self.skipTest("no mount namespaces here")
            self.assertIn(f"cannot show {pair[0]} as {pair[1]}: {words}", report["reason"])
            self.assertEqual(self.master.texts(name), [])
        gone = [{**self.mounts((self.folder / "from", self.folder / "to"))[0], "source": str(self.folder / "none")}]
        self.master.change(d=task("d", "echo runs", mounts=gone))
        self.assertIn(f"this machine has no {self.folder}/none", self.master.wait_state("d", "EXITED")["reason"])

    def test_machine_without_mounts(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("only root can drop the capability")
        self.agent = Daemon("muster-agent", self.agent.arguments[1:], self.folder / "agent.log",
                            prefix=("setpriv", "--bounding-set=-sys_admin"))
        pair = (self.folder / "from", self.folder / "to")
        self.start(a=task("a", "echo runs", mounts=self.mounts(pair)),
                   b=task("b", "echo runs", mounts=self.mounts(pair, required=True)))
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.assertIn("this machine cannot show checkpoint_storage of type shared_fs to the program (cannot enter a mount "
                      "namespace: Operation not permitted); use type directory", self.master.wait_state("b", "EXITED")["reason"])
        self.assertIn("cannot enter a mount namespace", self.master.request["mountFault"])
        self.forget("a")
        self.forget("b")
        self.assertEqual([self.master.texts(name) for name in "ab"], [["runs"], []])
        self.assertTrue([text for text in self.master.texts("a", "agent") if "bind_mounts have no effect" in text])

    def test_task_cannot_see_other_tasks(self):
        self.start(a=task("a", "touch ready; echo secret; sleep 1000"))
        self.wait_line("a", "secret")
        script = ('ls ../..; cat ../../a/task.json; ls ../../../trash; cat "$TOKEN_FILE"; ls ../../../tasks; '
                  'pwd; echo mine >file; cat ../${PWD##*/}/file; touch ../../x; mkdir ../../y; echo end')
        look = task("b", script)
        look["env"].update(DET_SESSION_TOKEN="other", TOKEN_FILE=str(self.folder / "token"))
        self.master.change(b=look)
        self.master.wait_state("b", "EXITED")
        self.forget("b")
        warned = [text for text in self.master.texts("b", "agent") if "not hidden" in text or "/run/determined" in text]
        if warned:
            self.skipTest("no mount namespaces here: " + warned[0])
        said = [text for text in self.master.texts("b") if text and ": cannot" not in text and "cat:" not in text]
        self.assertEqual(said, ["b", "b", f"{self.work}/tasks/b/work", "mine", "end"])
        self.assertEqual(sorted(p.name for p in (self.work / "tasks").iterdir()), ["a"])
        self.assertEqual((self.folder / "token").read_text(), TOKEN + "\n")

    def test_programs_of_muster_are_found_beside_the_agent(self):
        self.start(a=task("a", "", native=True, argv=["muster-agent", "--version"]))
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.wait_line("a", self.agent_version())

    def agent_version(self):
        return subprocess.run([BIN / "muster-agent", "--version"], capture_output=True, text=True,
                              check=True).stdout.strip()

    def test_long_line_is_cut_and_large_output_arrives_once(self):
        script = "head -c 200000 /dev/zero | tr '\\0' x; echo; seq 1 20000"
        self.start(a=task("a", script))
        self.master.wait_state("a", "EXITED")
        self.forget("a")
        first, *rest = self.master.texts("a")
        self.assertTrue(first.startswith("xxxx"))
        self.assertTrue(first.endswith("x [cut: the line has 200000 bytes]"))
        self.assertLessEqual(len(first), 65536)
        self.assertEqual(rest, [str(n) for n in range(1, 20001)])

    def test_line_with_control_bytes_is_kept(self):
        self.start(a=task("a", r"printf 'one\000two\n\000\n\001bell\007\n\033[1mbold\tend\n'"))
        self.master.wait_state("a", "EXITED")
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["one\ufffdtwo", "\ufffd", "\ufffdbell\ufffd", "\x1b[1mbold\tend"])

    def test_logs_wait_while_the_master_does_not_accept_them(self):
        self.master.logs_status = 503
        self.start(a=task("a", "seq 1 3000"))
        self.master.wait_state("a", "EXITED")
        self.assertEqual(self.master.logs["a"], {})
        with self.master.changed:
            self.master.logs_status = 429
        time.sleep(0.5)
        with self.master.changed:
            self.master.logs_status = 200
        self.forget("a")
        self.assertEqual(self.master.texts("a"), [str(n) for n in range(1, 3001)])


class EndingTasks(AgentTest):
    def test_failing_rank_ends_the_other_rank(self):
        self.start(a=task("a", 'echo up; if [ $RANK = 1 ]; then exit 3; fi; sleep 1000', ranks=2))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([(r["exitCode"], r["signal"]) for r in report["ranks"]],
                         [(None, signal.SIGTERM), (3, None)])
        self.assertIn("rank 1: exit 3", report["reason"])
        self.wait_line("a", "rank 1: exit 3; ending the other ranks")

    def test_rank_that_ignores_sigterm_is_killed(self):
        script = ('if [ $RANK = 1 ]; then while [ ! -e ready ]; do sleep 0.05; done; '
                  'kill -SEGV $$; fi; trap "" TERM; touch ready; while :; do sleep 0.05; done')
        self.start(a=task("a", script, ranks=2))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual([r["signal"] for r in report["ranks"]], [signal.SIGKILL, signal.SIGSEGV])

    def test_kill_order(self):
        polite = 'trap "echo bye; exit 5" TERM; echo up; while :; do sleep 0.05; done'
        rude = 'trap "" TERM; echo up; while :; do sleep 0.05; done'
        self.start(a=task("a", polite), b=task("b", rude))
        self.wait_line("a", "up")
        self.wait_line("b", "up")
        self.master.change(a=task("a", polite, action="KILL", grace=60),
                           b=task("b", rude, action="KILL", grace=1))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual(report["ranks"][0]["exitCode"], 5)
        self.wait_line("a", "bye")
        report = self.master.wait_state("b", "EXITED")
        self.assertEqual(report["ranks"][0]["signal"], signal.SIGKILL)

    def test_tasks_not_named_by_the_master_are_ended(self):
        self.start(a=task("a", "echo up; sleep 1000", grace=20))
        self.wait_line("a", "up")
        self.master.change(a=None)
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual(report["ranks"][0]["signal"], signal.SIGTERM)

    def test_end_is_reported_without_waiting_for_the_parked_call(self):
        self.start(a=task("a", "echo up; while [ ! -e stop ]; do sleep 0.01; done"))
        self.master.wait_state("a", "RUNNING")
        self.wait_line("a", "up")
        with self.master.changed:
            dropped = self.master.dropped
        self.inside("a", "stop").touch()
        self.master.wait_state("a", "EXITED")
        self.assertGreater(self.master.dropped, dropped)

    def test_task_killed_while_waiting_for_its_files(self):
        context = "/api/v1/tasks/task-a/context_directory"
        self.start(a=task("a", "echo", contextUrl=context))
        self.master.wait_state("a", "STARTING")
        wait_for("the message", lambda: "waits for its files" in self.agent.tail(), SECONDS)
        self.master.change(a=task("a", "echo", contextUrl=context, action="KILL"))
        self.assertIn("before it was started", self.master.wait_state("a", "EXITED")["reason"])
        self.forget("a")

    def test_files_that_arrive_late(self):
        self.start(a=task("a", "cat file", contextUrl="/api/v1/tasks/task-a/context_directory"))
        wait_for("the message", lambda: "waits for its files" in self.agent.tail(), SECONDS)
        self.master.contexts["task-a"] = tgz({"file": "late"})
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["late"])

    def test_orphaned_processes_are_ended(self):
        script = ('setsid sh -c "echo \\$\\$ >left; trap \\"\\" TERM; '
                  'while :; do sleep 0.05; done" & while [ ! -s left ]; do sleep 0.05; done')
        self.start(a=task("a", script))
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual(report["ranks"][0]["exitCode"], 0)
        self.assertTrue(self.inside("a", "left").read_text())
        self.assertEqual(self.processes_of("a"), [])

    def test_missing_programs_and_files(self):
        self.master.contexts.update({"task-b": base64.b64encode(b"no archive").decode(),
                                     "task-c": "?"})
        context = "/api/v1/tasks/task-{}/context_directory"
        self.start(a=task("a", "", argv=["no-such-program", "x"]),
                   b=task("b", "echo", contextUrl=context.format("b")),
                   c=task("c", "echo", contextUrl=context.format("c")),
                   d=task("d", "echo", ranks=9))
        for name, reason in {"a": "no-such-program", "b": "cannot fetch the files of the experiment",
                             "c": "holds no archive", "d": "slot 4 is not on this machine"}.items():
            report = self.master.wait_state(name, "EXITED")
            self.assertIn(reason, report["reason"])
            self.assertTrue(all(r["exitCode"] is None for r in report["ranks"]))
        for name in "abcd":
            self.forget(name)
        self.assertIn("no-such-program", " ".join(self.master.texts("a", "agent")))
        self.assertIn("cannot fetch the files", " ".join(self.master.texts("b", "agent")))

    def test_supervisor_that_cannot_start_reports_the_reason(self):
        self.start()
        self.master.wait("a request", lambda: self.master.request)
        (self.work / "tasks/a/log.spool").mkdir(parents=True)
        self.master.change(a=task("a", "echo"))
        reason = self.master.wait_state("a", "EXITED")["reason"]
        self.assertIn("supervisor did not start: ", reason)
        self.assertIn("log.spool", reason)
        self.forget("a")

    def test_nothing_is_started_twice(self):
        count = self.folder / "count"
        script = f"echo started >>{count}; exit 0"
        self.start(a=task("a", script))
        self.master.wait_state("a", "EXITED")
        # The end is delivered again: once more, as a late kill order and a late run order, and to
        # another agent.
        for again in (task("a", script), task("a", script, action="KILL"), task("a", script)):
            self.master.change(a=again)
            self.wait_seen()
        self.agent.kill9()
        self.master.change()
        self.agent.start()
        self.wait_seen()
        # A task that is first named in a kill order is not started by a late run order.
        self.master.change(b=task("b", script, action="KILL"))
        self.assertIn("never started", self.master.wait_state("b", "EXITED")["reason"])
        self.master.change(b=task("b", script))
        self.wait_seen()
        self.assertEqual(self.master.state("a"), "EXITED")
        self.assertEqual(self.master.state("b"), "EXITED")
        self.assertEqual(count.read_text(), "started\n")


class Restarts(AgentTest):
    COUNT = ('i=0; while [ ! -e stop ]; do i=$((i+1)); echo "line $i"; sleep 0.01; done; '
             'echo "end $i"')
    COUNT_7 = COUNT + "; exit 7"

    def check_all_lines(self, name, ranks):
        for rank in range(ranks):
            said = [l["log"] for l in self.master.lines(name) if l.get("rankId") == rank]
            *lines, end = said
            self.assertEqual(end, f"end {len(lines)}")
            self.assertEqual(lines, [f"line {n}" for n in range(1, len(lines) + 1)])

    def stop_counting(self, name):
        self.inside(name, "stop").touch()
        return self.master.wait_state(name, "EXITED")

    def test_kill_the_agent_again_and_again(self):
        self.start(a=task("a", self.COUNT, ranks=2))
        self.wait_line("a", "line 20")
        pids = [r["pid"] for r in self.master.wait_state("a", "RUNNING")["ranks"]]
        for _ in range(4):
            self.agent.kill9()
            self.assertTrue(all(map(alive, pids)))
            with self.master.changed:
                before, self.master.reports = len(self.master.logs["a"]), {}
            self.agent.start()
            report = self.master.wait_state("a", "RUNNING")
            self.assertEqual([r["pid"] for r in report["ranks"]], pids)
            self.master.wait("new lines", lambda: len(self.master.logs["a"]) > before + 20)
        report = self.stop_counting("a")
        self.assertEqual([r["exitCode"] for r in report["ranks"]], [0, 0])
        self.forget("a")
        self.check_all_lines("a", 2)

    def test_task_ends_while_the_agent_is_down(self):
        self.start(a=task("a", self.COUNT_7))
        self.wait_line("a", "line 5")
        self.master.wait_state("a", "RUNNING")
        self.agent.kill9()
        self.inside("a", "stop").touch()
        wait_for("the supervisor to exit", lambda: not processes_below(self.work), SECONDS)
        self.agent.start()
        report = self.master.wait_state("a", "EXITED")
        self.assertEqual(report["ranks"][0]["exitCode"], 7)
        self.forget("a")
        self.check_all_lines("a", 1)

    def test_stopping_the_agent_leaves_the_task(self):
        self.start(a=task("a", self.COUNT))
        self.wait_line("a", "line 5")
        pid = self.master.wait_state("a", "RUNNING")["ranks"][0]["pid"]
        self.agent.stop()
        self.assertEqual(self.agent.process.returncode, 0)
        self.assertTrue(alive(pid))
        self.agent.start()
        self.stop_counting("a")
        self.forget("a")
        self.check_all_lines("a", 1)

    def test_kill_the_master(self):
        self.start(a=task("a", self.COUNT))
        self.wait_line("a", "line 5")
        old = self.master
        old.close()
        time.sleep(1)
        self.master = FakeMaster(old.port)
        self.master.logs, self.master.version = old.logs, 1  # the restarted master kept its store
        self.master.change(a=old.desired["a"])
        self.master.wait_state("a", "RUNNING")
        self.stop_counting("a")
        self.forget("a")
        self.check_all_lines("a", 1)
        log = self.agent.tail(1000)
        self.assertEqual(log.count("no connection to the master"), 1)
        self.assertEqual(log.count("connected to the master"), 2)

    def test_kill_the_supervisor(self):
        script = 'setsid sleep 1000 & echo $! >child; echo up; sleep 1000'
        self.start(a=task("a", script, ranks=2))
        report = self.master.wait_state("a", "RUNNING")
        self.master.wait("both ranks", lambda: len(self.master.logs["a"]) == 2)
        pids = [r["pid"] for r in report["ranks"]]
        self.assertEqual(len(self.processes_of("a")), 6)  # with two children that have left their session
        os.kill(self.supervisor("a"), signal.SIGKILL)
        report = self.master.wait_state("a", "EXITED")
        self.assertIn("supervisor lost", report["reason"])
        self.assertFalse([pid for pid in pids if alive(pid)])
        self.assertEqual(self.processes_of("a"), [])
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["up", "up"])
        self.assertIn("supervisor lost", self.master.texts("a", "agent")[-1])

    def gone(self, pids):
        wait_for("all processes to be gone", lambda: not [pid for pid in pids if alive(pid)], SECONDS)

    def test_the_folder_of_a_task_is_deleted(self):
        self.start(a=task("a", "trap '' TERM; echo up; while :; do sleep 0.1; done", ranks=2))
        pids = [r["pid"] for r in self.master.wait_state("a", "RUNNING")["ranks"]]
        pids.append(self.supervisor("a"))
        shutil.rmtree(self.work / "tasks" / "a")
        self.assertEqual(self.master.wait_state("a", "EXITED")["reason"],
                         "supervisor lost: its folder was deleted")
        self.gone(pids)
        self.forget("a")
        self.assertIn("the folder of a task was deleted", self.agent.tail(100))
        self.master.change(b=task("b", "echo started"))
        self.assertEqual(self.master.wait_state("b", "EXITED")["ranks"][0]["exitCode"], 0)

    def test_the_work_folder_is_deleted(self):
        self.start(a=task("a", "echo up; sleep 1000", ranks=2))
        pids = [r["pid"] for r in self.master.wait_state("a", "RUNNING")["ranks"]]
        pids.append(self.supervisor("a"))
        shutil.rmtree(self.work)
        self.gone(pids)
        self.assertNotEqual(self.agent.process.wait(SECONDS), 0)
        self.assertIn(f"{self.work} was deleted", self.agent.tail(100))

    def test_the_work_folder_is_deleted_while_there_is_no_agent(self):
        self.start(a=task("a", "setsid sleep 1000 & echo up; sleep 1000"))
        pids = [self.master.wait_state("a", "RUNNING")["ranks"][0]["pid"], self.supervisor("a")]
        self.wait_line("a", "up")
        pids += processes_below(self.work)
        self.agent.kill9()
        shutil.rmtree(self.work)
        self.gone(pids)

    def test_unsupervised_processes_are_ended_at_start(self):
        def stranger(folder):
            process = subprocess.Popen(["sleep", "1000"], cwd=self.folder,
                                       env={"MUSTER_RUN_DIR": str(folder), "PATH": os.environ["PATH"]})
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            return process
        (self.work / "tasks").mkdir(parents=True)
        ghost = stranger(self.work / "tasks" / "ghost")
        others = [stranger(self.folder / "elsewhere" / "tasks" / "ghost"),
                  stranger(f"{self.work}/tasks2/ghost"), stranger(self.work)]
        self.agent.start()
        self.assertEqual(ghost.wait(SECONDS), -signal.SIGKILL)
        self.master.wait("the agent", lambda: self.master.request)
        self.assertEqual([process.poll() for process in others], [None] * 3)
        self.assertIn("folders were deleted", self.agent.tail(100))

    def test_agent_keeps_its_identity_with_its_folder(self):
        def instance():
            with self.master.changed:
                self.master.request = None
            self.agent.start()
            self.master.wait("the agent", lambda: self.master.request)
            self.agent.kill9()
            return self.master.request["instance"]
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        first = instance()
        self.assertRegex(first, r"^[0-9a-f-]{36}\." + boot + "$")
        self.assertEqual(instance(), first)
        shutil.rmtree(self.work)
        self.assertNotEqual(instance(), first)

    def test_kill_the_supervisor_launcher(self):
        self.start(a=task("a", self.COUNT))
        self.wait_line("a", "line 5")
        parent = int(pathlib.Path(f"/proc/{self.supervisor('a')}/stat").read_text().rsplit(")", 1)[1].split()[1])
        self.assertEqual(os.readlink(f"/proc/{parent}/exe"), str(BIN / "muster-supervisor"))
        os.kill(parent, signal.SIGKILL)
        wait_for("its end", lambda: not alive(parent), SECONDS)
        self.master.change(b=task("b", "echo started"))
        self.assertEqual(self.master.wait_state("b", "EXITED")["ranks"][0]["exitCode"], 0)
        self.assertEqual(self.stop_counting("a")["ranks"][0]["exitCode"], 0)
        self.forget("a")
        self.check_all_lines("a", 1)

    def test_kill_the_agent_and_the_supervisor(self):
        self.start(a=task("a", "echo up; sleep 1000"))
        self.wait_line("a", "up")
        self.master.wait_state("a", "RUNNING")
        supervisor = self.supervisor("a")
        self.agent.kill9()
        os.kill(supervisor, signal.SIGKILL)
        with self.master.changed:
            self.master.reports = {}
        self.agent.start()
        self.assertIn("supervisor lost", self.master.wait_state("a", "EXITED")["reason"])
        self.assertEqual(processes_below(self.work), [])
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["up"])

    def test_kill_the_agent_before_the_files_arrive(self):
        fetching = threading.Event()
        go_on = threading.Event()
        archive = tgz({"file": "x"})

        class Slow(dict):
            def get(self, _):
                fetching.set()
                go_on.wait(SECONDS)
                return archive

        self.master.contexts = Slow()
        self.start(a=task("a", "echo up; cat file", contextUrl="/api/v1/tasks/a/context_directory"))
        self.assertTrue(fetching.wait(SECONDS))
        self.assertEqual(self.master.wait_state("a", "STARTING")["ranks"], [])
        self.agent.kill9()
        self.assertTrue(self.work.joinpath("tasks/a/task.json").exists())
        with self.master.changed:
            self.master.reports = {}
            del self.master.desired["a"]["env"]  # as for a task that the agent already knows
        self.agent.start()
        self.master.wait_state("a", "STARTING")
        go_on.set()
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.forget("a")
        self.assertEqual(self.master.texts("a"), ["up", "x"])

    def test_task_that_an_older_release_has_prepared(self):
        """It names no protections, so it must not start without them."""
        self.start(a=task("a", "echo up", contextUrl="/api/v1/tasks/a/context_directory"))
        self.master.wait_state("a", "STARTING")
        wait_for("the message", lambda: "waits for its files" in self.agent.tail(), SECONDS)
        self.agent.kill9()
        path = self.work / "tasks/a/task.json"
        spec, *rest = path.read_bytes().split(b"\n")
        old = json.loads(spec)
        del old["protections"]
        path.write_bytes(b"\n".join([json.dumps(old).encode(), *rest]))
        self.agent.start()
        self.assertIn("older release", self.master.wait_state("a", "EXITED")["reason"])


class Refusals(AgentTest):
    def test_wrong_token(self):
        (self.folder / "wrong").write_text("wrong\n")
        code, said = self.run_agent(**{"token-file": self.folder / "wrong"})
        self.assertEqual(code, 4)
        self.assertIn("does not accept the token", said)
        (self.folder / "wrong").write_text("\n")
        code, said = self.run_agent(**{"token-file": self.folder / "wrong"})
        self.assertEqual(code, 2)
        code, said = self.run_agent(**{"token-file": self.folder / "nowhere"})
        self.assertEqual(code, 3)

    def test_work_folder_of_another_agent(self):
        self.start()
        self.master.wait("the first agent", lambda: self.master.request)
        code, said = self.run_agent(id="agent-1")
        self.assertEqual(code, 5)
        self.assertIn("another agent works in", said)

    def test_unusable_work_folder(self):
        (self.folder / "file").write_text("")
        code, said = self.run_agent(**{"work-dir": self.folder / "file" / "work"})
        self.assertNotEqual(code, 0)
        self.assertIn("--work-dir", said)

    def test_flags(self):
        for flags, word in (({"slots": 0}, "slots"), ({"slots": 1025}, "slots"),
                            ({"master": "ftp://x"}, "--master"), ({"gpus": "some"}, "--gpus"),
                            ({"log-level": "loud"}, "--log-level"), ({"id": "a/b"}, "--id"),
                            ({"slot": 1}, "--slots")):
            code, said = self.run_agent(**flags)
            self.assertEqual(code, 2, flags)
            self.assertIn(word, said)
        help_text = subprocess.run([BIN / "muster-agent", "--help"], capture_output=True, text=True,
                                   check=True).stdout
        for word in ("--master", "--token-file", "--work-dir", "--id", "--slots", "--gpus", "--rack"):
            self.assertIn(word, help_text)

    def test_another_agent_with_the_same_id(self):
        self.master.sync_status = 409
        self.agent.start()
        wait_for("the message", lambda: "give each agent its own --id" in self.agent.tail(), SECONDS)
        with self.master.changed:
            self.master.sync_status = 200
        self.master.wait("the agent, after the other agent stopped", lambda: self.master.request)

    def test_master_starts_after_the_agent(self):
        port = self.master.port
        self.master.close()
        self.agent.start()
        wait_for("the message", lambda: "no connection" in self.agent.tail(), SECONDS)
        time.sleep(0.5)
        self.assertEqual(self.agent.tail(100).count("no connection"), 1)
        self.master = FakeMaster(port)
        self.master.wait("the agent", lambda: self.master.request)

    def test_malformed_answer_changes_nothing(self):
        self.start(a=task("a", "echo up; sleep 1000"))
        self.wait_line("a", "up")
        pid = self.master.wait_state("a", "RUNNING")["ranks"][0]["pid"]
        self.master.change(a=None, b=task("../b", "echo"))
        wait_for("the message", lambda: "tasks.0.allocationId" in self.agent.tail(), SECONDS)
        self.assertTrue(alive(pid))


if __name__ == "__main__":
    unittest.main(verbosity=2)
