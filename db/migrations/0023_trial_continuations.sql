-- How often an ended trial was run again (POST experiments/continue). Each time is a task of its own: TASK-1, TASK-2, ..
CREATE TABLE trial_continuations (
    trial_id INTEGER NOT NULL,
    number INTEGER NOT NULL,               -- from 1
    continued_at INTEGER NOT NULL,
    ended_at INTEGER,                      -- of the task before
    last_line INTEGER NOT NULL,            -- of the trial's log, of the task before
    PRIMARY KEY (trial_id, number)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER trial_continuations_deleted AFTER DELETE ON trials BEGIN
    DELETE FROM trial_continuations WHERE trial_id = old.id;
END;
