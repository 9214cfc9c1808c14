-- The pools of a workspace's experiments and tasks that name none, with slots and without; '': the master's default.
ALTER TABLE workspaces ADD COLUMN default_compute_pool TEXT NOT NULL DEFAULT '';
ALTER TABLE workspaces ADD COLUMN default_aux_pool TEXT NOT NULL DEFAULT '';
-- A short name of a project, unique in the cluster: 1 to 5 letters (upper case) and digits.
ALTER TABLE projects ADD COLUMN key TEXT NOT NULL DEFAULT '';
-- Five characters have no place for greater ids: such a project has no key until somebody gives it one.
UPDATE projects SET key = printf('P%04X', id) WHERE id < 65536;
CREATE UNIQUE INDEX projects_key ON projects (key) WHERE key <> '';
