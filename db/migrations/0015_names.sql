-- A name is unique in its workspace alone, and that of a workspace among those that its maker sees (the core keeps
-- that so): nobody learns from a refusal which names others use.

-- Of experiments also by kind. The core keeps it so (core/names.h): the workspace is the project's.
DROP INDEX experiments_external;
CREATE INDEX experiments_external ON experiments (external_id) WHERE external_id IS NOT NULL;

CREATE TABLE workspaces_new (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, user_id INTEGER NOT NULL REFERENCES users (id),
    archived INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL,
    weight REAL NOT NULL DEFAULT 1,
    guaranteed_slots INTEGER NOT NULL DEFAULT 0,
    max_slots INTEGER NOT NULL DEFAULT 0,  -- 0: no limit
    default_role TEXT NOT NULL DEFAULT 'editor' CHECK (default_role IN ('none', 'viewer', 'editor')),
    usage REAL NOT NULL DEFAULT 0,         -- decayed slot-seconds ..
    usage_at INTEGER NOT NULL DEFAULT 0    -- .. as of this time
) STRICT;
INSERT INTO workspaces_new SELECT id, name, user_id, archived, created_at, weight, guaranteed_slots, max_slots,
    default_role, usage, usage_at FROM workspaces;
DROP TABLE workspaces;
ALTER TABLE workspaces_new RENAME TO workspaces;
CREATE INDEX workspaces_name ON workspaces (name);

CREATE TABLE models_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    metadata TEXT NOT NULL DEFAULT '{}',   -- JSON object
    labels TEXT NOT NULL DEFAULT '[]',     -- JSON list of words
    notes TEXT NOT NULL DEFAULT '',
    user_id INTEGER NOT NULL REFERENCES users (id),
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    archived INTEGER NOT NULL DEFAULT 0,
    last_version INTEGER NOT NULL DEFAULT 0, -- a number is never given twice
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (name, workspace_id)
) STRICT;
INSERT INTO models_new SELECT id, name, description, metadata, labels, notes, user_id, workspace_id, archived,
    last_version, created_at, updated_at FROM models;
DELETE FROM sqlite_sequence WHERE name = 'models_new'; -- ids that were deleted are not given again
INSERT INTO sqlite_sequence SELECT 'models_new', seq FROM sqlite_sequence WHERE name = 'models';
DROP TABLE models;
ALTER TABLE models_new RENAME TO models;

CREATE TABLE templates_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    config TEXT NOT NULL,                  -- JSON: part of an experiment's configuration
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    modified_at INTEGER NOT NULL,
    UNIQUE (name, workspace_id)
) STRICT;
INSERT INTO templates_new (name, config, workspace_id, modified_at)
    SELECT name, config, workspace_id, modified_at FROM templates ORDER BY name;
DROP TABLE templates;
ALTER TABLE templates_new RENAME TO templates;

CREATE TABLE webhooks_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    type TEXT NOT NULL CHECK (type IN ('DEFAULT', 'SLACK')),
    mode TEXT NOT NULL CHECK (mode IN ('WORKSPACE', 'SPECIFIC')),
    workspace_id INTEGER REFERENCES workspaces (id) ON DELETE CASCADE, -- null: of the cluster
    user_id INTEGER NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL,
    UNIQUE (name, workspace_id)
) STRICT;
INSERT INTO webhooks_new SELECT id, name, url, type, mode, workspace_id, user_id, created_at FROM webhooks;
DELETE FROM sqlite_sequence WHERE name = 'webhooks_new';
INSERT INTO sqlite_sequence SELECT 'webhooks_new', seq FROM sqlite_sequence WHERE name = 'webhooks';
DROP TABLE webhooks;
ALTER TABLE webhooks_new RENAME TO webhooks;
