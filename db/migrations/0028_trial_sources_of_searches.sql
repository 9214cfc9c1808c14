-- The trial whose training a trial of a search (pbt) continues, and from which checkpoint of it; NULL: none.
ALTER TABLE trials ADD COLUMN source_trial INTEGER;
ALTER TABLE trials ADD COLUMN source_checkpoint TEXT;
ALTER TABLE trials ADD COLUMN source_steps INTEGER NOT NULL DEFAULT 0;
CREATE INDEX trials_source_checkpoint ON trials (source_checkpoint) WHERE source_checkpoint IS NOT NULL;
