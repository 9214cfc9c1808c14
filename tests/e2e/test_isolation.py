"""What a task can reach on its machine: a program that attacks the agent, its neighbours and the machine, in tasks of an
agent that runs as root, with accounts, and of one that does not, with user namespaces."""

import contextlib
import grp
import json
import os
import pathlib
import pwd
import shutil
import stat
import subprocess
import tempfile
import unittest

from agent_fixture import AgentTest, alive, processes_below, task, tgz
from cluster import wait_for

ATTACKS = (pathlib.Path(__file__).parent / "programs" / "isolation_attacks.py").read_text()
VICTIM_UID, ATTACKER_UID, OTHER_UID = 20001, 20002, 65533
# A program that is worth an attack: it has a secret in its environment, a file, /tmp, shared memory and System V memory.
VICTIM = """\
import ctypes, os, time
for path in ("file", "/tmp/victim", "/dev/shm/victim"):
    with open(path, "w") as out:
        out.write("the secret of the victim")
    os.chmod(path, 0o666)
assert ctypes.CDLL(None).shmget(0x4d75, 4096, 0o1666) >= 0
print("up", flush=True)
time.sleep(1000)
"""


def account(uid):
    return {"uid": uid, "gid": uid, "user": f"account-{uid}", "group": f"account-{uid}"}


def owner(path):
    return path.stat().st_uid


