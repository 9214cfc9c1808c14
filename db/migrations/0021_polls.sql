-- Whether the program of this start has asked for the signal to leave (GET .../signals/preemption).
ALTER TABLE allocations ADD COLUMN polls INTEGER NOT NULL DEFAULT 0;
UPDATE allocations SET polls = 1 WHERE state <> 'TERMINATED';
