"""muster cluster: three machines (ssh_machines.py) become a cluster by one command, stay one, and say what is wrong."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import trainings
from cluster import BIN, SOURCE, wait_for
from machines import NETWORK, enter_network, ip, make_machines
from ssh_machines import SshMachine, make_tarball, require

sys.path.append(str(SOURCE / "tests" / "packages"))
import machine as systemd_machine  # noqa: E402

LONG = 100000000  # steps of a training that does not end by itself


class Command:
    """The muster command of an administrator with files of its own below `folder`."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
        self.env.pop("SSH_AUTH_SOCK", None)

    def run(self, *arguments, **options):
        return subprocess.run([BIN / "muster", *map(str, arguments)], env=self.env, text=True, errors="replace",
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=400, **options)

    def muster(self, *arguments):
        done = self.run(*arguments)
        if done.returncode != 0:
            raise AssertionError(f"muster {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def rows(self, *arguments):
        return json.loads(self.muster(*arguments, "-o", "json"))


def make_key(name):
    path = pathlib.Path(name).resolve()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def write_hosts(name, tarball, agents, key="key", more=""):
    path = pathlib.Path(name).resolve()
    path.write_text(f"master: {{host: {NETWORK}.2}}\nagents: {agents}\n"
                    f"install: {{tarball: {tarball}}}\nssh: {{key: {key}}}\n{more}")
    return path


class ClusterTest(unittest.TestCase):
    machines_wanted = 3

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.__name__).resolve()
        cls.folder.mkdir()
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(cls.folder)
        cls.shared = cls.folder / "shared"
        cls.shared.mkdir()
        cls.key = make_key("key")
        public = cls.key.with_suffix(".pub").read_text().strip()
        cls.machines = []
        for number in range(cls.machines_wanted):
            cls.machines.append(SshMachine(number, public, cls.shared))
            cls.addClassCleanup(cls.machines[-1].end)
        cls.tarball = make_tarball(cls.folder / "muster-0.1.0-linux-x86_64.tar.gz")
        cls.command = Command(cls.folder)
        cls.hosts = write_hosts("hosts.yaml", cls.tarball.name, f'[{{host: "{NETWORK}.[3-4]", slots: 1}}]',
                                more="checkpoints: /shared/checkpoints\n")

    def rows_of(self, *arguments, code=0):
        """The rows by host of a command that ends with this exit code."""
        done = self.command.run("cluster", *arguments, "-o", "json")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return {row["host"]: row for row in json.loads(done.stdout)}

    def results(self, *arguments, code=0):
        """The results by the last part of the address."""
        return {host.rsplit(".", 1)[1]: row["result"] for host, row in self.rows_of(*arguments, code=code).items()}


