-- Orders of lists that had to read and sort all rows. What is written for them by a submission lies at the end of what
-- equal ones have, so it is a page or two that are in memory.
CREATE INDEX experiment_briefs_searcher ON experiment_briefs (searcher);
CREATE INDEX experiment_briefs_pool ON experiment_briefs (pool);
CREATE INDEX experiment_briefs_slots ON experiment_briefs (slots);
CREATE INDEX experiment_briefs_trials ON experiment_briefs (trials);
CREATE INDEX experiment_briefs_progress ON experiment_briefs (progress);
CREATE INDEX experiment_briefs_parent ON experiment_briefs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX experiments_description ON experiments (description);
CREATE INDEX projects_name ON projects (name);
