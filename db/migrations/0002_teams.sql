-- Teams: what a workspace may use and who may do what in it; and what the scheduler keeps over a
-- restart. Slot-seconds are the sum over slots of the seconds they were held.

ALTER TABLE workspaces ADD COLUMN weight REAL NOT NULL DEFAULT 1;
ALTER TABLE workspaces ADD COLUMN guaranteed_slots INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workspaces ADD COLUMN max_slots INTEGER NOT NULL DEFAULT 0;    -- 0: no limit
-- of everybody who is no member
ALTER TABLE workspaces ADD COLUMN default_role TEXT NOT NULL DEFAULT 'editor'
    CHECK (default_role IN ('none', 'viewer', 'editor'));
ALTER TABLE workspaces ADD COLUMN usage REAL NOT NULL DEFAULT 0;       -- decayed slot-seconds ..
ALTER TABLE workspaces ADD COLUMN usage_at INTEGER NOT NULL DEFAULT 0; -- .. as of this time

CREATE TABLE workspace_members (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    user_id INTEGER NOT NULL REFERENCES users (id),
    -- '': no member, the row keeps the rest; he has the workspace's default_role
    role TEXT NOT NULL DEFAULT '' CHECK (role IN ('', 'none', 'viewer', 'editor', 'admin')),
    weight REAL NOT NULL DEFAULT 1,
    max_slots INTEGER NOT NULL DEFAULT 0,  -- 0: no limit
    usage REAL NOT NULL DEFAULT 0,         -- as of workspaces
    usage_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace_id, user_id)
) STRICT, WITHOUT ROWID;

ALTER TABLE experiments ADD COLUMN queue_order INTEGER NOT NULL DEFAULT 0; -- 0: by id
ALTER TABLE experiments ADD COLUMN weight REAL NOT NULL DEFAULT 1;
-- slot-seconds of its ended allocations
ALTER TABLE experiments ADD COLUMN service REAL NOT NULL DEFAULT 0;
ALTER TABLE experiments ADD COLUMN resource_pool TEXT NOT NULL DEFAULT ''; -- '': as the config says

-- allocations.slots: wanted while it is queued, held once it is placed
ALTER TABLE allocations ADD COLUMN least_slots INTEGER NOT NULL DEFAULT 0; -- elastic: so few do
-- why the scheduler drained it: PRIORITY SHARE SERVICE SHRINK GROW MOVE; '': it did not
ALTER TABLE allocations ADD COLUMN cause TEXT NOT NULL DEFAULT '';
ALTER TABLE allocations ADD COLUMN preempted_for INTEGER; -- the trial it made room for
CREATE INDEX allocations_history ON allocations (ended_at);

ALTER TABLE agents ADD COLUMN rack TEXT NOT NULL DEFAULT '';

CREATE INDEX projects_workspace ON projects (workspace_id);
CREATE INDEX experiments_project ON experiments (project_id);
