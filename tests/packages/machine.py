"""A machine for tests of the packages: this system's files below an overlay, with systemd as its first process.

The machine has its own mounts, processes, network, host name and control group. Whatever happens in it is written to
memory and ends with the test; the files of this system do not change. It needs root, overlayfs and cgroup2.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

SKIPPED = 77  # the exit code that ctest takes as "skipped"
SYSTEMD = "/usr/lib/systemd/systemd"

# Arguments: the folder of the mounts, the folder to show as /mnt. It becomes systemd.
BOOT = r"""
set -eu
base=$1 shown=$2
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$base"
mkdir "$base/upper" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/root"
cd "$base/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
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
mount --bind "$shown" mnt
echo machine > etc/hostname
systemd-id128 new > etc/machine-id
for unit in getty.target remote-fs.target systemd-networkd.service systemd-resolved.service ssh.service cron.service; do
    ln -sf /dev/null etc/systemd/system/$unit
done
mkdir .old
pivot_root . .old # not chroot, in which no user namespaces can be made
umount -l /.old
rmdir /.old
exec env -i container=muster-test PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    /usr/lib/systemd/systemd --unit=basic.target
"""


def main():
    """As unittest.main(), but the exit code is that of a skipped test if all tests of the program were skipped."""
    result = unittest.main(verbosity=2, exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 0 if result.testsRun else SKIPPED)


def cgroup2_folder():
    """The mount of cgroup2 on this system; None: it has none."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        if right.startswith("cgroup2 "):
            return pathlib.Path(left.split()[4])
    return None


class Machine:
    """Boots when it is made. Use it as a context manager."""

    def __init__(self, shown):
        folder = cgroup2_folder()
        if os.geteuid() != 0 or not folder or not os.path.exists(SYSTEMD):
            raise unittest.SkipTest("a machine of its own needs root, cgroup2 and systemd")
        self.base = pathlib.Path("machine").resolve()
        self.base.mkdir()
        self.cgroup = folder / f"muster-test-{os.getpid()}"
        self.log = open("machine.log", "ab")
        try:
            self.cgroup.mkdir()
        except OSError as error:
            raise unittest.SkipTest(f"no control group of its own: {error}")
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--net", "--cgroup",
                   "bash", "-c", BOOT, "boot", str(self.base), str(shown)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True, preexec_fn=self._enter_cgroup)
        self.pid1 = self._find_systemd()

    def _enter_cgroup(self):
        (self.cgroup / "cgroup.procs").write_text("0")

    def _find_systemd(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            for pid in children.read_text().split():
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "systemd":
                    self.pid1 = pid
                    answer = self.run("systemctl is-system-running --wait", check=False)
                    if answer.strip() in ("running", "degraded"):
                        return pid
            time.sleep(0.1)
        self.stop()
        raise unittest.SkipTest("systemd does not boot in namespaces here: "
                                + pathlib.Path("machine.log").read_text()[-500:])

    def run(self, script, check=True, seconds=120):
        """Runs a bash script in the machine and returns its output; with `check` it must succeed."""
        command = ["nsenter", "--target", self.pid1, "--all", "--root", "--wd", "env", "-i", "HOME=/root",
                   "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
                   "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        answer = subprocess.run([*command, "bash", "-euo", "pipefail", "-c", script], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=seconds, check=False)
        if check and answer.returncode != 0:
            raise AssertionError(f"exit code {answer.returncode} of:\n{script}\n{answer.stdout}{answer.stderr}\n"
                                 + self.journal())
        return answer.stdout + answer.stderr

    def journal(self):
        return self.run("journalctl --no-pager -u 'muster-*' | tail -60", check=False)

    def wait_for(self, script, expected, seconds=60):
        """Repeats the script until its output contains `expected`."""
        deadline = time.monotonic() + seconds
        while True:
            output = self.run(script, check=False)
            if expected in output:
                return output
            if time.monotonic() > deadline:
                raise AssertionError(f"no \"{expected}\" within {seconds} s from: {script}\n{output}\n{self.journal()}")
            time.sleep(0.2)

    def stop(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)  # --kill-child ends the first process, and that all others
        self.process.wait()
        self.log.close()
        deadline = time.monotonic() + 10
        while self.cgroup.exists() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(self.cgroup, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    time.sleep(0.05)
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
