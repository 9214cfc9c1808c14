-- The storage that the program of an unmanaged trial named when it started (POST /runs/start): the only one that its
-- reports of checkpoints may name by its number.
ALTER TABLE trials ADD COLUMN storage_id INTEGER;
