-- Agents get credentials of their own. An enrolment lets machines ask for one with its token.
CREATE TABLE agent_enrolments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash TEXT NOT NULL UNIQUE,       -- SHA-256 of its token, hex
    agent_id TEXT,                         -- for this agent alone; null: any name without a credential
    pool TEXT NOT NULL,                    -- that the agent is to join; '': as it says itself
    user_id INTEGER NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    uses_left INTEGER NOT NULL
) STRICT;
ALTER TABLE tokens ADD COLUMN agent_id TEXT;        -- the agent whose credential it is; null: of all agents, or no agent's
ALTER TABLE tokens ADD COLUMN enrolment_id INTEGER; -- agent_enrolments.id
CREATE UNIQUE INDEX tokens_agent ON tokens (agent_id) WHERE agent_id IS NOT NULL;
CREATE TRIGGER enrolment_used AFTER INSERT ON tokens WHEN NEW.enrolment_id IS NOT NULL BEGIN
    UPDATE agent_enrolments SET uses_left = uses_left - 1 WHERE id = NEW.enrolment_id;
END;
