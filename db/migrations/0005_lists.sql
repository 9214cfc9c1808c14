-- What lists of experiments filter and sort by, kept in step with experiments and trials by triggers: small rows
-- and indexes beside the wide rows, so that no list reads a configuration to pass over it.

CREATE TABLE experiment_briefs (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    archived INTEGER NOT NULL,
    state TEXT NOT NULL,
    user_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    searcher TEXT NOT NULL,
    pool TEXT NOT NULL,
    slots INTEGER NOT NULL,                -- of a trial
    unmanaged INTEGER NOT NULL,
    trials INTEGER NOT NULL DEFAULT 0,
    submitted_at INTEGER NOT NULL,
    ended_at INTEGER,
    duration REAL,                         -- seconds; null until it has ended
    progress REAL NOT NULL,
    best REAL,                             -- of the searcher's metric
    labels TEXT NOT NULL,
    job_id TEXT NOT NULL,
    parent_id INTEGER
) STRICT;
CREATE INDEX experiment_briefs_state ON experiment_briefs (state);
CREATE INDEX experiment_briefs_user ON experiment_briefs (user_id);
CREATE INDEX experiment_briefs_project ON experiment_briefs (project_id);
CREATE INDEX experiment_briefs_name ON experiment_briefs (name);
CREATE INDEX experiment_briefs_submitted ON experiment_briefs (submitted_at);
-- those that submissions need not write
CREATE INDEX experiment_briefs_ended ON experiment_briefs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX experiment_briefs_duration ON experiment_briefs (duration) WHERE duration IS NOT NULL;
CREATE INDEX experiment_briefs_best ON experiment_briefs (best) WHERE best IS NOT NULL;

