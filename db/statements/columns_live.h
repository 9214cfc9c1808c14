// Expressions that queries share about what runs of an experiment or a trial, and how it failed.
// Constant text.
#ifndef MUSTER_DB_STATEMENTS_COLUMNS_LIVE_H
#define MUSTER_DB_STATEMENTS_COLUMNS_LIVE_H

// What a live allocation makes of an active experiment or trial on the wire.
#define SQL_LIVE_STATE(live_allocations)                                                           \
    "CASE (SELECT max(CASE a.state WHEN 'RUNNING' THEN 3 WHEN 'TERMINATING' THEN 3 "               \
    "WHEN 'STARTING' THEN 2 WHEN 'PULLING' THEN 1 ELSE 0 END) FROM " live_allocations              \
    " AND a.state <> 'TERMINATED') "                                                               \
    "WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'STARTING' WHEN 1 THEN 'PULLING' ELSE 'QUEUED' END"

// How many of them live: those of what is paused still hold their slots.
#define SQL_LIVE_COUNT(allocations)                                                                \
    "(SELECT count(*) FROM " allocations " AND a.state <> 'TERMINATED')"

// Why an experiment has failed: in the words of its newest trial that did.
#define SQL_FAILURE(experiment, state)                                                             \
    "CASE " state " WHEN 'ERROR' THEN (SELECT t.exit_reason FROM trials t WHERE t.experiment_id "  \
    "= " experiment " AND t.state = 'ERROR' AND t.exit_reason <> '' ORDER BY t.id DESC LIMIT 1) "  \
    "END"

#define SQL_EXPERIMENT_RUNS                                                                        \
    "trials t JOIN allocations a ON a.trial_id = t.id WHERE t.experiment_id = e.id"

#endif
