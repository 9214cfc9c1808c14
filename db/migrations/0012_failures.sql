-- Why a trial failed in its program's own words, and when it starts again.
ALTER TABLE trials ADD COLUMN last_words TEXT NOT NULL DEFAULT '';       -- of the rank that failed last, lines
ALTER TABLE trials ADD COLUMN restart_at INTEGER NOT NULL DEFAULT 0;     -- it waits until then; 0: it does not
ALTER TABLE trials ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;       -- in a row, without a checkpoint between them
ALTER TABLE trials ADD COLUMN failed_alike INTEGER NOT NULL DEFAULT 0;   -- of them the last so many, right after a start
