"""Machines that SSH reaches: network namespaces (machines.py) with file systems and processes of their own.

Each sees this system's files below an overlay in memory, so that /etc, /opt and /var are its own, and runs Debian's
sshd. Nothing outside changes. It needs root, overlayfs and openssh-server. The machines have no systemd.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from cluster import BIN, wait_for
from machines import NETWORK, SKIPPED, ip

SSHD = "/usr/sbin/sshd"

# Arguments: the folder of the mounts, the size of the memory, a folder to show as /shared, the public key of root.
BOOT = r"""
set -eu
base=$1 size=$2 shared=$3 key=$4 name=$5
mount --make-rprivate /
mount -t tmpfs -o mode=755,size="$size" tmpfs "$base"
mkdir "$base/upper" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/root"
cd "$base/root"
mkdir -p shared
mount --bind "$shared" shared
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
for folder in opt var/lib var/cache; do mkdir -p $folder; done
hostname "$name"
mkdir .old
pivot_root . .old
umount -l /.old
rmdir /.old
mkdir -p /run/sshd /root/.ssh
chmod 700 /root /root/.ssh
cat "$key" >/root/.ssh/authorized_keys 2>/dev/null || printf '%s\n' "$key" >/root/.ssh/authorized_keys
chmod 600 /root/.ssh/authorized_keys
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 sh -c '/usr/sbin/sshd -D -e & while :; do wait; sleep 0.2; done'
"""


def require():
    """Ends the program as skipped where such machines cannot be made."""
    for missing in [name for name in (SSHD, "/usr/bin/ssh-keygen") if not os.path.exists(name)]:
        print(f"skipped: {missing} is missing; install openssh-server")
        sys.exit(SKIPPED)
    if os.geteuid() != 0:
        print("skipped: machines with files of their own need root")
        sys.exit(SKIPPED)
    pathlib.Path("probe").mkdir()
    probe = subprocess.run(["unshare", "--mount", "sh", "-ec", "mount -t tmpfs tmpfs probe; cd probe; mkdir u w r;"
                            "mount -t overlay overlay -o lowerdir=/,upperdir=u,workdir=w r"], capture_output=True, text=True)
    pathlib.Path("probe").rmdir()
    if probe.returncode != 0:
        print(f"skipped: overlays of the system's files cannot be mounted here: {probe.stderr}")
        sys.exit(SKIPPED)


class SshMachine:
    """`number` 0 has the address NETWORK.2, and so on; all machines see the folder `shared` as /shared."""

    def __init__(self, number, key, shared, size="2g"):
        self.name, self.address = f"machine{number}", f"{NETWORK}.{number + 2}"
        self.base = pathlib.Path(f"{self.name}-files").resolve()
        self.base.mkdir()
        self.link = f"machine{number}"
        self.log_path = pathlib.Path(f"{self.name}.log")
        ready = pathlib.Path(f"{self.name}.ready")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
                 "--uts", "--ipc", "bash", "-c", f"touch {ready.resolve()}; ip link set lo up; " + BOOT, "boot", str(self.base), size, str(shared),
                 key, self.name], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_for("the namespaces of a machine", ready.exists)
        self.init = self._first_process()
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", str(self.init))
        ip("link", "set", self.link, "master", "bridge", "up")
        self.outside("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.outside("ip", "link", "set", "eth0", "up")
        wait_for("sshd to answer", lambda: b"Server listening" in self.log_path.read_bytes())

    def _first_process(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(wait_for("the first process of a machine", lambda: children.read_text().split())[0])

    def outside(self, *command):
        """Runs a program of this system in the network of the machine."""
        subprocess.run(["nsenter", "--target", str(self.init), "--net", *command], check=True)

    def run(self, script, check=True):
        """Runs a shell script as root in the machine and returns its output."""
        done = subprocess.run(["nsenter", "--target", str(self.init), "--all", "--root", "--wd", "env", "-i", "HOME=/root",
                               "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-euc", script],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise AssertionError(f"exit code {done.returncode} of:\n{script}\n{done.stdout}{done.stderr}")
        return done.stdout

    def fake(self, program, script):
        """Puts a shell script before a program of the machine."""
        path = f"/usr/local/bin/{program}"
        self.run(f"cat >{path} <<'END'\n#!/bin/sh\n{script}\nEND\nchmod 755 {path}")
        return path

    def end(self):
        self.process.kill()
        self.process.wait()
        subprocess.run(["ip", "link", "del", self.link], capture_output=True)  # it goes with the namespace, too
        shutil.rmtree(self.base, ignore_errors=True)


def make_tarball(path, mark=""):
    """Packs the programs of this build as a release, without the libraries, which all machines see. `mark` makes it
    another release."""
    source = pathlib.Path(os.environ["MUSTER_SOURCE"])
    stage = path.parent / (path.name + ".files")
    top = stage / "muster-0.1.0-linux-x86_64"
    units = top / "lib" / "systemd" / "system"
    (top / "bin").mkdir(parents=True)
    (top / "libexec" / "muster").mkdir(parents=True)
    units.mkdir(parents=True)
    for program in ("muster", "muster-master", "muster-agent", "muster-supervisor", "muster-trainer"):
        subprocess.run(["strip", "-o", top / "bin" / program, BIN / program], check=True)
    shutil.copy(BIN.parent / "libexec" / "muster" / "muster", top / "libexec" / "muster")
    if (BIN.parent / "share").exists():
        shutil.copytree(BIN.parent / "share", top / "share", symlinks=True)
    for unit in ("master", "agent", "tasks"):
        shutil.copy(source / "packaging" / "systemd" / f"muster-{unit}.service", units)
    (top / "mark").write_text(mark)
    subprocess.run(["tar", "-C", stage, "-czf", path, top.name], check=True)
    shutil.rmtree(stage)
    return path
