"""Attacks of a task on its machine (test_isolation.py). Each attack returns what it has reached, or None. The program prints
one line of JSON: {reached: {attack: evidence}, tried, uid, groups, devices}."""

import ctypes
import glob
import json
import os
import signal
import socket
import stat
import subprocess

WORK, TOKEN = os.environ["WORK_DIR"], os.environ["TOKEN_FILE"]
TARGETS = json.loads(os.environ["TARGETS"])  # pids of the victim, its supervisor, the agent and the test
OWN = os.environ["MUSTER_RUN_DIR"]
LIBC = ctypes.CDLL(None, use_errno=True)
SECRET = b"the secret of the victim"
PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def read(path):
    with open(path, "rb") as file:
        return file.read(4096)


def connect(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    return path


def call(name, *arguments):
    """The result of a function of the C library; an error is an OSError."""
    result = getattr(LIBC, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return f"{name}: {result}"


def other_processes():
    own = {"1", str(os.getpid())}
    return [name for name in os.listdir("/proc") if name.isdigit() and name not in own] or None


def secrets_of_processes():
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            if SECRET in read(path):
                return path
        except OSError:
            pass
    return None


def first_that_exists(*paths):
    return next((path for path in paths if os.path.exists(path)), None)


def set_user_id():
    said = subprocess.run([os.environ["SET_USER_ID"], "-u"], capture_output=True, text=True).stdout.split()
    return said if said != [str(os.getuid())] else None


def make_device(folder):
    path = folder + "/disk"
    os.mknod(path, 0o600 | stat.S_IFBLK, os.makedev(8, 0))
    return path


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return path


def own_capabilities():
    lines = [line.split() for line in open("/proc/self/status") if line.startswith(("CapEff", "CapPrm", "CapBnd", "CapAmb"))]
    return [name for name, value in lines if int(value, 16) and (os.getuid() == 0 or name != "CapBnd:" or BOUNDED)] or None


# A process in a user namespace of an agent that is not root keeps a bounding set, which is useless with no_new_privs.
BOUNDED = any(line.split()[2] == "4294967295" for line in open("/proc/self/uid_map"))

ATTACKS = {
    "token of the agent": lambda: read(TOKEN) or None,
    "list of tasks": lambda: [name for name in os.listdir(WORK + "/tasks") if name != os.path.basename(OWN)] or None,
    "rest of the work folder": lambda: [name for name in os.listdir(WORK) if name != "tasks"] or None,
    "rest of the own folder": lambda: sorted(set(os.listdir(OWN)) - {"work", "home", "report.sock"}) or None,
    "settings of a task": lambda: read(WORK + "/tasks/victim/task.json"),
    "own settings": lambda: read(OWN + "/task.json"),
    "files of a task": lambda: read(os.path.join(WORK, "tasks", "victim", "work", "file")),
    "a new task": lambda: os.mkdir(WORK + "/tasks/new") or "made",
    "socket of the own supervisor": lambda: connect(OWN + "/sock"),
    "socket of another supervisor": lambda: connect(WORK + "/tasks/victim/sock"),
    "reports of another task": lambda: connect(WORK + "/tasks/victim/report.sock"),
    "temporary file of another task": lambda: first_that_exists("/tmp/victim", "/var/tmp/victim"),
    "shared memory of another task": lambda: first_that_exists("/dev/shm/victim"),
    "System V memory of another task": lambda: call("shmget", 0x4d75, 4096, 0),
    "other processes": other_processes,
    "secrets in environments": secrets_of_processes,
    "memory of the first process": lambda: open("/proc/1/mem", "rb"),
    "environment of the first process": lambda: read("/proc/1/environ"),
    "files of the first process": lambda: os.listdir("/proc/1/fd"),
    "root of the first process": lambda: os.listdir("/proc/1/root"),
    "tracing of the first process": lambda: call("ptrace", PTRACE_ATTACH, 1, None, None),
    "a device for a disk": lambda: make_device("."),
    "a device in /dev": lambda: make_device("/dev"),
    "devices of the machine": lambda: first_that_exists("/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/vda", "/dev/sda", "/dev/loop0",
                                                        "/dev/loop-control", "/dev/fuse", "/dev/net/tun", "/dev/nvidiactl"),
    "a mount": lambda: call("mount", b"x", b"/tmp", b"tmpfs", 0, None),
    "the mount over the tasks": lambda: call("umount2", WORK.encode(), 2),
    "the mount over the token": lambda: call("umount2", TOKEN.encode(), 2),
    "a user namespace": lambda: call("unshare", 0x10000000),
    "a mount namespace": lambda: call("unshare", 0x20000),
    "another root folder": lambda: os.chroot("/tmp") or "changed",
    "root's account": lambda: os.setuid(0) or "changed",
    "a set-user-id program": set_user_id,
    "capabilities": own_capabilities,
    "bus of the machine": lambda: connect("/run/dbus/system_bus_socket"),
    "services of a signed-in user": lambda: glob.glob("/run/user/*/*") or None,
    "passwords of the machine": lambda: read("/etc/shadow"),
    "settings of the kernel": lambda: write("/proc/sys/kernel/core_pattern", "|/tmp/x"),
    "requests to the kernel": lambda: write("/proc/sysrq-trigger", "h"),
    "the name of the machine": lambda: call("sethostname", b"mine", 4),
    "the kernel's keys": lambda: f"key {LIBC.syscall(250, 0, -3, 1)}" if LIBC.syscall(250, 0, -3, 1) >= 0 else None,
}

for number, (pid, who) in enumerate(zip(TARGETS, ("the victim", "its supervisor", "the agent", "the test"))):
    ATTACKS[f"signal to {who}"] = lambda pid=pid: os.kill(pid, 0) or "sent"
    ATTACKS[f"memory of {who}"] = lambda pid=pid: open(f"/proc/{pid}/mem", "rb")
    ATTACKS[f"environment of {who}"] = lambda pid=pid: read(f"/proc/{pid}/environ")
    ATTACKS[f"files of {who} through its root"] = lambda pid=pid: os.listdir(f"/proc/{pid}/root")
    ATTACKS[f"tracing of {who}"] = lambda pid=pid: call("ptrace", PTRACE_ATTACH, pid, None, None)

reached = {}
for attack, run in ATTACKS.items():
    try:
        evidence = run()
    except OSError:
        evidence = None
    if evidence is not None:
        reached[attack] = str(evidence)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    os.kill(-1, signal.SIGTERM)  # everybody whom it may signal
except OSError:
    pass
print(json.dumps({"reached": reached, "tried": len(ATTACKS), "uid": os.getuid(), "groups": os.getgroups(),
                  "devices": sorted(os.listdir("/dev"))}))
