-- Of an agent that was given up: when, and what ran there, as the API says it. 0: it is there, or still awaited.
ALTER TABLE agents ADD COLUMN lost_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN lost_runs TEXT NOT NULL DEFAULT '[]';
