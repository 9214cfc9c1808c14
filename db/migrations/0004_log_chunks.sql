-- Logs as chunks of lines, in order of arrival; line n of a chunk has the id first_id + n.
CREATE TABLE log_chunks (
    first_id INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    allocation_id TEXT NOT NULL DEFAULT '',
    agent_id TEXT NOT NULL DEFAULT '',
    lines INTEGER NOT NULL,
    first_time INTEGER NOT NULL,
    last_time INTEGER NOT NULL,
    levels INTEGER NOT NULL,               -- a bit for each level that occurs
    last_sequence INTEGER,                 -- the sender's count of its last line
    data BLOB NOT NULL                     -- db/loglines.h
) STRICT;
CREATE INDEX log_chunks_task ON log_chunks (task_id, first_id);
