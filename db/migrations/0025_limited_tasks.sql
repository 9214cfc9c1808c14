-- The newest experiment when the user's password was last changed or the user was deactivated: tasks of experiments up
-- to this id have only the rights of their task, also when they start later.
ALTER TABLE users ADD COLUMN limited_experiment INTEGER NOT NULL DEFAULT 0;
