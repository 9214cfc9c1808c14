-- Workspaces and projects that are deleted with all that is in them: '' (it stays), DELETING, DELETE_FAILED.
ALTER TABLE workspaces ADD COLUMN state TEXT NOT NULL DEFAULT '';
ALTER TABLE workspaces ADD COLUMN error TEXT NOT NULL DEFAULT ''; -- why it could not be deleted
ALTER TABLE projects ADD COLUMN state TEXT NOT NULL DEFAULT '';
ALTER TABLE projects ADD COLUMN error TEXT NOT NULL DEFAULT '';
