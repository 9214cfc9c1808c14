-- What lists need: text search over experiments.
CREATE VIRTUAL TABLE experiments_text USING fts5 (
    name, description, labels, notes, content = 'experiments', content_rowid = 'id'
);
