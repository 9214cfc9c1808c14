-- New words go into the index of texts at the end of each transaction (db/writer.c), all at once: FTS5 writes out
-- what it has gathered whenever a statement begins that could be taken back, which is every second one.
CREATE TABLE experiments_unindexed (id INTEGER PRIMARY KEY) STRICT; -- empty between transactions

DROP TRIGGER experiments_listed;
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
    INSERT INTO experiments_unindexed (id) VALUES (new.id);
END;

DROP TRIGGER experiments_unlisted;
CREATE TRIGGER experiments_unlisted AFTER DELETE ON experiments BEGIN
    DELETE FROM experiment_briefs WHERE id = old.id;
    DELETE FROM experiment_labels
        WHERE experiment_id = old.id AND label IN (SELECT value FROM json_each(old.labels));
    DELETE FROM experiment_metrics WHERE experiment_id = old.id;
    DELETE FROM experiment_hparams WHERE experiment_id = old.id;
    INSERT INTO experiments_text (experiments_text, rowid, name, description, labels, notes)
        SELECT 'delete', old.id, old.name, old.description, old.labels, old.notes
        WHERE old.id NOT IN (SELECT id FROM experiments_unindexed);
    INSERT INTO experiments_names (experiments_names, rowid, name)
        SELECT 'delete', old.id, old.name WHERE old.id NOT IN (SELECT id FROM experiments_unindexed);
    DELETE FROM experiments_unindexed WHERE id = old.id;
END;

DROP TRIGGER experiments_renamed;
CREATE TRIGGER experiments_renamed AFTER UPDATE OF name ON experiments WHEN new.name <> old.name BEGIN
    UPDATE experiment_briefs SET name = new.name WHERE id = new.id;
END;
DROP TRIGGER experiments_rewritten;
CREATE TRIGGER experiments_rewritten AFTER UPDATE OF name, description, labels, notes ON experiments
WHEN (new.name <> old.name OR new.description <> old.description OR new.labels <> old.labels
        OR new.notes <> old.notes)
    AND old.id NOT IN (SELECT id FROM experiments_unindexed) BEGIN
    INSERT INTO experiments_text (experiments_text, rowid, name, description, labels, notes)
        VALUES ('delete', old.id, old.name, old.description, old.labels, old.notes);
    INSERT INTO experiments_names (experiments_names, rowid, name) VALUES ('delete', old.id, old.name);
    INSERT INTO experiments_unindexed (id) VALUES (new.id);
END;
