"""A small cluster with data for tests of the page: experiments that have completed, run, wait, failed and are
paused;
a search, two teams, three kinds of users, a model with versions, logs and checkpoints.

Everything is created in the same order, so experiments have the same ids every time: those of EXPERIMENTS, from 1.
"""

import math
import os
import pathlib
import random
import subprocess
import sys

from cluster import PASSWORD, SOURCE, Cluster, wait_for
from test_api import Api

sys.path.insert(0, str(SOURCE / "sdk" / "python"))
from muster import media

EXPERIMENTS = ("spirals-wide", "spirals-deep", "spirals-search", "broken-loader", "night-run", "parked", "fine-print",
               "big-one", "big-two")

SPIRALS = """\
name: {name}
description: two spirals, separated by a small network
labels: [spirals, {label}]
resources: {{slots_per_trial: 1}}
searcher: {searcher}
reproducibility: {{experiment_seed: 5}}
hyperparameters: {hyperparameters}
trainer:
  model: {{family: mlp, hidden: {hidden}}}
  data: {{format: csv, path: spirals.csv, label: spiral, standardize: true, validation_count: 500}}
  global_batch_size: 64
  micro_batch_size: 32
  steps: {steps}
  optimizer: {{name: adamw, learning_rate: "${{learning_rate}}"}}
  validate_every: {every}
  checkpoint_every: {every}
  report_every: 2
"""
SINGLE = "{name: single, metric: validation_loss}"
SEARCH = "{name: random, metric: validation_loss, max_trials: 6, max_concurrent_trials: 2}"
RANGES = ("{learning_rate: {type: log, base: 10, minval: -4, maxval: -1}, width: {type: int, minval: 8, maxval: 64}, "
          "norm: {type: categorical, vals: [none, layer]}}")

PROGRAM = """\
name: {name}
labels: [{label}]
workspace: {team}
project: {project}
entrypoint: {entrypoint}
resources: {{slots_per_trial: {slots}}}
searcher: {{name: single, metric: validation_loss}}
max_restarts: 0
"""

# Reports metrics every half second, until it is preempted.
REPORTER = r'''
import datetime, json, math, os, time, urllib.request

def call(path, body=None):
    request = urllib.request.Request(os.environ["DET_MASTER"] + "/api/v1" + path, body and json.dumps(body).encode())
    request.add_header("Grpc-Metadata-x-allocation-token", "Bearer " + os.environ["DET_SESSION_TOKEN"])
    return json.load(urllib.request.urlopen(request))

trial, run = int(os.environ["DET_TRIAL_ID"]), int(os.environ["DET_TRIAL_RUN_ID"])
print("INFO begins", flush=True)
step = 0
signals = f"/allocations/{os.environ['DET_ALLOCATION_ID']}/signals"
while not call(signals + "/preemption?timeoutSeconds=0")["preempt"]:
    step += 10
    group = "validation" if step % 100 == 0 else "training"
    name = "validation_loss" if group == "validation" else "loss"
    call(f"/trials/{trial}/metrics", {"group": group, "metrics": {
        "trialId": trial, "trialRunId": run, "stepsCompleted": step,
        "reportTime": datetime.datetime.utcnow().isoformat() + "Z",
        "metrics": {"avgMetrics": {name: 2.5 * math.exp(-step / 900) + 0.1 * math.sin(step / 40)}}}})
    print(f"INFO step {step}", flush=True)
    time.sleep(0.5)
call(signals + "/ack_preemption", {"allocationId": os.environ["DET_ALLOCATION_ID"]})
'''

# Prints markup and escape sequences, which the page must show as text, and then fails.
BROKEN = r'''
import sys
print("INFO reading the list of files", flush=True)
print("<script>document.title = 'taken over'</script><img src=x onerror=\"document.title = 'taken over'\">", flush=True)
print("\x1b[31mERROR\x1b[0m red \x1b[1mand bold\x1b[0m", flush=True)
for number in range(120):
    print(f"INFO looked at file {number}", flush=True)
print("ERROR the list names images/0042.png, which is not there", file=sys.stderr, flush=True)
sys.exit(3)
'''


def user_of(cluster, name, password=PASSWORD):
    answer = Api(cluster.port).ok("POST", "/auth/login", {"username": name, "password": password, "isHashed": False})
    return Api(cluster.port, answer["token"])


