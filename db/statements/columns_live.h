// Shared SQL expressions: the live allocations of an experiment or a trial, and its failure.
// Constant text.
#ifndef MUSTER_DB_STATEMENTS_COLUMNS_LIVE_H
#define MUSTER_DB_STATEMENTS_COLUMNS_LIVE_H

// The state on the wire of an active experiment or trial, from its live allocation.
#define SQL_LIVE_STATE(live_allocations)                                                           \
    "CASE (SELECT max(CASE a.state WHEN 'RUNNING' THEN 3 WHEN 'TERMINATING' THEN 3 "               \
    "WHEN 'STARTING' THEN 2 WHEN 'PULLING' THEN 1 ELSE 0 END) FROM " live_allocations              \
    " AND a.state <> 'TERMINATED') "                                                               \
    "WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'STARTING' WHEN 1 THEN 'PULLING' ELSE 'QUEUED' END"

// The number of live allocations. Those of a paused experiment still hold their slots.
#define SQL_LIVE_COUNT(allocations)                                                                \
    "(SELECT count(*) FROM " allocations " AND a.state <> 'TERMINATED')"

// The reason for the failure of an experiment: that of the newest trial that failed.
#define SQL_FAILURE(experiment, state)                                                             \
    "CASE " state " WHEN 'ERROR' THEN (SELECT t.exit_reason FROM trials t WHERE t.experiment_id "  \
    "= " experiment " AND t.state = 'ERROR' AND t.exit_reason <> '' ORDER BY t.id DESC LIMIT 1) "  \
    "END"

#define SQL_EXPERIMENT_RUNS                                                                        \
    "trials t JOIN allocations a ON a.trial_id = t.id WHERE t.experiment_id = e.id"

#endif
