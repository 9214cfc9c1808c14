-- Effects of an experiment's log policies on a trial, so that a start need not read its log again.
-- agent_id: the trial is not placed on that agent again; '': an error of its program ends it.
CREATE TABLE trial_policies (
    trial_id INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    PRIMARY KEY (trial_id, agent_id)
) WITHOUT ROWID;
