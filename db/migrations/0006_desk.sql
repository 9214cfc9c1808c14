-- What people keep beside experiments: models, templates, webhooks; who did what.
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
