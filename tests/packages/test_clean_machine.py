"""The packages on a bare Debian 12, which debootstrap makes: apt finds every dependency, and every program starts.

It needs root and a mirror of Debian (MUSTER_DEBIAN_MIRROR, by default deb.debian.org)."""

import os
import pathlib
import shutil
import subprocess
import unittest
import urllib.request

import pack
from machine import main

MIRROR = os.environ.get("MUSTER_DEBIAN_MIRROR", "http://deb.debian.org/debian")
PROGRAMS = ("muster", "muster-master", "muster-agent", "muster-trainer")


class CleanMachine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            raise unittest.SkipTest("debootstrap is not installed, or this is not root")
        try:
            urllib.request.urlopen(f"{MIRROR}/dists/bookworm/InRelease", timeout=10).close()
        except OSError as error:
            raise unittest.SkipTest(f"no mirror of Debian: {error}")
        cls.root = pathlib.Path("debian").resolve()
        with open("debootstrap.log", "ab") as log:
            made = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", cls.root, MIRROR], stdout=log,
                                  stderr=log, check=False)
        if made.returncode:
            raise unittest.SkipTest("debootstrap failed: " + pathlib.Path("debootstrap.log").read_text()[-500:])
        shutil.copytree(pack.build("packages", "deb"), cls.root / "packages")
        shutil.copy("/etc/resolv.conf", cls.root / "etc/resolv.conf")

    def run_there(self, script, proc=True):
        """Runs a bash script in the root; its processes end with it. Without `proc` there is no /proc."""
        namespace = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        namespace += [f"--mount-proc={self.root}/proc"] if proc else []
        answer = subprocess.run([*namespace, "chroot", self.root, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                                 "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "bash", "-euc", script],
                                capture_output=True, text=True, check=False)
        self.assertEqual(answer.returncode, 0, f"{script}\n{answer.stdout}{answer.stderr}")
        return answer.stdout + answer.stderr

    def test_install_run_purge(self):
        for program in ("libcurl-gnutls.so.4", "libarchive.so.13", "libjansson.so.4"):
            self.assertFalse(list(self.root.glob(f"usr/lib/*/{program}")), "the system is bare")
        # As in a build of an image.
        self.run_there("cd /packages; apt-get update -q; apt-get install -q -y --no-install-recommends ./*.deb",
                       proc=False)
        for program in PROGRAMS:
            self.run_there(f"{program} --version")
        self.run_there("python3 -c 'import muster'")
        self.run_there("getent passwd muster muster-task;"
                       "muster --master http://127.0.0.1:9 agent list 2>&1 | grep 'cannot reach'")
        # Without systemd the daemons run, too.
        self.run_there("""
            systemd-tmpfiles --create muster-master.conf
            setpriv --reuid=muster --regid=muster --init-groups muster-master --config /etc/muster/master.yaml &
            master=$!
            for _ in $(seq 100); do
                muster login admin --password-file /var/lib/muster/initial-password 2>/dev/null && break
                sleep 0.1
            done
            muster master info
            kill $master
            wait $master""")
        self.run_there("apt-get purge -q -y 'muster-*' python3-muster; ls /var/lib/muster/muster.db; dpkg --audit")


if __name__ == "__main__":
    main()
