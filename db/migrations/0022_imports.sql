-- Objects that were taken over from another cluster (master/imports), so that an import can be
-- repeated: what was imported once is found again by its old id.
CREATE TABLE imports (
    id INTEGER PRIMARY KEY,
    cluster TEXT NOT NULL UNIQUE,          -- id of the other cluster
    last_experiment INTEGER NOT NULL,      -- ids up to this one are reserved for it and kept; 0: none
    last_trial INTEGER NOT NULL,           -- the same for trials
    began_at INTEGER NOT NULL
) STRICT;
CREATE TABLE imported (
    import_id INTEGER NOT NULL,
    kind TEXT NOT NULL,                    -- user, workspace, project, experiment, trial, metrics, model
    old_id TEXT NOT NULL,
    new_id INTEGER NOT NULL,
    open INTEGER NOT NULL,                 -- it had not ended there: a later import may tell its end
    digest TEXT NOT NULL,                  -- of the record; of metrics: which reports are stored, '': not all
    PRIMARY KEY (import_id, kind, old_id)
) STRICT, WITHOUT ROWID;
