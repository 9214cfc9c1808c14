"""The program of the trial: reports in columns of 1,000, as fast as possible and 100 times a second, and one by one over
HTTP, as Determined's library does. Writes one JSON line per measure to the file in $OUT."""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import time

COLUMN = 1000
TICK = os.sysconf("SC_CLK_TCK")
ROUNDS = 5


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def find_supervisor():
    """The nearest ancestor that is one: a shell may lie between."""
    pid = os.getppid()
    while not pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("muster-super"):
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return pid


def connect():
    folder = os.open(os.environ["MUSTER_RUN_DIR"], os.O_PATH)
    reports = socket.socket(socket.AF_UNIX)
    reports.connect(f"/proc/self/fd/{folder}/report.sock")
    return reports


def column_line(first):
    """What the Python package sends: the values of 1,000 steps."""
    now = time.time_ns() // 1000
    return json.dumps({"kind": "metrics", "group": "training", "steps": list(range(first, first + COLUMN)),
                       "times": [now + 10 * i for i in range(COLUMN)],
                       "metrics": {"loss": [1.0 / (1 + first + i) for i in range(COLUMN)]}},
                      separators=(",", ":")).encode() + b"\n"


def measure_columns(out, count, rate=None):
    """Sends `count` lines, `rate` per second; the end is the last answer."""
    lines = [column_line(measure_columns.next + i * COLUMN) for i in range(count)]
    measure_columns.next += count * COLUMN
    reports = connect()
    answers = reports.makefile("rb")
    supervisor = find_supervisor()
    before, began = cpu_seconds(supervisor), time.monotonic()
    waiting = 0
    for number, line in enumerate(lines):
        if rate:
            time.sleep(max(0, began + number / rate - time.monotonic()))
        reports.sendall(line)
        waiting += 1
        if waiting == 8:
            assert b"sequence" in answers.readline()
            waiting -= 1
    for _ in range(waiting):
        assert b"sequence" in answers.readline()
    seconds = time.monotonic() - began
    out.write(json.dumps({"what": "paced" if rate else "fast", "reports": count * COLUMN, "seconds": seconds,
                          "cpu": cpu_seconds(supervisor) - before, "bytes": sum(map(len, lines))}) + "\n")


measure_columns.next = 1


def measure_posts(out, count):
    host, port = os.environ["DET_MASTER"].split("//")[1].split(":")
    connection = http.client.HTTPConnection(host, int(port))
    trial, run = os.environ["DET_TRIAL_ID"], int(os.environ["DET_TRIAL_RUN_ID"])
    headers = {"Grpc-Metadata-x-allocation-token": "Bearer " + os.environ["DET_SESSION_TOKEN"]}
    began = time.monotonic()
    for step in range(count):
        body = {"group": "posted", "metrics": {"trialId": int(trial), "trialRunId": run, "stepsCompleted": step,
                                               "metrics": {"avgMetrics": {"loss": 0.5}}}}
        connection.request("POST", f"/api/v1/trials/{trial}/metrics", json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
    out.write(json.dumps({"what": "post", "reports": count, "seconds": time.monotonic() - began}) + "\n")


def measure_loop(out, name, command, count):
    """A loop of a shell on one core. The step and so the command line differ each time."""
    core = str(min(os.sched_getaffinity(0)))
    script = f"i=0; while [ $i -lt {count} ]; do i=$((i + 1)); {command} || exit 1; done"
    began = time.monotonic()
    subprocess.run(["taskset", "-c", core, "sh", "-c", script], check=True)
    out.write(json.dumps({"what": name, "reports": count, "seconds": time.monotonic() - began}) + "\n")


with open(os.environ["OUT"], "w") as out:
    for number in range(ROUNDS):
        measure_loop(out, "true", "/bin/true", 300)
        measure_loop(out, "loop", f"muster report loss=0.5 --group loop{number} --step $i", 300)
        measure_posts(out, 500)
        measure_columns(out, 300)
        measure_columns(out, 300, rate=100)
        out.flush()
