-- Experiments that are not a search: commands and other tasks of one trial that is never restarted, and those
-- whose programs run elsewhere (unmanaged). A running one of those, and its trials, have the state RUNNING.
ALTER TABLE experiments ADD COLUMN kind TEXT NOT NULL DEFAULT 'EXPERIMENT'
    CHECK (kind IN ('EXPERIMENT', 'COMMAND', 'SHELL', 'NOTEBOOK', 'TENSORBOARD', 'GENERIC'));
ALTER TABLE experiments ADD COLUMN external_id TEXT;   -- its submitter's name for it: made once
CREATE UNIQUE INDEX experiments_external ON experiments (external_id) WHERE external_id IS NOT NULL;
ALTER TABLE trials ADD COLUMN external_id TEXT;        -- unique in its experiment
ALTER TABLE trials ADD COLUMN heartbeat_at INTEGER;    -- unmanaged: last sign of life
ALTER TABLE trials ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}'; -- POST /runs/{id}/metadata

-- The validations that were the best of their experiment when they came.
CREATE TABLE validation_history (
    id INTEGER PRIMARY KEY,
    experiment_id INTEGER NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
    trial_id INTEGER NOT NULL,
    time INTEGER NOT NULL,
    value REAL NOT NULL
) STRICT;
CREATE INDEX validation_history_experiment ON validation_history (experiment_id, id);

-- Which checkpoints, or versions of models, trials say that they work with.
CREATE TABLE trial_sources (
    trial_id INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    checkpoint_uuid TEXT NOT NULL,
    type TEXT NOT NULL,                    -- wire name without TRIAL_SOURCE_INFO_TYPE_
    model_id INTEGER,
    model_version INTEGER,
    PRIMARY KEY (trial_id, checkpoint_uuid)
) STRICT, WITHOUT ROWID;
CREATE INDEX trial_sources_checkpoint ON trial_sources (checkpoint_uuid);
