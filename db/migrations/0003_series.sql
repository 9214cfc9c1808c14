-- Metrics as columns (db/series.h). Reports arrive in table metrics, a post a row; once there are many of a group of
-- a trial, all but the newest are folded into chunks, and a trial that has ended keeps one row a group or chunks alone.
-- Ids of reports grow in order of arrival and are never given twice.
DROP TABLE metrics;
CREATE TABLE metrics (
    id INTEGER PRIMARY KEY,                -- of its first report
    trial_id INTEGER NOT NULL,
    grp TEXT NOT NULL,                     -- training, validation, gpu, ...
    reports INTEGER NOT NULL,
    data BLOB NOT NULL                     -- a block
) STRICT;
CREATE INDEX metrics_trial ON metrics (trial_id, grp);

CREATE TABLE metric_chunks (               -- many reports, by steps and arrival
    id INTEGER PRIMARY KEY,                -- of its first report
    trial_id INTEGER NOT NULL,
    grp TEXT NOT NULL,
    first_steps INTEGER NOT NULL,
    last_steps INTEGER NOT NULL,
    last_id INTEGER NOT NULL,              -- greatest of its reports
    reports INTEGER NOT NULL,
    axis BLOB NOT NULL
) STRICT;
CREATE INDEX metric_chunks_steps ON metric_chunks (trial_id, grp, first_steps, last_steps);
CREATE INDEX metric_chunks_newest ON metric_chunks (trial_id, grp, last_id);
CREATE TABLE metric_columns (              -- the values of one metric in them
    chunk_id INTEGER NOT NULL,             -- no reference: a delete would look for each
    metric TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (chunk_id, metric)
) STRICT, WITHOUT ROWID;

-- A later run of a trial started from a step: what earlier ones reported beyond it is void.
CREATE TABLE metric_cuts (
    trial_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    from_steps INTEGER NOT NULL,           -- -1: from the beginning
    PRIMARY KEY (trial_id, run_id)
) STRICT, WITHOUT ROWID;

-- steps_completed, latest_training and summary_metrics know the reports up to this id; a start of the master reads the
-- rest, which a kill had left unsaid.
ALTER TABLE trials ADD COLUMN metrics_known INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN metrics_loose INTEGER NOT NULL DEFAULT 0; -- it has ended and is to be folded for good
CREATE INDEX trials_loose ON trials (id) WHERE metrics_loose = 1;
