-- The number and the size of the checkpoints of trials and experiments that are not deleted, kept beside their rows so
-- that no list reads checkpoints. Tasks may report any size: each counts as 0 to 1e18 bytes, so that no sum becomes
-- infinite, and no difference of sums NULL. Checkpoints are deleted from the store only together with their experiment,
-- so no trigger subtracts them.
ALTER TABLE experiment_briefs ADD COLUMN checkpoints INTEGER NOT NULL DEFAULT 0;
ALTER TABLE experiment_briefs ADD COLUMN checkpoint_bytes REAL NOT NULL DEFAULT 0;
ALTER TABLE experiment_briefs ADD COLUMN external_id TEXT;
CREATE INDEX experiment_briefs_checkpoints ON experiment_briefs (checkpoints);
CREATE INDEX experiment_briefs_checkpoint_bytes ON experiment_briefs (checkpoint_bytes);
CREATE INDEX experiment_briefs_external ON experiment_briefs (external_id) WHERE external_id IS NOT NULL;
ALTER TABLE trials ADD COLUMN checkpoints INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN checkpoint_bytes REAL NOT NULL DEFAULT 0;

-- Places of checkpoints, numbered as Determined's clients want them: the storage without how many are kept.
CREATE TABLE storages (id INTEGER PRIMARY KEY, storage TEXT NOT NULL UNIQUE) STRICT;

-- What the store has already.
UPDATE experiment_briefs SET checkpoints = s.count, checkpoint_bytes = s.bytes FROM (
    SELECT experiment_id, count(*) AS count,
        total((SELECT total(min(max(CAST(value AS REAL), 0), 1e18)) FROM json_each(resources))) AS bytes
    FROM checkpoints WHERE state <> 'DELETED' GROUP BY experiment_id
) s WHERE s.experiment_id = experiment_briefs.id;
UPDATE trials SET checkpoints = s.count, checkpoint_bytes = s.bytes FROM (
    SELECT trial_id, count(*) AS count,
        total((SELECT total(min(max(CAST(value AS REAL), 0), 1e18)) FROM json_each(resources))) AS bytes
    FROM checkpoints WHERE state <> 'DELETED' GROUP BY trial_id
) s WHERE s.trial_id = trials.id;
UPDATE experiment_briefs SET external_id = e.external_id FROM experiments e
    WHERE e.id = experiment_briefs.id AND e.external_id IS NOT NULL;
INSERT OR IGNORE INTO storages (storage) SELECT DISTINCT json_remove(storage, '$.save_experiment_best',
    '$.save_trial_best', '$.save_trial_latest') FROM checkpoints;

CREATE TRIGGER checkpoints_summed AFTER INSERT ON checkpoints BEGIN
    UPDATE experiment_briefs SET checkpoints = checkpoints + 1, checkpoint_bytes = checkpoint_bytes
        + (SELECT total(min(max(CAST(value AS REAL), 0), 1e18)) FROM json_each(new.resources))
        WHERE id = new.experiment_id AND new.state <> 'DELETED';
    UPDATE trials SET checkpoints = checkpoints + 1, checkpoint_bytes = checkpoint_bytes
        + (SELECT total(min(max(CAST(value AS REAL), 0), 1e18)) FROM json_each(new.resources))
        WHERE id = new.trial_id AND new.state <> 'DELETED';
    INSERT OR IGNORE INTO storages (storage) VALUES (json_remove(new.storage, '$.save_experiment_best',
        '$.save_trial_best', '$.save_trial_latest'));
END;
CREATE TRIGGER checkpoints_resummed AFTER UPDATE OF state, resources ON checkpoints
WHEN new.state <> old.state OR new.resources <> old.resources BEGIN
    UPDATE experiment_briefs SET checkpoints = checkpoints + (new.state <> 'DELETED') - (old.state <> 'DELETED'),
        checkpoint_bytes = checkpoint_bytes
            - iif(old.state = 'DELETED', 0,
                (SELECT total(min(max(CAST(value AS REAL), 0), 1e18)) FROM json_each(old.resources)))
            + iif(new.state = 'DELETED', 0,
                (SELECT total(min(max(CAST(value AS REAL), 0), 1e18)) FROM json_each(new.resources)))
        WHERE id = new.experiment_id;
    UPDATE trials SET checkpoints = checkpoints + (new.state <> 'DELETED') - (old.state <> 'DELETED'),
        checkpoint_bytes = checkpoint_bytes
            - iif(old.state = 'DELETED', 0,
                (SELECT total(min(max(CAST(value AS REAL), 0), 1e18)) FROM json_each(old.resources)))
            + iif(new.state = 'DELETED', 0,
                (SELECT total(min(max(CAST(value AS REAL), 0), 1e18)) FROM json_each(new.resources)))
        WHERE id = new.trial_id;
END;
CREATE TRIGGER checkpoints_moved AFTER UPDATE OF storage ON checkpoints WHEN new.storage <> old.storage BEGIN
    INSERT OR IGNORE INTO storages (storage) VALUES (json_remove(new.storage, '$.save_experiment_best',
        '$.save_trial_best', '$.save_trial_latest'));
END;
CREATE TRIGGER experiments_named_outside AFTER UPDATE OF external_id ON experiments BEGIN
    UPDATE experiment_briefs SET external_id = new.external_id WHERE id = new.id;
END;
