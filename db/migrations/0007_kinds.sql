-- Experiments that are not a search: commands and other tasks of one trial that is never restarted, and those
-- whose programs run elsewhere (unmanaged). A running one of those, and its trials, have the state RUNNING.
ALTER TABLE experiments ADD COLUMN kind TEXT NOT NULL DEFAULT 'EXPERIMENT'
    CHECK (kind IN ('EXPERIMENT', 'COMMAND', 'SHELL', 'NOTEBOOK', 'TENSORBOARD', 'GENERIC'));
ALTER TABLE experiments ADD COLUMN external_id TEXT;   -- its submitter's name for it: made once
CREATE UNIQUE INDEX experiments_external ON experiments (external_id) WHERE external_id IS NOT NULL;
ALTER TABLE trials ADD COLUMN external_id TEXT;        -- unique in its experiment
ALTER TABLE trials ADD COLUMN heartbeat_at INTEGER;    -- unmanaged: last sign of life
ALTER TABLE trials ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}'; -- POST /runs/{id}/metadata
-- Of a generic task: those that it was made below, "/" before each, the first of all first; whether it may be paused.
ALTER TABLE experiments ADD COLUMN ancestors TEXT NOT NULL DEFAULT '';
ALTER TABLE experiments ADD COLUMN no_pause INTEGER NOT NULL DEFAULT 0;
ALTER TABLE allocations ADD COLUMN exit_code INTEGER; -- 128 + signal; of several ranks the first that is not 0
CREATE INDEX experiments_tasks ON experiments (kind, id) WHERE kind <> 'EXPERIMENT';
DROP INDEX experiments_list;
CREATE INDEX experiments_list ON experiments (archived, user_id, state, project_id, kind);
ALTER TABLE projects ADD COLUMN notes TEXT NOT NULL DEFAULT '[]'; -- JSON list of {"name","contents"}

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

-- The life of checkpoints. removal: the patterns whose files are being removed, a JSON list ("**": the whole
-- folder); null: none. It is stored before the first file goes, so that an end of the master leaves nothing half done.
ALTER TABLE checkpoints ADD COLUMN removal TEXT;
CREATE INDEX checkpoints_removal ON checkpoints (uuid) WHERE removal IS NOT NULL;
CREATE TABLE gc_due (                      -- experiments whose checkpoints are to be chosen from
    experiment_id INTEGER PRIMARY KEY,
    asked INTEGER NOT NULL DEFAULT 1       -- how often: one that was asked again is looked at again
) STRICT;
CREATE TABLE experiment_sources (          -- checkpoints that experiments start from
    checkpoint_uuid TEXT NOT NULL,
    experiment_id INTEGER NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
    PRIMARY KEY (checkpoint_uuid, experiment_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX experiment_sources_experiment ON experiment_sources (experiment_id);
CREATE TRIGGER experiment_sources_new AFTER INSERT ON experiments BEGIN
    INSERT INTO experiment_sources SELECT atom, new.id FROM json_each(new.config, '$.searcher')
        WHERE key = 'source_checkpoint_uuid' AND type = 'text';
END;
CREATE TRIGGER experiment_sources_more AFTER UPDATE OF config ON experiments BEGIN
    INSERT INTO experiment_sources SELECT atom, new.id FROM json_each(new.config, '$.searcher')
        WHERE key = 'source_checkpoint_uuid' AND type = 'text'
        ON CONFLICT (checkpoint_uuid, experiment_id) DO NOTHING;
END;
INSERT INTO experiment_sources
    SELECT json_extract(config, '$.searcher.source_checkpoint_uuid'), id FROM experiments
    WHERE json_extract(config, '$.searcher.source_checkpoint_uuid') IS NOT NULL;