class DemoCluster:
    """The cluster with its data; `admin`, `user` and `ada` are clients of the API."""

    def __init__(self, folder):
        self.cluster = Cluster(folder, slots=(2, 2), master_flags=("--agent-reconnect", "4"))

    def __enter__(self):
        self.cluster.__enter__()
        try:
            self.fill()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        self.cluster.__exit__(None, None, None)

    def fill(self):
        self.admin, self.user = user_of(self.cluster, "admin"), user_of(self.cluster, "determined")
        self.write_files()
        self.make_people()
        self.cluster.wait(self.submit_spirals("spirals-wide", hidden="[48]"))
        self.make_media(1)
        self.cluster.wait(self.submit_spirals("spirals-deep", hidden="[24, 24]"))
        self.cluster.wait(self.submit_spirals("spirals-search", SEARCH, RANGES, '["${width}"]', 120))
        self.cluster.wait(self.submit("broken-loader", "python3 broken.py", "input"), "ERROR")
        self.submit("night-run", "python3 reporter.py", "long")
        parked = self.submit("parked", "python3 reporter.py", "long")
        self.in_state(parked, "RUNNING")
        self.cluster.muster("experiment", "pause", parked)
        self.in_state(parked, "PAUSED")
        wait_for("its slot to be free", lambda: self.user.get("/resource-pools")["resourcePools"][0]["slotsUsed"] == 1)
        self.submit("fine-print", "python3 reporter.py", "ocr", team="Vision", project="letters", slots=2)
        for experiment in (5, 7):
            self.in_state(experiment, "RUNNING")
        for name in ("big-one", "big-two"):
            experiment = self.submit(name, "python3 reporter.py", "long", slots=4)
            wait_for("a reason to wait", lambda: self.cluster.rows("queue", "why", experiment)["reason"])
        self.make_models()

    def in_state(self, experiment, state):
        wait_for(f"experiment {experiment} to be {state}",
                 lambda: self.user.get(f"/experiments/{experiment}")["experiment"]["state"] == f"STATE_{state}")

    def write_files(self):
        self.programs = self.cluster.folder / "programs"
        self.spirals = self.cluster.folder / "spirals"
        for folder in (self.programs, self.spirals):
            folder.mkdir()
        (self.programs / "reporter.py").write_text(REPORTER)
        (self.programs / "broken.py").write_text(BROKEN)
        points = subprocess.run([sys.executable, SOURCE / "examples" / "spirals.py"], capture_output=True, check=True)
        (self.spirals / "spirals.csv").write_bytes(points.stdout)

    def make_people(self):
        def make(name, shown):
            self.admin.post("/users", {"user": {"username": name, "displayName": shown, "active": True},
                                       "password": PASSWORD, "isHashed": False})
            return user_of(self.cluster, name)
        ada, victor = make("ada", "Ada"), make("victor", "Victor")
        self.ada = ada
        self.admin.ok("PUT", f"/workspaces/1/members/{victor.get('/me')['user']['id']}", {"role": "viewer"})
        vision = self.admin.post("/workspaces", {"name": "Vision"})["workspace"]["id"]
        self.admin.ok("PATCH", f"/workspaces/{vision}", {"defaultRole": "viewer", "weight": 2, "maxSlots": 3})
        for caller in (ada, self.user):
            self.admin.ok("PUT", f"/workspaces/{vision}/members/{caller.get('/me')['user']['id']}", {"role": "editor"})
        self.admin.post(f"/workspaces/{vision}/projects", {"name": "letters", "description": "print, read by a network"})

    def create(self, name, text, folder):
        path = self.cluster.folder / f"{name}.yaml"
        path.write_text(text)
        number = self.cluster.create(path, folder)
        assert EXPERIMENTS[number - 1] == name, (number, name)
        return number

    def submit_spirals(self, name, searcher=SINGLE, hyperparameters="{learning_rate: 0.01}", hidden="[16]", steps=400):
        return self.create(name, SPIRALS.format(
            name=name, label=name.removeprefix("spirals-"), searcher=searcher, hyperparameters=hyperparameters,
            hidden=hidden, steps=steps, every=steps // 4), self.spirals)

    def submit(self, name, entrypoint, label, team="Uncategorized", project="Uncategorized", slots=1):
        return self.create(name, PROGRAM.format(name=name, entrypoint=entrypoint, label=label, team=team,
                                                project=project, slots=slots), self.programs)

    def make_media(self, trial):
        """Reports what a program would report of two spirals: decisions, weights, mistakes and a note."""
        storage = pathlib.Path(self.cluster.rows("checkpoint", "list", "--trial", trial)[0]["path"]).parent
        folder = media.folder_of(storage, self.user.get("/master")["clusterId"], 1)
        draw, items = random.Random(1), []
        for step in range(0, 400, 20):
            turn, width = 4 * step / 400, 0.3 + step / 400
            picture = [[0.5 + 0.5 * math.sin(math.hypot(x - 20, y - 20) * turn / 8 + math.atan2(y - 20, x - 20))
                        for x in range(40)] for y in range(40)]
            values = {"decisions": media.image(picture),
                      "weights/layer 1": media.histogram([draw.gauss(step / 800, width) for _ in range(2000)])}
            if step % 100 == 0:
                values["mistakes"] = media.table([
                    {"sample": draw.randrange(2000), "spiral": "ab"[i % 2], "predicted": "ba"[i % 2],
                     "probability": round(draw.random(), 4), "repeated": i > 2} for i in range(6)])
                values["notes"] = media.text(f"step {step}\nthe outer arms are <b>not</b> separated yet\n")
            items += [{"step": step, "name": name, "type": value.type, "format": value.format,
                       "digest": media.store(folder, value.content), "size": len(value.content)}
                      for name, value in values.items()]
        path, body = f"/trials/{trial}/media", {"items": items}  # 503: the end of the trial is not on disk yet
        wait_for("the media to be stored", lambda: self.user.call("POST", f"/api/v1{path}", body)[0] == 200)

    def make_models(self):
        newest = [self.cluster.rows("checkpoint", "list", "--experiment", number, "--latest")[0]["uuid"]
                  for number in (1, 2)]
        self.user.post("/models", {"name": "spirals", "description": "separates two spirals", "labels": ["small"],
                                   "metadata": {"task": "classification"}})
        for uuid, comment in zip(newest, ("the wide one", "the deep one, a little better")):
            self.user.post("/models/spirals/versions", {"checkpointUuid": uuid, "comment": comment})