class FromNothing(ClusterTest):
    """The methods go on with what the earlier ones have made."""

    def config(self, name, steps):
        path = self.folder / f"{name}.yaml"
        path.write_text(trainings.config("mlp", 2, slots=2, steps=steps, every=10))
        return path

    def create(self, name, steps):
        data = self.folder / "data"
        if not data.exists():
            data.mkdir()
            trainings.write_images(data)
        id_file = self.folder / f"{name}.id"
        self.command.muster("experiment", "create", self.config(name, steps), data, "--id-file", id_file)
        return id_file.read_text().strip()

    def restarts(self, experiment):
        return self.command.rows("trial", "list", experiment)[0]["restarts"]

    def ranks(self):
        return [machine.run("pidof muster-trainer", check=False).split() for machine in self.machines[1:]]

    def test_1_unknown_keys_are_refused(self):
        rows = self.rows_of("up", self.hosts, code=6)
        for row in rows.values():
            self.assertEqual((row["result"], row["step"]), ("failed", "connect"))
            self.assertIn("the host key is not known (ssh-ed25519 SHA256:", row["fault"])
            self.assertIn("--accept-new", row["fault"])
        self.assertFalse((self.folder / ".ssh" / "known_hosts").exists())

    def test_2_a_new_key_gets_a_line_of_its_own(self):
        """Also after a line that an editor has left without its end."""
        known = self.folder / ".ssh" / "known_hosts"
        known.parent.mkdir(mode=0o700, exist_ok=True)
        known.write_text("# mine")
        self.command.run("cluster", "status", self.hosts, "--accept-new")
        lines = known.read_text().splitlines()
        self.assertEqual(lines[0], "# mine")
        self.assertEqual(sorted(line.split()[0] for line in lines[1:]), [f"{NETWORK}.{i}" for i in (2, 3, 4)])

    def test_2_interrupted(self):
        """A killed client leaves nothing that the next one cannot continue."""
        for place in ("/var/cache/muster-cluster", "/opt/muster", "/etc/muster"):
            client = subprocess.Popen([BIN / "muster", "cluster", "up", self.hosts, "--accept-new"], env=self.command.env,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for(f"{place} on the second machine",
                     lambda place=place, client=client: client.poll() is not None
                     or self.machines[1].run(f"ls -d {place}", check=False))
            client.send_signal(signal.SIGKILL)
            client.wait()

    def test_3_up(self):
        done = self.command.run("cluster", "up", self.hosts, "--accept-new")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"The cluster runs at https://{NETWORK}.2:8080", done.stdout)
        self.assertIn("muster experiment create", done.stdout)
        agents = self.command.rows("agent", "list")
        self.assertEqual([(a["id"], a["slots"], a["connected"]) for a in agents],
                         [(f"{NETWORK}.3", 1, True), (f"{NETWORK}.4", 1, True)])
        self.assertIn("admin", self.command.muster("whoami"))

    def test_4_two_machines_train(self):
        experiment = self.create("short", 20)
        self.command.muster("experiment", "wait", experiment)
        self.assertIn("comm=net", self.command.muster("experiment", "logs", experiment))
        self.assertTrue(any((self.shared / "checkpoints").iterdir()))

    def test_5_again(self):
        self.assertEqual(self.results("up", self.hosts), {"2": "unchanged", "3": "unchanged", "4": "unchanged"})
        status = self.command.rows("cluster", "status", self.hosts)
        self.assertEqual([(row["daemon"], row["state"]) for row in status],
                         [("master", "running"), ("agent", "running"), ("agent", "running")])
        self.assertEqual([row.get("agent") for row in status], [None, "connected", "connected"])
        found = self.command.rows("cluster", "doctor", self.hosts)
        slow = [row for row in found if "it sends only" in row["problem"]]  # as on a busy machine
        self.assertEqual(found, slow)
        text = self.command.muster("cluster", "doctor", self.hosts)
        self.assertTrue("nothing is wrong" in text or "it sends only" in text, text)

    def test_5_one_machine_keeps_the_others_waiting(self):
        """The listeners, which end by themselves, begin when all machines are checked."""
        path = self.machines[2].fake("nvidia-smi", "touch /run/slow; while [ ! -e /run/go ]; do sleep 0.1; done; exit 1")
        doctor = subprocess.Popen([BIN / "muster", "cluster", "doctor", self.hosts], env=self.command.env,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("the slow check", lambda: self.machines[2].run("ls -d /run/slow", check=False))
        listeners = "grep -ls '[m]uster-cluster-network' /proc/[0-9]*/cmdline"
        time.sleep(2)  # in which the other machines would have begun
        meanwhile = self.machines[1].run(listeners, check=False)
        self.machines[2].run("touch /run/go")
        self.assertEqual((doctor.wait(), meanwhile), (0, ""))
        wait_for("the end of the listener", lambda: not self.machines[1].run(listeners, check=False))
        self.machines[2].run(f"rm {path}")

    def test_6_a_changed_setting(self):
        more = "checkpoints: /shared/checkpoints\n"
        changed = write_hosts("changed.yaml", self.tarball.name,
                              f'[{{host: {NETWORK}.3, slots: 1}}, {{host: {NETWORK}.4, slots: 1, rack: r2}}]', more=more)
        self.assertEqual(self.results("up", changed), {"2": "unchanged", "3": "unchanged", "4": "changed"})
        self.assertEqual(self.results("up", self.hosts), {"2": "unchanged", "3": "unchanged", "4": "changed"})

    def test_7_upgrade(self):
        experiment = self.create("long", LONG)
        wait_for("a checkpoint", lambda: self.command.rows("checkpoint", "list", "--experiment", experiment))
        before = self.ranks()
        self.assertTrue(all(before))
        newer = make_tarball(self.folder / "muster-0.2.0-linux-x86_64.tar.gz", "newer")
        other = write_hosts("newer.yaml", newer.name, f'[{{host: "{NETWORK}.[3-4]", slots: 1}}]',
                            more="checkpoints: /shared/checkpoints\n")
        row = self.rows_of("up", other, code=6)[f"{NETWORK}.3"]
        self.assertIn("muster cluster upgrade", row["fault"])  # up changes no release
        self.assertEqual(self.results("upgrade", self.hosts, "--to", newer),
                         {"2": "upgraded", "3": "upgraded", "4": "upgraded"})
        self.assertEqual(self.results("upgrade", self.hosts, "--to", newer),
                         {"2": "unchanged", "3": "unchanged", "4": "unchanged"})
        self.assertEqual(self.ranks(), before)
        self.assertEqual(self.restarts(experiment), 0)
        for machine in self.machines[1:]:
            running = machine.run("readlink /proc/$(pidof -s muster-agent)/exe").strip()
            self.assertEqual(running, f"/opt/muster/{machine.run('readlink /opt/muster/current').strip()}/bin/muster-agent")
        self.assertEqual([a["enabled"] for a in self.command.rows("agent", "list")], [True, True])

    def test_8_down(self):
        """It ends all tasks and keeps the data; the trial goes on after the next up."""
        experiment = (self.folder / "long.id").read_text().strip()
        newer = self.folder / "newer.yaml"
        self.assertEqual(self.results("down", newer), {"2": "stopped", "3": "stopped", "4": "stopped"})
        wait_for("the end of all ranks", lambda: not any(self.ranks()))
        status = self.command.run("cluster", "status", newer)
        self.assertEqual(status.returncode, 6, status.stdout)
        self.assertEqual(self.results("down", newer), {"2": "unchanged", "3": "unchanged", "4": "unchanged"})
        self.assertEqual(set(self.results("up", newer).values()), {"changed"})
        wait_for("the trial to go on", lambda: all(self.ranks()))
        self.command.muster("experiment", "kill", experiment, "--wait")

    def test_9_purge(self):
        newer = self.folder / "newer.yaml"
        refused = self.command.run("cluster", "down", newer, "--purge")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--yes", refused.stderr)
        self.assertEqual(set(self.results("down", newer, "--purge", "--yes").values()), {"deleted"})
        for machine in self.machines:
            self.assertEqual(machine.run("ls -d /opt/muster /var/lib/muster /var/lib/muster-agent /etc/muster 2>/dev/null",
                                         check=False), "")
        self.assertTrue(any((self.shared / "checkpoints").iterdir()))  # of a folder that others may use


class Faults(ClusterTest):
    """Each fault has its own message, and stops only its machine."""

    def fault(self, hosts=None, address=f"{NETWORK}.3", command="up"):
        row = self.rows_of(command, hosts or self.hosts, "--accept-new", code=6)[address]
        self.assertEqual(row["result"], "failed")
        return row["fault"]

    def fake_fault(self, program, script):
        """The fault of a machine on which this program prints something else."""
        path = self.machines[1].fake(program, script)
        try:
            return self.fault()
        finally:
            self.machines[1].run(f"rm {path}")

    def test_wrong_key(self):
        make_key("stranger")
        hosts = write_hosts("stranger.yaml", self.tarball.name, f"[{{host: {NETWORK}.3}}]", key="stranger")
        self.assertIn("refuses the key", self.fault(hosts))
        self.assertIn("ssh-copy-id", self.fault(hosts))

    def test_missing_key(self):
        hosts = write_hosts("nokey.yaml", self.tarball.name, f"[{{host: {NETWORK}.3}}]", key="none")
        self.assertIn("cannot be read", self.fault(hosts))

    def restart_sshd(self):
        """Lets sshd read its key again, and waits until it shows the key."""
        machine = self.machines[1]
        machine.run("kill -HUP $(cat /run/sshd.pid)")
        key = machine.run("cat /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
        wait_for("sshd with the key of its file", lambda: key in subprocess.run(
            ["ssh-keyscan", "-t", "ed25519", machine.address], capture_output=True, text=True, check=False).stdout)

    def test_changed_host_key(self):
        machine = self.machines[1]
        self.fake_fault("uname", "echo riscv64")  # all keys are known now
        machine.run("cd /etc/ssh; mkdir old; cp -p ssh_host_ed25519_key* old; rm ssh_host_ed25519_key*;"
                    "ssh-keygen -q -t ed25519 -N '' -f ssh_host_ed25519_key")
        try:
            self.restart_sshd()
            fault = self.fault()
            self.assertIn("host key has changed", fault)
            self.assertIn(f"ssh-keygen -R '{NETWORK}.3'", fault)
        finally:
            machine.run("cd /etc/ssh; mv old/* .; rmdir old")
            self.restart_sshd()
        self.assertIn("riscv64", self.fake_fault("uname", "echo riscv64"))

    def test_no_server(self):
        hosts = write_hosts("absent.yaml", self.tarball.name, f"[{{host: {NETWORK}.3}}, {{host: {NETWORK}.1}}]")
        fault = self.fault(hosts, f"{NETWORK}.1")
        self.assertIn("port 22 does not answer", fault)

    def test_clock(self):
        fault = self.fake_fault("date", 'exec /usr/bin/date -d "1 hour ago" "$@"')
        self.assertIn("s behind that of the master", fault)
        self.assertIn("NTP", fault)

    def test_architecture(self):
        self.assertIn("the processor is aarch64", self.fake_fault("uname", "echo aarch64"))

    def test_system(self):
        fault = self.fake_fault("getconf", 'case $1 in GNU*) echo glibc 2.31 ;; *) exec /usr/bin/getconf "$@" ;; esac')
        self.assertIn("is not supported: its glibc is 2.31", fault)

    def test_driver(self):
        hosts = write_hosts("gpus.yaml", self.tarball.name, f"[{{host: {NETWORK}.3}}]")
        path = self.machines[1].fake("nvidia-smi", 'case $1 in -L) echo "GPU 0: old" ;; *) echo 470.10 ;; esac')
        try:
            self.assertIn("NVIDIA's driver 470.10 is too old", self.fault(hosts))
        finally:
            self.machines[1].run(f"rm {path}")

    def test_full_disk(self):
        machine = self.machines[1]
        machine.run("mount -t tmpfs -o size=1m tmpfs /opt")
        try:
            self.assertIn("the disk is full: /opt", self.fault())
        finally:
            machine.run("umount /opt")

    def test_no_sudo(self):
        for machine in self.machines:
            machine.run("useradd -m ann; install -d -o ann -m 700 /home/ann/.ssh;"
                        "install -o ann -m 600 /root/.ssh/authorized_keys /home/ann/.ssh/")
        hosts = write_hosts("ann.yaml", self.tarball.name, f"[{{host: {NETWORK}.3}}]", more="")
        hosts.write_text(hosts.read_text().replace("ssh: {", "ssh: {user: ann, "))
        self.assertIn("the user ann has no sudo", self.fault(hosts))

    def test_closed_port(self):
        """The agent's machine does not reach the master, although the administrator's does."""
        machine = self.machines[1]
        machine.outside("ip", "route", "add", "unreachable", f"{NETWORK}.2/32")
        try:
            self.assertIn(f"the port 8080 of the master {NETWORK}.2 does not answer from there", self.fault())
        finally:
            machine.outside("ip", "route", "del", "unreachable", f"{NETWORK}.2/32")

    def test_interrupted_listener(self):
        """A command that was interrupted left its listener on the master's port."""
        machine = self.machines[0]
        self.command.muster("cluster", "down", self.hosts, "--accept-new")
        script = (SOURCE / "cli/cluster/network.sh").read_text()
        machine.run(f"ACTION=listen PORTS=8080-8080 TARGETS=\n{script}")
        self.assertEqual(self.results("up", self.hosts)["2"], "changed")

    def test_port_in_use(self):
        machine = self.machines[0]
        self.command.muster("cluster", "down", self.hosts, "--accept-new")  # if an earlier test has started it
        machine.run("setsid python3 -m http.server 8080 >/dev/null 2>&1 & sleep 0.1")
        try:
            wait_for("the other server", lambda: machine.run("bash -c '</dev/tcp/127.0.0.1/8080' && echo yes", check=False))
            self.assertIn("the port 8080 is taken by another program", self.fault(address=f"{NETWORK}.2"))
        finally:
            machine.run("pkill -f 'http.serve[r]'", check=False)

    @unittest.skipUnless(os.path.exists("/usr/bin/apt-get"), "no apt")
    def test_purge_of_packages(self):
        """Also where apt has never heard of some of them."""
        machine = self.machines[1]
        machine.run("mkdir -p /tmp/package/DEBIAN /var/lib/muster-cluster; echo digest >/var/lib/muster-cluster/packages;"
                    "printf 'Package: muster-client\nVersion: 0\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n'"
                    " >/tmp/package/DEBIAN/control; dpkg-deb --build /tmp/package /tmp/client.deb; dpkg -i /tmp/client.deb")
        self.assertEqual(self.results("down", self.hosts, "--purge", "--yes", "--accept-new")["3"], "deleted")
        self.assertNotIn("ii", machine.run("dpkg-query -W -f '${db:Status-Abbrev}' muster-client 2>/dev/null", check=False))

    def test_purge_spares_the_checkpoints(self):
        """The hosts file names their folder, also if its name is the default one."""
        machine = self.machines[1]
        machine.run("mkdir -p /var/lib/muster-checkpoints/a /var/lib/muster/checkpoints/b")
        inside = write_hosts("inside.yaml", self.tarball.name, f"[{{host: {NETWORK}.3}}]",
                             more="checkpoints: /var/lib/muster/checkpoints\n")
        row = self.rows_of("down", inside, "--purge", "--yes", "--accept-new", code=6)[f"{NETWORK}.3"]
        self.assertIn("the folder of checkpoints is inside /var/lib/muster,", row["fault"])
        named = write_hosts("named.yaml", self.tarball.name, f"[{{host: {NETWORK}.3}}]",
                            more="checkpoints: /var/lib/muster-checkpoints\n")
        self.results("down", named, "--purge", "--yes")
        self.assertEqual(machine.run("ls /var/lib/muster-checkpoints"), "a\n")

    def test_text_that_is_no_utf8(self):
        """Its machine stays in the result."""
        self.machines[1].run("rm -f /etc/tmpfiles.d/muster-cluster.conf")
        self.assertEqual("chmod: caf", self.fake_fault("chmod", r"printf 'chmod: caf\351\n' >&2; exit 1"))

    def test_wrong_setting(self):
        hosts = self.folder / "setting.yaml"
        hosts.write_text(self.hosts.read_text().replace("master: {", "master: {settings: {shceduler: fifo}, "))
        fault = self.fault(hosts, f"{NETWORK}.2")
        self.assertIn('muster-master does not run: muster-master: /etc/muster/master.yaml', fault)
        self.assertIn('"shceduler" is no setting of the master', fault)
        found = json.loads(self.command.run("cluster", "doctor", hosts, "-o", "json").stdout)
        self.assertIn("a setting of the master is wrong (log of muster-master)", [row["problem"] for row in found])
        self.command.muster("cluster", "down", hosts, "--purge", "--yes")

    def test_hosts_file(self):
        bad = self.folder / "bad.yaml"
        bad.write_text(self.hosts.read_text().replace("agents:", "agnets:"))
        done = self.command.run("cluster", "up", bad)
        self.assertEqual(done.returncode, 2)
        self.assertIn('bad.yaml:2:1: agnets: unknown key; did you mean "agents"?', done.stderr)


class WithSystemd(unittest.TestCase):
    """One machine for master and agent, with systemd, by a user with sudo."""

    ADDRESS = f"{NETWORK}.9"

    def connect(self, machine):
        """Gives the machine an address and an SSH server, and a user with the key."""
        public = self.key.with_suffix(".pub").read_text().strip()
        ip("link", "add", "systemd", "type", "veth", "peer", "name", "eth0", "netns", machine.pid1)
        ip("link", "set", "systemd", "master", "bridge", "up")
        machine.run(f"ip addr add {self.ADDRESS}/24 dev eth0; ip link set eth0 up; ip link set lo up;"
                    "useradd -m -s /bin/bash ann; mkdir -p /home/ann/.ssh /run/sshd;"
                    f"echo '{public}' >/home/ann/.ssh/authorized_keys; chown -R ann /home/ann;"
                    "echo 'ann ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ann;"
                    "rm -f /run/nologin; ssh-keygen -A >/dev/null; systemd-run -q --unit=test-sshd /usr/sbin/sshd -D")
        wait_for("sshd", lambda: "yes" in machine.run(
            f"bash -c '</dev/tcp/{self.ADDRESS}/22' && echo yes", check=False))

    def states(self, command, hosts):
        rows = json.loads(command.run("cluster", "status", hosts, "-o", "json").stdout)
        return {row["daemon"]: row["state"] for row in rows}

    def test_units(self):
        if not os.path.exists("/usr/bin/sudo"):
            self.skipTest("sudo is not installed")
        folder = pathlib.Path("systemd").resolve()
        folder.mkdir()
        self.key = make_key("systemd/key")
        tarball = make_tarball(folder / "muster-0.1.0-linux-x86_64.tar.gz")
        newer = make_tarball(folder / "muster-0.2.0-linux-x86_64.tar.gz", "newer")
        hosts = folder / "hosts.yaml"
        hosts.write_text(f"master: {{host: {self.ADDRESS}}}\nagents: [{{host: {self.ADDRESS}, slots: 1}}]\n"
                         f"ssh: {{user: ann, key: key}}\ninstall: {{tarball: {tarball.name}}}\n"
                         "checkpoints: /srv/100%/checkpoints\n")
        command = Command(folder)
        with systemd_machine.Machine(folder) as machine:
            self.connect(machine)
            for result in ("changed", "unchanged"):
                rows = command.rows("cluster", "up", hosts, "--accept-new")
                self.assertEqual([(row["roles"], row["result"]) for row in rows], [("master, agent", result)])
            machine.run("systemctl is-active muster-master muster-agent muster-tasks;"
                        "systemctl is-enabled muster-master muster-agent")
            machine.run("ls -d /sys/fs/cgroup/system.slice/muster-tasks.service/muster-*")  # made by the agent
            machine.run("nsenter --target $(pidof -s muster-master) --mount setpriv --reuid muster --regid muster "
                        "--init-groups touch /srv/100%/checkpoints/of-the-master")
            status = command.rows("cluster", "status", hosts)
            self.assertEqual([row["state"] for row in status], ["running", "running"])
            command.muster("cluster", "upgrade", hosts, "--to", newer)
            machine.run("kill -KILL $(pidof muster-master)")  # systemd starts it again, with the new release
            machine.wait_for("readlink /proc/$(pidof -s muster-master)/exe",
                             machine.run("readlink /opt/muster/current").strip())
            machine.run("systemctl stop muster-master; systemd-run --quiet --unit=holder python3 -m http.server 8080")
            machine.wait_for("cat /proc/net/tcp", ":1F90")
            machine.run("systemctl start muster-master", check=False)
            wait_for("a master that systemd tries again", lambda: self.states(command, hosts)["master"] == "failed", 20)
            self.assertEqual(self.states(command, hosts)["agent"], "running")
            machine.run("systemctl stop holder")
            command.muster("cluster", "down", hosts)
            self.assertNotIn("active\n", machine.run("systemctl is-active muster-tasks | grep -x active", check=False))
            self.assertNotIn("enabled\n", machine.run("systemctl is-enabled muster-agent", check=False))
            command.muster("cluster", "down", hosts, "--purge", "--yes")
            self.assertEqual(machine.run("ls -d /opt/muster /etc/systemd/system/muster-* 2>/dev/null", check=False), "")
            machine.run("ls /srv/100%/checkpoints/of-the-master")


if __name__ == "__main__":
    enter_network()
    require()
    make_machines(0)
    unittest.main(verbosity=2)
