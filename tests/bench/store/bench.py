"""Shared by the benchmarks on a real master: the master and its user, its cost, a store with a history, results."""

import http.client
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))


def say(text):
    print(text, file=sys.stderr, flush=True)


class Lines:
    """Prints one JSON line for each measure."""

    def __init__(self, bench):
        self.bench = bench

    def emit(self, measure, value, unit, goal=None, at_most=True, peer=None, **more):
        met = None if goal is None else (value <= goal if at_most else value >= goal)
        line = {"bench": self.bench, "measure": measure, "value": round(value, 3), "unit": unit,
                "peer": peer and round(peer, 3), "ratio": round(value / peer, 3) if peer else None,
                "goal": goal, "met": met}
        print(json.dumps(line | more), flush=True)


def json_of(*argv):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(str(a) for a in argv)}: exit status {done.returncode}")
    return json.loads(done.stdout)


def use_build(build):
    """Makes tests/e2e/cluster.py use the programs of a build folder."""
    os.environ["MUSTER_BIN"], os.environ["MUSTER_SOURCE"] = str(build.resolve() / "bin"), str(ROOT)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid, what="VmHWM"):
    """Returns the peak resident memory; VmRSS: the current one."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split(what + ":")[1].split()[0]) / 1024


class Master:
    def __init__(self, folder):
        from cluster import Cluster
        self.folder = pathlib.Path(folder)
        self.cluster = Cluster(folder, slots=())
        self.start()

    def start(self):
        from cluster import PASSWORD
        self.cluster.start_master()
        self.pid = self.cluster.master.process.pid
        self.host, self.port = self.cluster.url.split("//")[1].split(":")
        self.agent = (self.folder / "master" / "agent.token").read_text().strip()
        self.connection = http.client.HTTPConnection(self.host, int(self.port))
        self.token = ""
        self.token = json.loads(self.call("POST", "/api/v1/auth/login", {
            "username": "determined", "password": PASSWORD, "isHashed": False}))["token"]

    def stop(self):
        self.connection.close()
        self.cluster.master.stop()

    def call(self, method, path, body=None):
        self.connection.request(method, path, None if body is None else json.dumps(body),
                                {"Authorization": "Bearer " + self.token})
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]}")
        return data

    def store_bytes(self):
        return sum(path.stat().st_size for path in (self.folder / "master").glob("muster.db*"))


def add_sizes(parser):
    """Adds the options for the size of the history of fill_history()."""
    parser.add_argument("--experiments", type=int, default=100_000)
    parser.add_argument("--trials", type=int, default=10, help="trials of an experiment")
    parser.add_argument("--points", type=int, default=100_000_000, help="points of all trials")
    parser.add_argument("--series", type=int, default=1_000_000, help="points of the long series")


def fill_history(options, folder):
    """Makes a store of many ended experiments with all their points, once for each folder."""
    summary = folder / "filled.json"
    if summary.exists():
        return json.loads(summary.read_text())
    per_trial = options.points // (options.experiments * options.trials)
    Master(folder).stop()
    store = folder / "master" / "muster.db"
    say(f"{options.experiments} experiments, {options.experiments * options.trials} trials")
    start = time.perf_counter()
    subprocess.run([ROOT / "tests/bench/api/fill.py", store, "--experiments", str(options.experiments),
                    "--trials", str(options.trials)], check=True, stdout=sys.stderr)
    say(f"{per_trial} points each")
    filled = json_of(options.build / "tests/bench_store_metrics_fill", store.parent, per_trial, options.series)
    filled["filling"] = time.perf_counter() - start
    summary.write_text(json.dumps(filled))
    return filled
