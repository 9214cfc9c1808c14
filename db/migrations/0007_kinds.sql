-- Experiments that are not a search: commands and other tasks of one trial that is never restarted, and those
-- whose programs run elsewhere (unmanaged).
ALTER TABLE experiments ADD COLUMN kind TEXT NOT NULL DEFAULT 'EXPERIMENT'
    CHECK (kind IN ('EXPERIMENT', 'COMMAND', 'SHELL', 'NOTEBOOK', 'TENSORBOARD', 'GENERIC'));
ALTER TABLE experiments ADD COLUMN external_id TEXT;
CREATE UNIQUE INDEX experiments_external ON experiments (external_id) WHERE external_id IS NOT NULL;
ALTER TABLE trials ADD COLUMN external_id TEXT;
ALTER TABLE trials ADD COLUMN heartbeat_at INTEGER;    -- unmanaged: last sign of life
ALTER TABLE trials ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}'; -- POST /runs/{id}/metadata
