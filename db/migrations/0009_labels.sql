-- How many experiments of a project have a label: what lists of labels are made of. Kept by triggers, as the briefs are.
CREATE TABLE label_counts (
    label TEXT NOT NULL,
    project_id INTEGER NOT NULL,
    experiments INTEGER NOT NULL,
    PRIMARY KEY (label, project_id)
) STRICT, WITHOUT ROWID;
INSERT INTO label_counts
    SELECT l.label, b.project_id, count(*) FROM experiment_labels l JOIN experiment_briefs b ON b.id = l.experiment_id
    WHERE b.kind = 'EXPERIMENT' GROUP BY l.label, b.project_id;

CREATE TRIGGER labels_counted AFTER INSERT ON experiment_labels BEGIN
    INSERT INTO label_counts
        SELECT new.label, project_id, 1 FROM experiment_briefs WHERE id = new.experiment_id AND kind = 'EXPERIMENT'
        ON CONFLICT (label, project_id) DO UPDATE SET experiments = experiments + 1;
END;
CREATE TRIGGER labels_uncounted AFTER DELETE ON experiment_labels BEGIN
    UPDATE label_counts SET experiments = experiments - 1
        WHERE (label, project_id) = (SELECT old.label, project_id FROM experiment_briefs
            WHERE id = old.experiment_id AND kind = 'EXPERIMENT');
END;
-- The brief goes before the labels do.
CREATE TRIGGER briefs_unlabelled AFTER DELETE ON experiment_briefs WHEN old.kind = 'EXPERIMENT' BEGIN
    UPDATE label_counts SET experiments = experiments - 1
        WHERE project_id = old.project_id AND label IN (SELECT label FROM experiment_labels
            WHERE experiment_id = old.id AND label IN (SELECT value FROM json_each(old.labels)));
END;
CREATE TRIGGER briefs_relabelled AFTER UPDATE OF project_id ON experiment_briefs
WHEN new.kind = 'EXPERIMENT' AND new.project_id <> old.project_id BEGIN
    UPDATE label_counts SET experiments = experiments - 1
        WHERE project_id = old.project_id AND label IN (SELECT value FROM json_each(old.labels) WHERE type = 'text');
    INSERT INTO label_counts
        SELECT DISTINCT value, new.project_id, 1 FROM json_each(new.labels) WHERE type = 'text'
        ON CONFLICT (label, project_id) DO UPDATE SET experiments = experiments + 1;
END;
