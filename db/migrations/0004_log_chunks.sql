-- Logs as chunks of lines. The lines of a task are numbered from 1, in order of arrival, which are their ids:
-- line n of a chunk has last_id - lines + 1 + n. data comes last, so that who looks for something can pass over
-- a chunk without reading it.
DROP TABLE logs;
CREATE TABLE log_chunks (
    task_id TEXT NOT NULL,
    last_id INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    bytes INTEGER NOT NULL,                -- of the lines, before compression
    first_time INTEGER NOT NULL,           -- least and greatest
    last_time INTEGER NOT NULL,
    origins BLOB NOT NULL,                 -- db/loglines.h
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_chunks_task ON log_chunks (task_id, last_id);

-- How far each sender's lines are stored: its numbers grow, so what is not beyond this was sent twice.
CREATE TABLE log_senders (
    task_id TEXT NOT NULL,
    allocation_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    last_sequence INTEGER NOT NULL,
    PRIMARY KEY (task_id, allocation_id, agent_id)
) STRICT, WITHOUT ROWID;

-- Days that logs are kept after the end of their task; -1: for ever. Null: as the experiment has it, its
-- configuration, the cluster.
ALTER TABLE experiments ADD COLUMN log_retention_days INTEGER;
ALTER TABLE trials ADD COLUMN log_retention_days INTEGER;
