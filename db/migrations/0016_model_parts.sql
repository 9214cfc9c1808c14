-- The archive of many files is stored in parts, each written by a batch of its own before the experiment is, so that
-- no other batch waits for all of it. Archives that are there stay as they are.
CREATE TABLE model_parts (
    archive INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (archive, part)
) STRICT;
ALTER TABLE model_definitions ADD COLUMN parts INTEGER; -- model_parts.archive, where it lies; null: in this row
CREATE INDEX model_definitions_parts ON model_definitions (parts) WHERE parts IS NOT NULL;
