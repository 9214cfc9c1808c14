-- The experiment store. Times are microseconds since 1970 (UTC), JSON is text, ids of experiments and
-- trials are given by the master's core thread. Hot append tables (metrics, logs) are in arrival order.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    username TEXT NOT NULL UNIQUE,
    display_name TEXT NOT NULL DEFAULT '',
    admin INTEGER NOT NULL DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1,
    password_hash TEXT NOT NULL,           -- yescrypt; '' is the blank password
    modified_at INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (                      -- who may call: users, agents, one live token an allocation
    hash TEXT PRIMARY KEY,                 -- SHA-256 of the token, hex
    kind TEXT NOT NULL CHECK (kind IN ('user', 'agent', 'allocation')),
    user_id INTEGER REFERENCES users (id),
    allocation_id TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL            -- 0: never; revoked tokens are deleted
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_allocation ON tokens (allocation_id) WHERE allocation_id IS NOT NULL;

CREATE TABLE workspaces (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, user_id INTEGER NOT NULL REFERENCES users (id),
    archived INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE projects (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    description TEXT NOT NULL DEFAULT '', user_id INTEGER NOT NULL REFERENCES users (id),
    archived INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL, UNIQUE (workspace_id, name)
) STRICT;

CREATE TABLE experiments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- an id is never given twice, even after a delete
    state TEXT NOT NULL,                   -- wire name without STATE_
    name TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    notes TEXT NOT NULL DEFAULT '',
    labels TEXT NOT NULL DEFAULT '[]',
    user_id INTEGER NOT NULL REFERENCES users (id),
    project_id INTEGER NOT NULL REFERENCES projects (id),
    job_id TEXT NOT NULL,
    parent_id INTEGER,
    original_config TEXT NOT NULL,         -- YAML as submitted
    config TEXT NOT NULL,                  -- JSON, complete with defaults
    priority INTEGER NOT NULL,
    searcher_type TEXT NOT NULL,
    searcher_state TEXT NOT NULL DEFAULT '{}',
    progress REAL NOT NULL DEFAULT 0,
    best_metric REAL,                      -- of the searcher's metric, over all trials
    archived INTEGER NOT NULL DEFAULT 0,
    unmanaged INTEGER NOT NULL DEFAULT 0,
    seed INTEGER NOT NULL,
    model_definition_hash TEXT NOT NULL DEFAULT '',
    submitted_at INTEGER NOT NULL,         -- startTime on the wire
    ended_at INTEGER
) STRICT;
CREATE INDEX experiments_list ON experiments (archived, user_id, state, project_id);
CREATE INDEX experiments_live ON experiments (state)
    WHERE state NOT IN ('COMPLETED', 'CANCELED', 'ERROR');

CREATE TABLE model_definitions (           -- an experiment's files, by content
    hash TEXT PRIMARY KEY, archive BLOB NOT NULL -- tar.gz
) STRICT;

CREATE TABLE trials (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- an id is never given twice, even after a delete
    experiment_id INTEGER NOT NULL REFERENCES experiments (id),
    request_id TEXT NOT NULL,              -- the searcher's name for it
    task_id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    hparams TEXT NOT NULL,
    seed INTEGER NOT NULL,
    restarts INTEGER NOT NULL DEFAULT 0,   -- program errors so far
    run_id INTEGER NOT NULL DEFAULT 0,     -- epoch: grows with every start
    progress REAL NOT NULL DEFAULT 0,
    steps_completed INTEGER NOT NULL DEFAULT 0,
    runner_state TEXT NOT NULL DEFAULT '',
    exit_reason TEXT NOT NULL DEFAULT '',  -- a sentence: why it ended or was restarted last
    latest_checkpoint TEXT,
    latest_training TEXT,                  -- last report of the group, JSON metrics report
    latest_validation TEXT,
    best_validation TEXT,
    summary_metrics TEXT NOT NULL DEFAULT '{}',
    started_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE INDEX trials_experiment ON trials (experiment_id, id);

CREATE TABLE allocations (                 -- one start of a trial
    id TEXT PRIMARY KEY,                   -- task id + "." + epoch
    trial_id INTEGER NOT NULL REFERENCES trials (id),
    epoch INTEGER NOT NULL,
    state TEXT NOT NULL,                   -- QUEUED ASSIGNED PULLING STARTING RUNNING TERMINATING TERMINATED
    slots INTEGER NOT NULL,
    pool TEXT NOT NULL,
    placement TEXT NOT NULL DEFAULT '[]',  -- [{"agent","slots":[..],"ranks":[..]}]
    exit_reason TEXT NOT NULL DEFAULT '',
    queued_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    outcome TEXT NOT NULL DEFAULT ''       -- how it ends, once that is certain: COMPLETED PREEMPTED
                                           -- (also: drain acknowledged) FAILED LOST KILLED
) STRICT;
CREATE INDEX allocations_trial ON allocations (trial_id, epoch);
CREATE INDEX allocations_live ON allocations (state) WHERE state <> 'TERMINATED';

CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    pool TEXT NOT NULL,
    enabled INTEGER NOT NULL DEFAULT 1,
    draining INTEGER NOT NULL DEFAULT 0,
    slots TEXT NOT NULL,                   -- JSON as last reported
    disabled_slots TEXT NOT NULL DEFAULT '[]',
    version TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL
) STRICT;

CREATE TABLE metrics (                     -- one report a row, in order of arrival
    id INTEGER PRIMARY KEY,
    trial_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    grp TEXT NOT NULL,                     -- training, validation, gpu, ...
    steps INTEGER NOT NULL,                -- stepsCompleted; -1 when the report has none
    end_time INTEGER NOT NULL,
    metrics TEXT NOT NULL,                 -- JSON {name: value}
    batch_metrics TEXT,
    archived INTEGER NOT NULL DEFAULT 0    -- overtaken by a restart from an earlier step
) STRICT;
CREATE INDEX metrics_series ON metrics (trial_id, grp, steps);
CREATE UNIQUE INDEX metrics_once ON metrics (trial_id, run_id, grp, steps) WHERE steps >= 0;

CREATE TABLE logs (
    id INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    allocation_id TEXT NOT NULL DEFAULT '',
    agent_id TEXT NOT NULL DEFAULT '',
    container_id TEXT NOT NULL DEFAULT '',
    rank INTEGER,
    time INTEGER NOT NULL,
    level TEXT NOT NULL,                   -- wire name without LOG_LEVEL_
    stdtype TEXT NOT NULL DEFAULT 'stdout',
    source TEXT NOT NULL DEFAULT 'task',
    log TEXT NOT NULL,
    sequence INTEGER                       -- the sender's own count: a repeated post adds nothing
) STRICT;
CREATE INDEX logs_task ON logs (task_id, id);
CREATE UNIQUE INDEX logs_once ON logs (allocation_id, agent_id, sequence) WHERE sequence IS NOT NULL;

CREATE TABLE checkpoints (
    uuid TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    allocation_id TEXT NOT NULL,
    trial_id INTEGER,
    experiment_id INTEGER,
    state TEXT NOT NULL,                   -- ACTIVE COMPLETED ERROR DELETED PARTIALLY_DELETED
    steps INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    resources TEXT NOT NULL,               -- {path: bytes}
    storage TEXT NOT NULL,                 -- the checkpoint_storage it was written to, JSON
    validation TEXT,                       -- validation metrics of the same step, if there are
    reported_at INTEGER NOT NULL
) STRICT;
CREATE INDEX checkpoints_trial ON checkpoints (trial_id, steps);
CREATE INDEX checkpoints_experiment ON checkpoints (experiment_id, steps);
