-- Why the files of a deleted checkpoint could not be removed at the last try; NULL: they could, or nobody has tried.
ALTER TABLE checkpoints ADD COLUMN removal_error TEXT;
