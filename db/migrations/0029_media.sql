-- Images, histograms, tables and texts of a trial by step (POST /trials/{trialId}/media). Their content lies in the
-- checkpoint storage, named by its SHA-256. A restart from an earlier step deletes the later rows of its trial.
CREATE TABLE media (
    trial_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    step INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    type TEXT NOT NULL,                    -- image, histogram, table, text
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,                 -- bytes
    reported_at INTEGER NOT NULL,
    PRIMARY KEY (trial_id, name, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX media_digest ON media (trial_id, digest);
CREATE TRIGGER media_deleted AFTER DELETE ON trials BEGIN
    DELETE FROM media WHERE trial_id = old.id;
END;

-- Experiments that have a folder with such content, also when a restart has deleted all rows.
CREATE TABLE media_folders (experiment_id INTEGER PRIMARY KEY) STRICT;
CREATE TRIGGER media_folders_deleted AFTER DELETE ON experiments BEGIN
    DELETE FROM media_folders WHERE experiment_id = old.id;
END;
