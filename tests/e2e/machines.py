"""Machines for tests: network namespaces on a bridge in a third one.

All namespaces are anonymous and end with the test. This needs permission to create them: root, or user namespaces for
all users.
"""

import os
import subprocess
import sys

from cluster import wait_for

SKIPPED = 77  # the exit code that ctest takes as "skipped"
NETWORK = "10.213.7"


def enter_network():
    """Restarts this program in its own network namespace, unless it is in one already."""
    if "MUSTER_TEST_NETWORK" in os.environ:
        return
    command = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    try:
        subprocess.run([*command, "ip", "link", "add", "probe", "type", "veth"], check=True,
                       capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print("skipped: network namespaces cannot be created here; run as root with iproute2 and "
              f"util-linux: {getattr(error, 'stderr', '') or error}")
        sys.exit(SKIPPED)
    os.environ["MUSTER_TEST_NETWORK"] = "inside"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


class Machine:
    """A network namespace, held by a process, with a link to the bridge."""

    def __init__(self, number):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.prefix = ["nsenter", "--target", str(self.holder.pid), "--net"]
        self.link = f"machine{number}"
        here = os.readlink("/proc/self/ns/net")
        wait_for("a network namespace",
                 lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != here)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns",
           str(self.holder.pid))
        ip("link", "set", self.link, "master", "bridge", "up")
        self.ip("addr", "add", f"{NETWORK}.{number + 2}/24", "dev", "eth0")
        self.ip("link", "set", "eth0", "up")
        self.ip("link", "set", "lo", "up")

    def ip(self, *arguments):
        subprocess.run([*self.prefix, "ip", *arguments], check=True)

    def cut(self):
        ip("link", "set", self.link, "down")

    def mend(self):
        ip("link", "set", self.link, "up")

    def processes(self):
        """Returns the processes of this machine: {process: program}."""
        network = os.readlink(f"/proc/{self.holder.pid}/ns/net")
        found = {}
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.readlink(f"/proc/{entry}/ns/net") == network:
                    found[int(entry)] = os.path.basename(os.readlink(f"/proc/{entry}/exe"))
            except OSError:  # it has ended
                pass
        del found[self.holder.pid]
        return found

    def end(self):
        self.holder.kill()
        self.holder.wait()


def make_machines(count):
    """Makes the bridge, with the address NETWORK.1, and machines with NETWORK.2 and so on."""
    ip("link", "set", "lo", "up")
    ip("link", "add", "bridge", "type", "bridge")
    ip("addr", "add", f"{NETWORK}.1/24", "dev", "bridge")
    ip("link", "set", "bridge", "up")
    return [Machine(number) for number in range(count)]


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)
