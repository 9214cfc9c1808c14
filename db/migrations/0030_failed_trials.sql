-- Failed trials of an experiment: the summary of failures and the lists find them without reading the others.
CREATE INDEX trials_failed ON trials (experiment_id, id) WHERE state = 'ERROR';
