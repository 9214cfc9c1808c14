-- Metrics that are no longer the newest: a series is one metric of one group of one run of a trial, its points lie
-- in chunks. Table metrics is the tail: what was reported last.
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    trial_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    grp TEXT NOT NULL,
    metric TEXT NOT NULL,
    UNIQUE (trial_id, grp, metric, run_id)
) STRICT;
CREATE TABLE series_chunks (
    series_id INTEGER NOT NULL REFERENCES series (id),
    first_steps INTEGER NOT NULL,
    number INTEGER NOT NULL,               -- tells chunks of the same first step apart
    last_steps INTEGER NOT NULL,
    points INTEGER NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    data BLOB NOT NULL,                    -- db/series.h
    PRIMARY KEY (series_id, first_steps, number)
) STRICT, WITHOUT ROWID;