-- How many there are of each sort: totals without counting rows.
CREATE TABLE experiment_counts (
    project_id INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    archived INTEGER NOT NULL,
    state TEXT NOT NULL,
    experiments INTEGER NOT NULL,
    trials INTEGER NOT NULL,
    PRIMARY KEY (project_id, user_id, kind, archived, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE experiment_labels (
    label TEXT NOT NULL,
    experiment_id INTEGER NOT NULL,
    PRIMARY KEY (label, experiment_id)
) STRICT, WITHOUT ROWID;

-- Of each metric of an experiment, over all its trials: what was reported last, the least, the greatest.
CREATE TABLE experiment_metrics (
    experiment_id INTEGER NOT NULL,
    name TEXT NOT NULL,                    -- "validation.loss", "training.loss"
    last REAL NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    PRIMARY KEY (experiment_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX experiment_metrics_last ON experiment_metrics (name, last);
CREATE INDEX experiment_metrics_low ON experiment_metrics (name, low);
CREATE INDEX experiment_metrics_high ON experiment_metrics (name, high);

-- The values that each hyperparameter has in the trials of an experiment.
CREATE TABLE experiment_hparams (
    experiment_id INTEGER NOT NULL,
    name TEXT NOT NULL,                    -- "optimizer.momentum"
    value ANY NOT NULL,                    -- a number, a text; true and false are 1 and 0
    PRIMARY KEY (experiment_id, name, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX experiment_hparams_value ON experiment_hparams (name, value);

-- Words of the texts; and parts of names, by three letters.
CREATE VIRTUAL TABLE experiments_text USING fts5 (
    name, description, labels, notes, content = 'experiments', content_rowid = 'id'
);
CREATE VIRTUAL TABLE experiments_names USING fts5 (
    name, content = 'experiments', content_rowid = 'id', tokenize = 'trigram', detail = none
);

-- What the store has already.
INSERT INTO experiment_briefs
    SELECT id, 'EXPERIMENT', archived, state, user_id, project_id, name, searcher_type,
        coalesce(nullif(resource_pool, ''), json_extract(config, '$.resources.resource_pool'), ''),
        coalesce(json_extract(config, '$.resources.slots_per_trial'), 1), unmanaged,
        (SELECT count(*) FROM trials t WHERE t.experiment_id = e.id), submitted_at, ended_at,
        (ended_at - submitted_at) / 1e6, progress, best_metric, labels, job_id, parent_id
    FROM experiments e;
INSERT INTO experiment_counts
    SELECT project_id, user_id, kind, archived, state, count(*), sum(trials) FROM experiment_briefs
    GROUP BY project_id, user_id, kind, archived, state;
INSERT INTO experiment_labels
    SELECT DISTINCT l.value, e.id FROM experiments e, json_each(e.labels) l WHERE l.type = 'text';
INSERT INTO experiment_metrics
    SELECT t.experiment_id,
        CASE g.key WHEN 'avg_metrics' THEN 'training.' ELSE 'validation.' END || m.key,
        json_extract(m.value, '$.last'), json_extract(m.value, '$.min'), json_extract(m.value, '$.max')
    FROM trials t, json_each(t.summary_metrics) g, json_each(g.value) m
    WHERE g.key IN ('avg_metrics', 'validation_metrics')
        AND json_type(m.value, '$.last') IN ('real', 'integer')
    ORDER BY t.id
    ON CONFLICT (experiment_id, name) DO UPDATE SET last = excluded.last,
        low = min(low, excluded.low), high = max(high, excluded.high);
INSERT INTO experiment_hparams
    SELECT DISTINCT t.experiment_id, replace(substr(h.fullkey, 3), '"', ''), h.atom
    FROM trials t, json_tree(t.hparams) h
    WHERE h.atom IS NOT NULL AND h.fullkey LIKE '$._%' AND length(h.atom) <= 255;
INSERT INTO experiments_text (experiments_text) VALUES ('rebuild');
INSERT INTO experiments_names (experiments_names) VALUES ('rebuild');

-- What comes from now on.
CREATE TRIGGER experiments_listed AFTER INSERT ON experiments BEGIN
    INSERT INTO experiment_briefs (id, kind, archived, state, user_id, project_id, name, searcher,
        pool, slots, unmanaged, submitted_at, ended_at, duration, progress, best, labels, job_id,
        parent_id)
        VALUES (new.id, new.kind, new.archived, new.state, new.user_id, new.project_id, new.name,
            new.searcher_type, coalesce(nullif(new.resource_pool, ''),
                json_extract(new.config, '$.resources.resource_pool'), ''),
            coalesce(json_extract(new.config, '$.resources.slots_per_trial'), 1), new.unmanaged,
            new.submitted_at, new.ended_at, (new.ended_at - new.submitted_at) / 1e6, new.progress,
            new.best_metric, new.labels, new.job_id, new.parent_id);
    INSERT INTO experiment_labels
        SELECT DISTINCT value, new.id FROM json_each(new.labels) WHERE type = 'text';
    INSERT INTO experiments_text (rowid, name, description, labels, notes)
        VALUES (new.id, new.name, new.description, new.labels, new.notes);
    INSERT INTO experiments_names (rowid, name) VALUES (new.id, new.name);
END;
CREATE TRIGGER experiments_unlisted AFTER DELETE ON experiments BEGIN
    DELETE FROM experiment_briefs WHERE id = old.id;
    DELETE FROM experiment_labels
        WHERE experiment_id = old.id AND label IN (SELECT value FROM json_each(old.labels));
    DELETE FROM experiment_metrics WHERE experiment_id = old.id;
    DELETE FROM experiment_hparams WHERE experiment_id = old.id;
    INSERT INTO experiments_text (experiments_text, rowid, name, description, labels, notes)
        VALUES ('delete', old.id, old.name, old.description, old.labels, old.notes);
    INSERT INTO experiments_names (experiments_names, rowid, name) VALUES ('delete', old.id, old.name);
END;
CREATE TRIGGER experiments_moved AFTER UPDATE OF state, archived, user_id, project_id, submitted_at, ended_at ON experiments
BEGIN
    UPDATE experiment_briefs SET state = new.state, archived = new.archived, user_id = new.user_id,
        project_id = new.project_id, submitted_at = new.submitted_at, ended_at = new.ended_at,
        duration = (new.ended_at - new.submitted_at) / 1e6 WHERE id = new.id;
END;
CREATE TRIGGER experiments_advanced AFTER UPDATE OF progress, best_metric ON experiments BEGIN
    UPDATE experiment_briefs SET progress = new.progress, best = new.best_metric WHERE id = new.id;
END;
CREATE TRIGGER experiments_configured AFTER UPDATE OF config, resource_pool ON experiments BEGIN
    UPDATE experiment_briefs
        SET pool = coalesce(nullif(new.resource_pool, ''),
                json_extract(new.config, '$.resources.resource_pool'), ''),
            slots = coalesce(json_extract(new.config, '$.resources.slots_per_trial'), 1)
        WHERE id = new.id;
END;
CREATE TRIGGER experiments_labelled AFTER UPDATE OF labels ON experiments
WHEN new.labels <> old.labels BEGIN
    UPDATE experiment_briefs SET labels = new.labels WHERE id = new.id;
    DELETE FROM experiment_labels
        WHERE experiment_id = old.id AND label IN (SELECT value FROM json_each(old.labels));
    INSERT INTO experiment_labels
        SELECT DISTINCT value, new.id FROM json_each(new.labels) WHERE type = 'text';
END;
CREATE TRIGGER experiments_renamed AFTER UPDATE OF name ON experiments WHEN new.name <> old.name BEGIN
    UPDATE experiment_briefs SET name = new.name WHERE id = new.id;
    INSERT INTO experiments_names (experiments_names, rowid, name) VALUES ('delete', old.id, old.name);
    INSERT INTO experiments_names (rowid, name) VALUES (new.id, new.name);
END;
CREATE TRIGGER experiments_rewritten AFTER UPDATE OF name, description, labels, notes ON experiments
WHEN new.name <> old.name OR new.description <> old.description OR new.labels <> old.labels
    OR new.notes <> old.notes BEGIN
    INSERT INTO experiments_text (experiments_text, rowid, name, description, labels, notes)
        VALUES ('delete', old.id, old.name, old.description, old.labels, old.notes);
    INSERT INTO experiments_text (rowid, name, description, labels, notes)
        VALUES (new.id, new.name, new.description, new.labels, new.notes);
END;

CREATE TRIGGER trials_listed AFTER INSERT ON trials BEGIN
    UPDATE experiment_briefs SET trials = trials + 1 WHERE id = new.experiment_id;
    INSERT INTO experiment_hparams
        SELECT new.experiment_id, replace(substr(h.fullkey, 3), '"', ''), h.atom
        FROM json_tree(new.hparams) h
        WHERE h.atom IS NOT NULL AND h.fullkey LIKE '$._%' AND length(h.atom) <= 255
        ON CONFLICT (experiment_id, name, value) DO NOTHING;
END;
CREATE TRIGGER trials_unlisted AFTER DELETE ON trials BEGIN
    UPDATE experiment_briefs SET trials = trials - 1 WHERE id = old.experiment_id;
END;

CREATE TRIGGER briefs_counted AFTER INSERT ON experiment_briefs BEGIN
    INSERT INTO experiment_counts
        VALUES (new.project_id, new.user_id, new.kind, new.archived, new.state, 1, new.trials)
        ON CONFLICT (project_id, user_id, kind, archived, state)
        DO UPDATE SET experiments = experiments + 1, trials = trials + excluded.trials;
END;
CREATE TRIGGER briefs_uncounted AFTER DELETE ON experiment_briefs BEGIN
    UPDATE experiment_counts SET experiments = experiments - 1, trials = trials - old.trials
        WHERE project_id = old.project_id AND user_id = old.user_id AND kind = old.kind
            AND archived = old.archived AND state = old.state;
END;
CREATE TRIGGER briefs_recounted AFTER UPDATE OF project_id, user_id, archived, state ON experiment_briefs
WHEN (new.project_id, new.user_id, new.archived, new.state)
    <> (old.project_id, old.user_id, old.archived, old.state) BEGIN
    UPDATE experiment_counts SET experiments = experiments - 1, trials = trials - old.trials
        WHERE project_id = old.project_id AND user_id = old.user_id AND kind = old.kind
            AND archived = old.archived AND state = old.state;
    INSERT INTO experiment_counts
        VALUES (new.project_id, new.user_id, new.kind, new.archived, new.state, 1, new.trials)
        ON CONFLICT (project_id, user_id, kind, archived, state)
        DO UPDATE SET experiments = experiments + 1, trials = trials + excluded.trials;
END;
CREATE TRIGGER briefs_tried AFTER UPDATE OF trials ON experiment_briefs BEGIN
    UPDATE experiment_counts SET trials = trials + new.trials - old.trials
        WHERE project_id = new.project_id AND user_id = new.user_id AND kind = new.kind
            AND archived = new.archived AND state = new.state;
END;
