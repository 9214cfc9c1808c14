-- An experiment whose configuration names no resource pool, or an empty one, is in the pool "default" (DEFAULT_POOL):
-- stores of earlier versions, imports and empty names have no name for it, so no filter for the pool found them.
DROP TRIGGER experiments_listed;
CREATE TRIGGER experiments_listed AFTER INSERT ON experiments BEGIN
    INSERT INTO experiment_briefs (id, kind, archived, state, user_id, project_id, name, searcher,
        pool, slots, unmanaged, submitted_at, ended_at, duration, progress, best, labels, job_id,
        parent_id)
        VALUES (new.id, new.kind, new.archived, new.state, new.user_id, new.project_id, new.name,
            new.searcher_type, coalesce(nullif(new.resource_pool, ''),
                nullif(json_extract(new.config, '$.resources.resource_pool'), ''), 'default'),
            coalesce(json_extract(new.config, '$.resources.slots_per_trial'), 1), new.unmanaged,
            new.submitted_at, new.ended_at, (new.ended_at - new.submitted_at) / 1e6, new.progress,
            new.best_metric, new.labels, new.job_id, new.parent_id);
    INSERT INTO experiment_labels
        SELECT DISTINCT value, new.id FROM json_each(new.labels) WHERE type = 'text';
    INSERT INTO experiments_unindexed (id) VALUES (new.id);
END;
DROP TRIGGER experiments_configured;
CREATE TRIGGER experiments_configured AFTER UPDATE OF config, resource_pool ON experiments BEGIN
    UPDATE experiment_briefs
        SET pool = coalesce(nullif(new.resource_pool, ''),
                nullif(json_extract(new.config, '$.resources.resource_pool'), ''), 'default'),
            slots = coalesce(json_extract(new.config, '$.resources.slots_per_trial'), 1)
        WHERE id = new.id;
END;
UPDATE experiment_briefs SET pool = 'default' WHERE pool = '';
