#!/usr/bin/python3
"""Fills the store of a master, which was started once and stopped, with a long history of ended
experiments, generated from a seed.

    tests/bench/api/fill.py FOLDER/muster.db [--experiments 100000] [--trials 10] [--seed 1]

It writes rows as the core does, but fills the tables of lists at once, with the statements of
db/migrations/0005_lists.sql, instead of with a trigger for each row.
"""

import argparse
import json
import pathlib
import random
import re
import sqlite3
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
MIGRATION = ROOT / "db" / "migrations" / "0005_lists.sql"
MODELS = ["resnet", "gpt", "vit", "unet", "bert", "lenet"]
SIZES = ["base", "large", "tiny"]
LABELS = ["vision", "nlp", "baseline", "ablation", "prod", "debug"]
USERS, WORKSPACES, PROJECTS = 40, 20, 100

CONFIG = {
    "checkpoint_storage": {"type": "directory", "container_path": "/checkpoints", "save_trial_best": 1},
    "entrypoint": ["python3", "train.py", "--config", "config.yaml"],
    "environment": {"environment_variables": [f"VARIABLE_{i}=a value of number {i}" for i in range(24)]},
    "labels": [], "max_restarts": 5, "name": "", "description": "", "hyperparameters": {},
    "resources": {"slots_per_trial": 4, "resource_pool": "default", "priority": 42, "weight": 1.0},
    "searcher": {"name": "single", "metric": "loss", "smaller_is_better": True},
}


def people(db):
    owner = db.execute("SELECT id FROM users WHERE username = 'determined'").fetchone()[0]
    db.executemany("INSERT INTO users (username, password_hash, modified_at) VALUES (?, '', 0)",
                   [(f"user{i}",) for i in range(USERS)])
    users = [row[0] for row in db.execute("SELECT id FROM users WHERE username LIKE 'user%' ORDER BY id")]
    projects = []
    for w in range(WORKSPACES):
        workspace = db.execute("INSERT INTO workspaces (name, user_id, created_at) VALUES (?, ?, 0)",
                               (f"team{w}", owner)).lastrowid
        for p in range(PROJECTS // WORKSPACES):
            projects.append(db.execute("INSERT INTO projects (name, workspace_id, user_id, created_at) "
                                       "VALUES (?, ?, ?, 0)", (f"project{p}", workspace, owner)).lastrowid)
    return users, projects


def metrics(r):
    last = r.random()
    return {"count": 100, "last": last, "max": last + r.random(), "mean": last, "min": last * r.random(),
            "steps": 1000, "sum": 100 * last, "type": "number"}


def trial(r, number, experiment, state, start):
    hparams = {"learning_rate": 10 ** r.uniform(-5, -1), "optimizer": r.choice(["adam", "sgd", "adamw"]),
               "batch_size": r.choice([32, 64, 128]), "width": 256, "model": {"depth": r.choice([2, 4, 8])}}
    validation = {"loss": metrics(r), "accuracy": metrics(r)}
    summary = {"avg_metrics": {"loss": metrics(r), "grad_norm": metrics(r)}, "validation_metrics": validation}
    best = {"endTime": "2026-11-01T00:00:00Z", "numInputs": 0, "totalBatches": 1000,
            "metrics": {"avgMetrics": {name: m["last"] for name, m in validation.items()}}}
    return (number, experiment, f"{number:036d}", f"{experiment}.{number}", state, json.dumps(hparams), 1, 1, 1.0,
            1000, json.dumps(summary), json.dumps(best), json.dumps(best), start,
            start + 3600 * 10**6)


def experiment(r, number, count, users, projects, now):
    name = f"{r.choice(MODELS)}-{r.choice(SIZES)}-{r.randrange(10**6)}"
    user = r.choice(users[:max(1, int(len(users) * r.random() ** 2))])
    config = dict(CONFIG, name=name, resources=dict(CONFIG["resources"], slots_per_trial=r.choice([1, 2, 4, 8])))
    text = json.dumps(config)
    state = r.choices(["COMPLETED", "ERROR", "CANCELED"], [86, 8, 6])[0]
    labels = sorted(set(r.sample(LABELS, r.randrange(3)) + [f"tag{r.randrange(500)}"]))
    start = now - (count - number) * 60 * 10**6 + r.randrange(50 * 10**6)
    end = start + r.randrange(60, 7200) * 10**6
    return (number, state, name, f"a training of {name} on data set {r.randrange(50)}", "", json.dumps(labels), user,
            projects[(user * 3 + r.randrange(3)) % len(projects)], f"{number:036d}", text, text, 42, "single",
            1.0 if state == "COMPLETED" else r.random(), r.random(), int(r.random() < 0.1), 1, start, end)


def rows(r, arguments, users, projects):
    now = 1_795_000_000_000_000
    for number in range(1, arguments.experiments + 1):
        row = experiment(r, number, arguments.experiments, users, projects, now)
        first = (number - 1) * arguments.trials + 1
        yield row, [trial(r, first + k, number, "COMPLETED", row[-2]) for k in range(arguments.trials)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--experiments", type=int, default=100_000)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    r = random.Random(arguments.seed)
    started = time.monotonic()
    db = sqlite3.connect(arguments.store, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -200000")
    db.execute("BEGIN IMMEDIATE")
    triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND "
                          "tbl_name IN ('experiments', 'trials', 'experiment_briefs')").fetchall()
    for name, _ in triggers:
        db.execute(f"DROP TRIGGER {name}")
    users, projects = people(db)
    for row, trials in rows(r, arguments, users, projects):
        db.execute("INSERT INTO experiments (id, state, name, description, notes, labels, user_id, project_id, job_id,"
                   " original_config, config, priority, searcher_type, progress, best_metric, archived, seed,"
                   " submitted_at, ended_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", row)
        db.executemany("INSERT INTO trials (id, experiment_id, request_id, task_id, state, hparams, seed, run_id,"
                       " progress, steps_completed, summary_metrics, latest_validation, best_validation, started_at,"
                       " ended_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", trials)
    text = MIGRATION.read_text()
    lists = text[text.index("-- What the store has already."):text.index("-- What comes from now on.")]
    table = text[text.index("CREATE TABLE experiment_briefs ("):text.index(") STRICT")]
    columns = ", ".join(re.findall(r"^    (\w+) ", table, re.MULTILINE))  # later migrations add more, with defaults
    for statement in re.sub(r"--.*", "", lists).split(";"):
        db.execute(statement.replace("INTO experiment_briefs\n", f"INTO experiment_briefs ({columns})\n"))
    db.execute("UPDATE experiment_briefs SET pool = 'default' WHERE pool = ''")
    for _, sql in triggers:
        db.execute(sql)
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    print(f"{arguments.experiments} experiments with {arguments.trials} trials each in "
          f"{time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
