-- What a workspace gives to its experiments and tasks, as JSON; '': nothing.
ALTER TABLE workspaces ADD COLUMN agent_user_group TEXT NOT NULL DEFAULT '';
-- the default checkpoint_storage of its experiments, before the master's
ALTER TABLE workspaces ADD COLUMN checkpoint_storage TEXT NOT NULL DEFAULT '';
