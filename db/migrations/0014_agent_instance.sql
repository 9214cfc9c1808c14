-- Which of the agents of one id it is, over a start of the master: what the agent says of itself.
ALTER TABLE agents ADD COLUMN instance TEXT NOT NULL DEFAULT '';