class IsolationTest(AgentTest):
    flags, prefix = (), ()
    needed = ("files", "processes", "temporary", "devices", "privileges", "system_calls")

    def setUp(self):
        super().setUp()
        for folder in (self.folder.parent, self.folder):
            folder.chmod(0o711)
        closed = [str(folder) for folder in self.folder.parents if not folder.stat().st_mode & 0o001]
        if closed:
            self.skipTest(f"other accounts cannot pass through {closed[0]}: run the tests in a folder that is open to them")
        (self.folder / "token").chmod(0o600)
        self.sign_in()

    def sign_in(self):
        """The folder of sessions of a user, as where somebody has signed in: systemd's manager of services listens there."""
        if os.geteuid() != 0:
            return
        top = pathlib.Path("/run/user")
        if not top.exists():
            top.mkdir(exist_ok=True)
            self.addCleanup(self.remove_if_empty, top)
        folder = pathlib.Path(tempfile.mkdtemp(dir=top, prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        (folder / "bus").touch()

    def remove_if_empty(self, folder):
        with contextlib.suppress(OSError):  # another run of the tests uses it
            folder.rmdir()

    def make_agent(self, **flags):
        agent = super().make_agent(**flags)
        words = [word for word in agent.arguments if word != "--tasks-as-root"]
        agent.arguments = [*self.prefix, *words, *self.flags]
        return agent

    def program(self, name, text, **more):
        """A task that runs a Python program with the environment and account `more`."""
        self.master.contexts[f"task-{name}"] = tgz({"program.py": text})
        one = task(name, "", argv=["/usr/bin/python3", "program.py"], ranks=1,
                   contextUrl=f"/api/v1/tasks/task-{name}/context_directory",
                   **{key: value for key, value in more.items() if key == "account"})
        one["env"].update(more.get("env", {}))
        return one

    def protections(self):
        self.master.wait("a request", lambda: self.master.request)
        return {one["name"]: one for one in self.master.request["protections"]}

    def need(self, *names):
        known = self.protections()
        for name in names:
            if not known[name]["active"]:
                self.skipTest(f"this machine cannot give the protection {name}: {known[name]['reason']}")

    def attack(self, **more):
        """Starts a victim and then the attacks, and returns what the attacker has reached."""
        self.agent.start()
        self.need(*self.needed)
        self.master.change(victim=self.program("victim", VICTIM, env={"VICTIM_SECRET": "the secret of the victim"},
                                               **more.get("victim", {})))
        self.wait_line("victim", "up")
        victim = self.master.reports["victim"]["ranks"][0]["pid"]
        plain = shutil.copy("/usr/bin/id", self.folder / "set-user-id")
        os.chmod(plain, 0o6755)
        env = {"WORK_DIR": str(self.work), "TOKEN_FILE": str(self.folder / "token"), "SET_USER_ID": str(plain),
               "TARGETS": json.dumps([victim, self.supervisor("victim"), self.agent.process.pid, os.getpid()])}
        self.master.change(attacker=self.program("attacker", ATTACKS, env=env, **more.get("attacker", {})))
        report = self.master.wait_state("attacker", "EXITED")
        said = self.master_texts("attacker")
        self.assertEqual(report["ranks"][0]["exitCode"], 0, "\n".join(said))
        if self.needed == IsolationTest.needed:  # it signals everybody whom it can
            self.assertEqual(self.master.state("victim"), "RUNNING")
            self.assertTrue(alive(victim))
        self.assertIsNone(self.agent.process.poll())
        found = json.loads(next(line for line in said if line.startswith("{")))
        self.assertGreater(found["tried"], 25)
        return found

    def master_texts(self, name):
        self.forget(name)
        return self.master.texts(name)

    def check_end_takes_everything(self, **more):
        """Daemons without a mark in their environment, and a storm of forks, end with their task."""
        daemons = ('import os, subprocess\n'
                   'subprocess.run("env -i setsid sh -c \\"(while :; do echo >>beat; sleep 0.1; done) &\\" &", shell=True)\n'
                   'while not os.path.exists("beat"): pass\n')
        storm = ('import os, resource, time\n'
                 'resource.setrlimit(resource.RLIMIT_NPROC, (150, 150))\n'
                 'print("storm", flush=True)\n'
                 'while True:\n'
                 '    try:\n'
                 '        os.fork()\n'
                 '    except OSError:\n'
                 '        time.sleep(0.01)\n')
        self.agent.start()
        self.need("processes")
        self.master.change(daemons=self.program("daemons", daemons, **more))
        self.assertEqual(self.master.wait_state("daemons", "EXITED")["ranks"][0]["exitCode"], 0)
        self.assertEqual(self.left("daemons"), [])
        self.assertTrue(self.inside("daemons", "beat").exists())
        wanted = self.program("storm", storm, **more)
        self.master.change(storm=wanted)
        self.wait_line("storm", "storm")
        self.master.change(storm={**wanted, "action": "KILL", "graceSeconds": 0})
        self.master.wait_state("storm", "EXITED")
        self.assertEqual(self.left("storm"), [])

    def check_named_paths(self, **more):
        """A user names paths in the agent's folder as checkpoint storage and as the certificate of the master."""
        self.agent.start()
        self.need("files")
        owner_of_work = self.work.stat()
        secret = self.work / "tasks" / "secret" / "work"
        secret.mkdir(parents=True)
        for path in (self.work / "credential.json", secret / "file"):
            path.write_text("secret")
        for path in (secret.parent, secret, secret / "file", self.work / "credential.json"):
            os.chown(path, more.get("uid", owner_of_work.st_uid), -1)
        storage = {"checkpoint_storage": {"type": "shared_fs", "host_path": str(secret)}}
        names = {"DET_MASTER_CERT_FILE": str(self.work / "credential.json"), "DET_EXPERIMENT_CONFIG": json.dumps(storage)}
        one = task("a", f"cat {secret}/file {self.work}/credential.json 2>/dev/null; echo looked")
        one["env"].update(names)
        self.master.change(a=one)
        self.master.wait_state("a", "EXITED")
        self.assertEqual(self.master_texts("a"), ["looked"])

    def left(self, name):
        """The processes of a task: its supervisor ends by itself."""
        folder = self.work / "tasks" / name / "work"
        return processes_below(folder)


@unittest.skipUnless(os.geteuid() == 0, "only an agent that runs as root can change accounts; run the tests as root")
class Accounts(IsolationTest):
    flags = ("--task-account", "nobody", "--task-group", "audio")

    def test_attacks_between_linked_users(self):
        found = self.attack(victim={"account": account(VICTIM_UID)}, attacker={"account": account(ATTACKER_UID)})
        self.assertEqual(found["reached"], {})
        self.assertEqual((found["uid"], set(found["groups"])), (ATTACKER_UID, {ATTACKER_UID, grp.getgrnam("audio").gr_gid}))
        self.assertEqual(set(found["devices"]) - {"infiniband"},
                         {"fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom",
                          "zero"})

    def test_attacks_within_one_account(self):
        found = self.attack()
        self.assertEqual(found["reached"], {})
        self.assertEqual(found["uid"], 65534)

    def test_end_of_a_task_takes_everything(self):
        self.check_end_takes_everything(account=account(ATTACKER_UID))

    def test_own_surroundings(self):
        program = ('import os, pathlib\n'
                   'pathlib.Path("mine").write_text("x")\npathlib.Path("/tmp/x").write_text("x")\n'
                   'pathlib.Path.home().joinpath("x").write_text("x")\n'
                   'pathlib.Path("/run/determined/x").write_text("x")\n'
                   'print(pathlib.Path("/run/determined/train/model/program.py").exists(), os.environ["HOME"], os.environ["USER"])\n'
                   'print(os.isatty(os.openpty()[0]), len(list(pathlib.Path("/proc").glob("[0-9]*"))) < 10)\n')
        self.start(a=self.program("a", program, account=account(ATTACKER_UID)))
        report = self.master.wait_state("a", "EXITED")
        folder = self.work / "tasks" / "a"
        if report["ranks"][0]["exitCode"] == 0:
            self.assertEqual([owner(folder / name) for name in ("work", "work/mine", "work/program.py", "tmp/x", "home/x")],
                             [ATTACKER_UID] * 5)
            self.assertEqual([owner(folder / name) for name in ("", "task.json", "log.spool")], [0] * 3)
            self.assertEqual(stat.S_IMODE((folder / "task.json").stat().st_mode), 0o600)
        said = self.master_texts("a")
        self.assertEqual(report["ranks"][0]["exitCode"], 0, "\n".join(said))
        self.assertEqual(said, [f"True {folder}/home account-{ATTACKER_UID}", "True True"])

    def test_home_that_the_user_has_set(self):
        program = 'import os\nprint(os.environ["HOME"], os.environ["USER"], os.path.exists("../home"))\n'
        self.start(a=self.program("a", program, account=account(ATTACKER_UID), env={"HOME": "/var/scratch"}))
        self.master.wait_state("a", "EXITED")
        self.assertEqual(self.master_texts("a"), [f"/var/scratch account-{ATTACKER_UID} False"])

    def test_files_that_are_nested_too_deep(self):
        self.master.contexts["task-a"] = tgz({"d/" * 300 + "file": "x"})
        self.start(a=task("a", "", contextUrl="/api/v1/tasks/task-a/context_directory"))
        self.assertIn("nested deeper than 256 levels", self.master.wait_state("a", "EXITED")["reason"])

    def test_memory_score_and_group_of_a_rank(self):
        """A machine without memory ends the task before the supervisor. A program may ask for a process group of its own."""
        self.start(a=self.program("a", 'import os\nos.setpgrp()\nprint(open("/proc/self/oom_score_adj").read())\n'))
        self.master.wait_state("a", "EXITED")
        self.assertEqual(self.master_texts("a")[0], "500")

    def test_accounts_of_the_system_are_refused(self):
        self.start(root=self.program("root", "", account=account(0)), daemon=self.program("daemon", "", account=account(2)))
        self.assertIn("tasks never run as root", self.master.wait_state("root", "EXITED")["reason"])
        self.assertIn("a system account", self.master.wait_state("daemon", "EXITED")["reason"])

    def test_mount_of_the_agents_folder_is_empty(self):
        """Neither a mount of the agent's folder nor of one above it shows other tasks."""
        self.agent.start()
        self.need("files")
        secret = self.work / "tasks" / "secret"
        secret.mkdir(parents=True)
        (secret / "file").write_text("secret")
        self.folder.chmod(0o755)
        wish = {"target": "at", "readOnly": False, "propagation": "", "required": False}
        one = task("a", f"find at {self.work} 2>/dev/null | grep secret; echo looked", mounts=[{**wish, "source": str(self.folder)}])
        self.master.change(a=one, b=task("b", "echo", mounts=[{**wish, "source": str(secret)}]))
        self.assertEqual(self.master.wait_state("a", "EXITED")["ranks"][0]["exitCode"], 0)
        self.assertIn("this machine has no", self.master.wait_state("b", "EXITED")["reason"])
        self.assertEqual(self.master_texts("a"), ["looked"])

    def test_named_paths_show_nothing_of_the_agent(self):
        self.check_named_paths(uid=pwd.getpwnam("nobody").pw_uid)

    def test_mount_does_not_pass_a_closed_folder(self):
        """A mount shows no open folder that lies in a folder which the account cannot enter."""
        self.agent.start()
        self.need("files", "temporary")
        for parent, reason in (("/var/lib", "may not reach"), ("/var/tmp", "this machine has no")):
            top = pathlib.Path(tempfile.mkdtemp(dir=parent, prefix="muster-test-"))  # of mode 0700
            self.addCleanup(shutil.rmtree, top)
            (top / "open").mkdir()
            (top / "open" / "file").write_text("secret")
            (top / "open").chmod(0o755)
            mount = {"source": str(top / "open"), "target": "at", "readOnly": False, "propagation": "", "required": False}
            self.master.change(**{top.name: task(top.name, "cat at/file", mounts=[mount])})
            self.assertIn(reason, self.master.wait_state(top.name, "EXITED")["reason"])

    def test_mount_of_temporary_files(self):
        """Folders in the machine's /tmp are reachable by bind_mounts alone, also under their own name."""
        self.agent.start()
        self.need("temporary")
        shared = pathlib.Path(f"/var/tmp/muster-test-{os.getpid()}")
        shared.mkdir()
        self.addCleanup(shutil.rmtree, shared)
        (shared / "file").write_text("shared")
        mount = {"source": str(shared), "target": str(shared), "readOnly": False, "propagation": "", "required": False}
        self.master.change(a=task("a", f"cat {shared}/file || echo hidden"), b=task("b", f"cat {shared}/file", mounts=[mount]))
        self.master.wait_state("a", "EXITED")
        self.assertEqual(self.master.wait_state("b", "EXITED")["ranks"][0]["exitCode"], 0)
        self.assertIn("hidden", self.master_texts("a"))
        self.assertEqual(self.master_texts("b"), ["shared"])


@unittest.skipUnless(os.geteuid() == 0, "needs an agent that runs as root; run the tests as root")
class NoAccount(IsolationTest):
    def test_task_is_refused(self):
        """By an agent whose master is, by its address, on another machine."""
        arguments = self.agent.arguments
        arguments[arguments.index(self.master.url)] = self.master.url.replace("127.0.0.1", "0.0.0.0")
        self.start(a=self.program("a", ""))
        self.assertIn("--task-account", self.master.wait_state("a", "EXITED")["reason"])
        self.master.change(b=self.program("b", "", account=account(ATTACKER_UID)))
        self.assertEqual(self.master.wait_state("b", "EXITED")["ranks"][0]["exitCode"], 0)

    def test_task_of_a_trial_runs_as_root(self):
        self.start(a=task("a", "id -u"))
        self.master.wait_state("a", "EXITED")
        self.assertEqual(self.master_texts("a"), ["0"])
        self.assertIn("on this machine", self.protections()["account"]["reason"])

    def test_unknown_account_stops_the_agent(self):
        code, said = self.run_agent(**{"task-account": "no-such-account"})
        self.assertEqual(code, 3, said)
        self.assertIn("useradd", said)
        self.assertEqual(self.run_agent(**{"task-account": "root"})[0], 4)
        self.assertEqual(self.run_agent(**{"task-account": "nobody", "task-group": "no-such-group"})[0], 3)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root can drop the capability")
class NoNamespaces(IsolationTest):
    """Where the agent cannot make namespaces, the attacks reach their targets, as far as accounts permit. This also shows
    that the attacks work."""
    flags = ("--task-account", "nobody")
    prefix = ("setpriv", "--bounding-set=-sys_admin")

    def test_attacks(self):
        self.needed = ("privileges", "system_calls", "account")
        self.addCleanup(subprocess.run, ["ipcrm", "-M", "0x4d75"])
        for left in ("/tmp/victim", "/dev/shm/victim"):
            self.addCleanup(pathlib.Path(left).unlink, missing_ok=True)
        reached = self.attack()["reached"]
        for attack in ("other processes", "secrets in environments", "signal to the victim", "environment of the victim",
                       "files of the victim through its root", "tracing of the victim", "memory of the victim", "files of a task",
                       "temporary file of another task", "shared memory of another task", "System V memory of another task",
                       "reports of another task", "devices of the machine", "services of a signed-in user"):
            self.assertIn(attack, reached)
        for attack in ("token of the agent", "settings of a task", "own settings", "socket of the own supervisor",
                       "signal to the agent", "memory of the agent", "environment of its supervisor", "capabilities",
                       "a set-user-id program"):
            self.assertNotIn(attack, reached)
        self.assertFalse(self.protections()["files"]["active"])


class Unprivileged(IsolationTest):
    """An agent that is not root: its tasks share its account, and the namespaces separate them."""
    before = ()

    def setUp(self):
        if os.geteuid() == 0:
            if not shutil.which("setpriv"):
                self.skipTest("setpriv is missing, which starts an agent that is not root")
            self.prefix = (*self.before, "setpriv", "--reuid", str(OTHER_UID), "--regid", str(OTHER_UID), "--clear-groups")
        super().setUp()
        if os.geteuid() == 0:
            for path in (self.folder, self.folder / "token"):
                os.chown(path, OTHER_UID, OTHER_UID)

    def test_attacks(self):
        found = self.attack()
        self.assertEqual(found["reached"], {})
        account_row = self.protections()["account"]
        self.assertFalse(account_row["active"])
        self.assertIn("does not run as root", account_row["reason"])
        self.assertIn("tasks lack protections", self.agent.tail(200))

    def test_named_paths_show_nothing_of_the_agent(self):
        self.check_named_paths()

    def test_end_of_a_task_takes_everything(self):
        self.check_end_takes_everything()


@unittest.skipUnless(os.geteuid() == 0, "only root can give the agent a control group")
class DelegatedGroup(Unprivileged):
    """The control groups of an agent that is not root belong to the account of its tasks."""

    def setUp(self):
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        tops = [pathlib.Path(words[1]) for words in mounts if words[2] == "cgroup2"]
        if not tops:
            self.skipTest("this machine has no cgroups of version 2")
        self.group = tops[0] / f"muster-isolation-{os.getpid()}"
        try:
            self.group.mkdir()
        except OSError as error:
            self.skipTest(f"no control group can be made: {error}")
        self.addCleanup(self.remove_group)
        for path in (self.group, *(self.group / f"cgroup.{name}" for name in ("procs", "threads", "subtree_control"))):
            os.chown(path, OTHER_UID, OTHER_UID)
        self.before = ("sh", "-c", f'echo $$ >{self.group}/cgroup.procs && exec "$@"', "sh")
        super().setUp()

    def remove_group(self):
        (self.group / "cgroup.kill").write_text("1")
        for folder, _, _ in os.walk(self.group, topdown=False):
            wait_for("an empty control group", lambda at=folder: "populated 0" in (pathlib.Path(at) / "cgroup.events").read_text())
            os.rmdir(folder)

    def test_groups_cannot_be_changed(self):
        self.agent.start()
        self.need("files")
        self.master.change(victim=task("victim", "echo up; sleep 1000"))
        self.wait_line("victim", "up")
        kill = next(self.group.glob("*/victim/cgroup.kill")).relative_to(self.group)
        tops = {"a": self.group, "b": "groups", "c": "my groups", "d": "my\tgroups"}
        mounts = [{"source": str(self.group), "target": target, "readOnly": False, "propagation": "", "required": True}
                  for target in ("groups", "my groups", "my\tgroups")]
        self.master.change(**{name: task(name, f"ls '{top}/agent' >listed && echo shown; echo $$ >'{top}/agent/cgroup.procs' && echo moved; "
                                               f"echo 1 >'{top}/{kill}' && echo killed; echo tried", mounts=mounts)
                              for name, top in tops.items()})
        for name in tops:
            self.master.wait_state(name, "EXITED")
            self.assertEqual([text for text in self.master_texts(name) if text in ("shown", "moved", "killed", "tried")],
                             ["shown", "tried"])
        self.assertEqual(self.master.state("victim"), "RUNNING")


if __name__ == "__main__":
    unittest.main(verbosity=2)
