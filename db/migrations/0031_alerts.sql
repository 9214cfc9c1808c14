-- Alerts of the cluster, and the e-mails that are yet to be sent.
CREATE TABLE alerts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,                    -- AGENT_LOST, STORE_SLOW, DISK_FILLING, BACKUP_OVERDUE
    subject TEXT NOT NULL,                 -- an agent, a place; '': the cluster
    text TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    ended_at INTEGER                       -- null: the trouble lasts
) STRICT;
CREATE INDEX alerts_open ON alerts (id) WHERE ended_at IS NULL;
CREATE INDEX alerts_ended ON alerts (id) WHERE ended_at IS NOT NULL;
CREATE TRIGGER alerts_keep AFTER UPDATE OF ended_at ON alerts BEGIN
    DELETE FROM alerts WHERE ended_at IS NOT NULL AND id <=
        (SELECT id FROM alerts WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET 1000);
END;

CREATE TABLE mail_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE TRIGGER mail_outbox_keep AFTER INSERT ON mail_outbox BEGIN
    DELETE FROM mail_outbox WHERE id <=
        (SELECT id FROM mail_outbox ORDER BY id DESC LIMIT 1 OFFSET 1000);
END;
