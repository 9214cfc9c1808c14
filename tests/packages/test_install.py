"""The commands of docs/installation.md on a machine of their own with systemd: installation, a first cluster, a daemon
that hangs, a port that others try to take, an upgrade under a running task, removal, and purge."""

import json
import pathlib
import re
import shutil
import subprocess
import time
import unittest

import pack
from machine import Machine, main

PASSWORD = "a password of the test"
PROGRAM = "muster-test-sleeper"  # a task that outlives agents
# Tries all the time to take the master's port, and ends when it has it.
THIEF = """\
import socket, time
while True:
    for address in ("127.0.0.1", "0.0.0.0"):
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind((address, 8080))
                attempt.listen()
                raise SystemExit(f"it has {address}:8080")
            except OSError:
                time.sleep(0.0005)
"""
MAIN_PID = "systemctl show -P MainPID {}"


def newer_packages(folder, out, version):
    """The same packages with another version."""
    out.mkdir()
    for path in sorted(folder.glob("*.deb")):
        tree = out / "tree"
        subprocess.run(["dpkg-deb", "-R", path, tree], check=True)
        control = tree / "DEBIAN/control"
        control.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", control.read_text()))
        name = path.name.replace("_0.1.0_", f"_{version}_")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-b", tree, out / name], check=True,
                       stdout=subprocess.DEVNULL)
        shutil.rmtree(tree)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("apt-get"):
            raise unittest.SkipTest("this is no Debian")
        cls.shown = pathlib.Path("shown").resolve()
        cls.shown.mkdir()
        old = pack.build("shown/old", "deb")
        newer_packages(old, cls.shown / "new", "0.2.0")
        shutil.copytree(pack.SOURCE / "examples", cls.shown / "examples")
        (cls.shown / "training.yaml").write_text(pack.TRAINING)
        (cls.shown / "password").write_text(PASSWORD + "\n")
        (cls.shown / "thief.py").write_text(THIEF)
        cls.machine = cls.enterClassContext(Machine(cls.shown))
        # This system may have Muster itself, and packages of other sources that a network is needed for.
        cls.run_there("dpkg --purge $(dpkg-query -f '${Package} ' -W 'muster-*' 'python3-muster' 2>/dev/null) || true;"
                      "rm -rf /etc/muster /var/lib/muster* /etc/apt/sources.list /etc/apt/sources.list.d "
                      "/usr/sbin/policy-rc.d")

    @classmethod
    def run_there(cls, script, **options):
        return cls.machine.run(script, **options)

    def state(self, unit):
        return self.run_there(f"systemctl is-active {unit}", check=False).strip()

    def main_pid(self, unit):
        return int(self.run_there(MAIN_PID.format(unit)))

    def user_of(self, pid):
        return self.run_there(f"ps -o user:32= -p {pid}").strip()

    def muster(self, arguments):
        return self.run_there(f"cd /mnt; muster {arguments}")

    def start_sleeper(self):
        """Starts a task that runs for long; returns the process id of its program."""
        self.muster(f"command run --slots 1 --detach -- bash -c 'exec -a {PROGRAM} sleep 1000'")
        self.machine.wait_for(f"pgrep -x -f '{PROGRAM} 1000' || true", "\n")
        return self.sleeper()

    def test_1_first_cluster(self):
        blocks = pack.commands_of("A first cluster on one machine")
        install, *start = blocks[0].splitlines()
        self.run_there(f"cd /mnt/old; {install}")
        for daemon in ("master", "agent"):
            self.assertEqual(self.state(f"muster-{daemon}"), "inactive", "an installation starts nothing")
            self.assertEqual(self.run_there(f"systemctl is-enabled muster-{daemon}", check=False).strip(), "disabled")
            self.run_there(f"systemd-analyze verify muster-{daemon}.service && man -w muster-{daemon}")
        self.run_there("systemctl start muster-agent")
        self.assertEqual(self.state("muster-agent"), "inactive", "there is no token yet")
        self.run_there("sed -i 's/^MUSTER_AGENT_FLAGS=.*/MUSTER_AGENT_FLAGS=--slots 2/' /etc/default/muster-agent")
        for line in start:
            self.run_there(line)
        for daemon, user in (("master", "muster"), ("agent", "root")):
            self.assertEqual(self.state(f"muster-{daemon}"), "active")
            self.assertEqual(self.user_of(self.main_pid(f"muster-{daemon}")), user)
        status = self.run_there("systemctl show -P StatusText muster-master muster-agent")
        self.assertRegex(status, r"listening on http://\S+:8080\n+connected to http://127.0.0.1:8080")
        metrics = self.run_there("python3 -c 'import urllib.request as r; "
                                 "print(r.urlopen(\"http://localhost:8080/metrics\").read().decode())'")
        self.assertRegex(metrics, r"\nprocess_start_time_seconds 1\d{9}(\.\d+)?\n")
        password = self.run_there("cat /var/lib/muster/initial-password").strip()
        self.assertGreater(len(password), 8)
        self.assertNotIn(password, self.machine.journal())
        self.assertNotIn("cannot have mounts", self.machine.journal())
        self.assertEqual(self.run_there("stat -c '%a %U' /var/lib/muster /var/lib/muster/initial-password"),
                         "700 muster\n600 muster\n")
        self.run_there(re.sub(r"change-password \w+", r"\g<0> --password-file /mnt/password", blocks[1]))
        self.assertIn("machine", self.muster("agent list"))
        output = self.muster(" ".join(blocks[2].split()[1:]))
        self.assertIn("completed", output)

    def test_2_checkpoints_cross_accounts(self):
        self.run_there("mkdir -p /root/data; cd /root/data; python3 /mnt/examples/spirals.py > spirals.csv")
        self.muster("experiment create training.yaml /root/data --follow")
        rows = json.loads(self.muster("checkpoint list --experiment 2 -o json"))
        folder = "/var/lib/muster-checkpoints"
        uuid = rows[0]["uuid"]
        self.assertEqual(self.run_there(f"stat -c '%a %U %G' {folder} {folder}/{uuid}"),
                         "2770 root muster-checkpoints\n2770 muster-task muster-checkpoints\n")
        for row in rows:
            self.muster(f"checkpoint delete {row['uuid']} --yes")
        self.machine.wait_for(f"ls {folder} | grep -c {uuid} || true", "0")

    def test_3_agent_dies_and_its_task_goes_on(self):
        task = self.start_sleeper()
        before = self.main_pid("muster-agent")
        self.assertEqual(self.user_of(task), "muster-task")
        self.run_there("systemctl restart muster-agent")
        self.run_there("systemctl kill --kill-whom=main --signal=KILL muster-agent")
        self.machine.wait_for("systemctl show -P NRestarts muster-agent", "1")
        self.machine.wait_for("systemctl is-active muster-agent", "active")
        self.assertNotEqual(self.main_pid("muster-agent"), before)
        self.run_there(f"kill -0 {task}")
        self.assertIn("RUNNING", self.muster("command list"))
        self.assertIn("/usr/libexec/muster/muster\n", self.muster("command run -- sh -c 'command -v muster'"))

    def start_thief(self):
        self.run_there("systemd-run --quiet --unit=thief --uid=muster-task python3 /mnt/thief.py")

    def check_thief(self):
        """The thief still has nothing, and the master answers."""
        self.assertEqual(self.state("thief"), "active", self.run_there("journalctl --no-pager -u thief"))
        self.assertIn("version", self.muster("master info"))

    def wait_for_restart(self, unit, before):
        """Waits until the daemon that was `before` has a successor that is ready."""
        self.machine.wait_for(f"test $({MAIN_PID.format(unit)}) != {before} && systemctl is-active --quiet {unit} && "
                              "echo restarted", "restarted")

    def set_master(self, line):
        self.run_there(f"sed -i '/^port:/d; /^bind:/d' /etc/muster/master.yaml; echo '{line}' >>/etc/muster/master.yaml;"
                       "systemctl restart muster-master")

    def listeners(self):
        """The addresses of the ports 8080 and 8081 that a program listens on."""
        table = self.run_there("cat /proc/net/tcp").splitlines()[1:]
        return {row.split()[1] for row in table if row.split()[3] == "0A" and row.split()[1][-4:] in ("1F90", "1F91")}

    def sleeper(self):
        return int(self.run_there(f"pgrep -x -f '{PROGRAM} 1000'"))

    def test_3b_tasks_have_cgroups_that_survive_the_agent(self):
        task, before = self.sleeper(), self.main_pid("muster-agent")
        group = self.run_there(f"cat /proc/{task}/cgroup")
        self.assertRegex(group, r"0::/system.slice/muster-tasks.service/muster-\w+/\S")
        self.run_there("systemctl restart muster-agent; systemctl daemon-reload")
        self.assertNotEqual(self.main_pid("muster-agent"), before)
        self.assertEqual(self.sleeper(), task)
        self.assertEqual(self.run_there(f"cat /proc/{task}/cgroup"), group)

    def test_4_watchdog(self):
        self.start_thief()
        for daemon in ("master", "agent"):
            unit = f"muster-{daemon}"
            self.run_there(f"mkdir -p /run/systemd/system/{unit}.service.d; printf '[Service]\\nWatchdogSec=2\\n"
                           f"RestartSec=0\\n' >/run/systemd/system/{unit}.service.d/test.conf; systemctl daemon-reload;"
                           f"systemctl restart {unit}")
            pid = self.main_pid(unit)
            time.sleep(5)
            self.assertEqual(self.main_pid(unit), pid, "a daemon that works is left alone")
            self.run_there(f"kill -STOP {pid}")
            self.machine.wait_for(f"journalctl --no-pager -u {unit}", "Watchdog timeout")
            self.wait_for_restart(unit, pid)
            self.run_there(f"rm -r /run/systemd/system/{unit}.service.d; systemctl daemon-reload;"
                           f"systemctl restart {unit}")

    def test_4b_no_program_takes_the_port_of_a_master_that_restarts(self):
        self.check_thief()
        for command in ("systemctl kill --kill-whom=main --signal=KILL muster-master", "systemctl restart muster-master",
                        "systemctl daemon-reexec; systemctl restart muster-master"):
            before = self.main_pid("muster-master")
            self.run_there(command)
            self.wait_for_restart("muster-master", before)
            self.check_thief()
        environment = self.run_there(f"tr '\\0' '\\n' </proc/{self.main_pid('muster-master')}/environ")
        self.assertIn("LISTEN_FDNAMES=listener\n", environment, "systemd has kept the socket")
        self.run_there("systemctl stop muster-master")
        self.machine.wait_for("systemctl is-active thief || true", "failed")
        self.assertIn("it has ", self.run_there("journalctl --no-pager -u thief"))
        self.assertEqual(self.listeners(), set())
        self.run_there("systemctl start muster-master")

    def test_4c_settings_of_the_port_change(self):
        for line, expected in (("port: 8081", "0100007F:1F91"), ("bind: 127.0.0.2", "0200007F:1F90")):
            self.set_master(line)
            self.assertEqual(self.listeners(), {expected})
            before = self.main_pid("muster-master")
            self.run_there("systemctl kill --kill-whom=main --signal=KILL muster-master")
            self.assertEqual(self.listeners(), {expected}, "systemd keeps the new one")
            self.wait_for_restart("muster-master", before)
            self.assertEqual(self.listeners(), {expected})
        self.set_master("bind: 127.0.0.1")
        self.assertEqual(self.listeners(), {"0100007F:1F90"})

    def test_4d_the_master_starts_when_its_port_becomes_free(self):
        self.run_there("systemctl stop muster-master")
        self.run_there("systemd-run --quiet --unit=holder python3 -m http.server --bind 127.0.0.1 8080")
        self.machine.wait_for("cat /proc/net/tcp", "0100007F:1F90")
        self.assertIn("failed", self.run_there("systemctl start muster-master 2>&1 || true"))
        self.assertIn("port 8080 of 127.0.0.1 is in use by another program", self.machine.journal())
        self.run_there("systemctl stop holder")
        self.machine.wait_for("muster agent list", "machine")

    def test_5_upgrade(self):
        task = self.sleeper()
        before = {daemon: self.main_pid(f"muster-{daemon}") for daemon in ("master", "agent")}
        experiments = self.muster("experiment list --all -o json")
        self.run_there("sed -i 's/^# cluster_name:.*/cluster_name: upgraded/' /etc/muster/master.yaml")
        for line in pack.commands_of("Upgrade")[0].splitlines():
            self.run_there(f"cd /mnt/new; {line}")
        for daemon, pid in before.items():
            self.assertIn("0.2.0", self.run_there(f"dpkg-query -W muster-{daemon}"))
            self.machine.wait_for(f"systemctl is-active muster-{daemon}", "active")
            self.assertNotEqual(self.main_pid(f"muster-{daemon}"), pid, "an upgrade restarts the daemon")
        self.run_there(f"kill -0 {task}")
        self.assertIn("upgraded", self.muster("master info"))
        self.assertIn("--slots 2", self.run_there("cat /etc/default/muster-agent"))
        self.assertEqual(self.muster("experiment list --all -o json"), experiments)
        self.machine.wait_for("muster command list", "RUNNING")

    def test_5b_stop_of_all_tasks(self):
        task = self.sleeper()
        self.run_there("systemctl stop muster-tasks")
        self.run_there(f"! kill -0 {task} 2>/dev/null")
        self.assertEqual(self.state("muster-agent"), "inactive")
        self.run_there("systemctl start muster-agent")
        self.assertEqual((self.state("muster-tasks"), self.state("muster-agent")), ("active", "active"))
        self.start_sleeper()

    def test_6_removal(self):
        remove_agent, remove_master = pack.commands_of("Removal")[0].splitlines()
        self.run_there(remove_agent)
        self.machine.wait_for("pgrep -c -u muster-task || true", "0")
        self.run_there(remove_master)
        self.assertEqual(self.run_there("pgrep -c muster-master || true").strip(), "0")
        self.run_there("ls /var/lib/muster/muster.db /etc/muster/master.yaml /etc/muster/agent.token "
                       "/var/lib/muster-agent")
        install = pack.commands_of("A first cluster on one machine")[0].splitlines()[0]
        self.run_there(f"cd /mnt/new; {install}; systemctl start muster-master muster-agent")
        self.assertFalse(self.run_there("ls /var/lib/muster/initial-password", check=False).startswith("/"))
        self.muster("login admin --password-file /mnt/password")
        self.assertIn("spirals", self.muster("experiment list --all"))

    def test_7_purge(self):
        self.run_there("touch /var/lib/muster-checkpoints/a-checkpoint")
        output = self.run_there("apt-get purge -y muster-master muster-agent")
        self.assertIn("/var/lib/muster was kept", output)
        self.assertIn("/var/lib/muster-checkpoints was kept", output)
        self.run_there("ls /var/lib/muster/muster.db")
        left = self.run_there("ls -d /etc/muster /etc/default/muster-agent /var/lib/muster-agent /determined_shared_fs "
                              "/etc/systemd/system/multi-user.target.wants/muster-* 2>/dev/null || true")
        self.assertEqual(left, "")
        self.assertEqual(self.run_there("stat -c %U /var/lib/muster").strip(), "muster")

    def test_8_python_package(self):
        self.run_there("cd /mnt/new; apt-get install -y ./python3-muster_*.deb; cd /; "
                       "/usr/bin/python3 -c 'import muster; print(muster.__file__)'")
        self.run_there("ls /usr/lib/python3/dist-packages/muster/__pycache__")
        self.run_there("apt-get remove -y python3-muster; test ! -e /usr/lib/python3/dist-packages/muster")


if __name__ == "__main__":
    main()
