-- What people keep beside experiments: models, templates, webhooks, tokens; who did what.

CREATE TABLE models (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL DEFAULT '',
    metadata TEXT NOT NULL DEFAULT '{}',   -- JSON object
    labels TEXT NOT NULL DEFAULT '[]',     -- JSON list of words
    notes TEXT NOT NULL DEFAULT '',
    user_id INTEGER NOT NULL REFERENCES users (id),
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    archived INTEGER NOT NULL DEFAULT 0,
    last_version INTEGER NOT NULL DEFAULT 0, -- a number is never given twice
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE model_versions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    checkpoint_uuid TEXT NOT NULL,         -- it is kept as long as this row is there
    name TEXT NOT NULL DEFAULT '',
    comment TEXT NOT NULL DEFAULT '',
    metadata TEXT NOT NULL DEFAULT '{}',
    labels TEXT NOT NULL DEFAULT '[]',
    notes TEXT NOT NULL DEFAULT '',
    user_id INTEGER NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (model_id, version)
) STRICT;
CREATE INDEX model_versions_checkpoint ON model_versions (checkpoint_uuid);

CREATE TABLE templates (
    name TEXT PRIMARY KEY,
    config TEXT NOT NULL,                  -- JSON: part of an experiment's configuration
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    modified_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    type TEXT NOT NULL CHECK (type IN ('DEFAULT', 'SLACK')),
    mode TEXT NOT NULL CHECK (mode IN ('WORKSPACE', 'SPECIFIC')),
    workspace_id INTEGER REFERENCES workspaces (id) ON DELETE CASCADE, -- null: of the cluster
    user_id INTEGER NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE webhook_triggers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id INTEGER NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    type TEXT NOT NULL,                    -- wire name without TRIGGER_TYPE_
    condition TEXT NOT NULL DEFAULT '{}'   -- {"state"}, {"regex"}
) STRICT;
CREATE INDEX webhook_triggers_webhook ON webhook_triggers (webhook_id);
CREATE TABLE webhook_outbox (              -- what is yet to be delivered; in order of its events
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id INTEGER NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_id TEXT NOT NULL,                -- a receiver can tell repetitions by it
    payload TEXT NOT NULL,                 -- the body, as it is sent
    created_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL,               -- of the next attempt
    error TEXT NOT NULL DEFAULT ''         -- of the last one
) STRICT;
CREATE INDEX webhook_outbox_webhook ON webhook_outbox (webhook_id, id);
-- Of a receiver that is away the newest 1,000 events are kept.
CREATE TRIGGER webhook_outbox_keep AFTER INSERT ON webhook_outbox BEGIN
    DELETE FROM webhook_outbox WHERE webhook_id = new.webhook_id AND id <=
        (SELECT id FROM webhook_outbox WHERE webhook_id = new.webhook_id ORDER BY id DESC LIMIT 1 OFFSET 1000);
END;
-- What fires once for each task has.
CREATE TABLE webhook_fired (
    task_id TEXT NOT NULL,
    trigger_id INTEGER NOT NULL REFERENCES webhook_triggers (id) ON DELETE CASCADE,
    PRIMARY KEY (task_id, trigger_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_fired_trigger ON webhook_fired (trigger_id);
CREATE TRIGGER webhook_fired_keep AFTER DELETE ON trials BEGIN
    DELETE FROM webhook_fired WHERE task_id = old.task_id;
END;

-- A login leaves a session. Access tokens are made by people for programs; a revoked one stays in the list.
ALTER TABLE tokens ADD COLUMN id INTEGER;  -- of users' tokens: how calls name it
ALTER TABLE tokens ADD COLUMN access INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN revoked INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX tokens_id ON tokens (id) WHERE id IS NOT NULL;
CREATE INDEX tokens_user ON tokens (user_id) WHERE user_id IS NOT NULL;

ALTER TABLE users ADD COLUMN agent_user_group TEXT; -- JSON as it was given; kept and shown
ALTER TABLE users ADD COLUMN last_auth_at INTEGER;
CREATE TABLE user_settings (               -- of the web page
    user_id INTEGER NOT NULL REFERENCES users (id),
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (user_id, path, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE cluster_messages (            -- the newest counts
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message TEXT NOT NULL,
    user_id INTEGER NOT NULL REFERENCES users (id),
    start_at INTEGER NOT NULL,
    end_at INTEGER,                        -- null: until it is deleted
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    user_id INTEGER,                       -- null: nobody was logged in (a refused login)
    username TEXT NOT NULL,
    address TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    status INTEGER NOT NULL,               -- of the answer
    detail TEXT NOT NULL DEFAULT ''        -- in words, without secrets
) STRICT;
CREATE INDEX audit_user ON audit (user_id, id);
CREATE INDEX audit_time ON audit (time);
-- The newest million rows, and none older than 400 days.
CREATE TRIGGER audit_keep AFTER INSERT ON audit WHEN new.id % 1000 = 0 BEGIN
    DELETE FROM audit WHERE id <= new.id - 1000000;
    DELETE FROM audit WHERE time < new.time - 400 * 86400 * 1000000;
END;
