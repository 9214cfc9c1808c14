// Parts of queries that are composed while the master runs: lists with filters and pages. Values of
// a caller are bound and never part of the text.
#ifndef MUSTER_DB_STATEMENTS_COMPOSE_H
#define MUSTER_DB_STATEMENTS_COMPOSE_H

#include "db/statements/rows.h"

// Filters of bulk calls on experiment e; each is appended to the others. A list is one value, as
// JSON, so that it may be long: a query reads it once, not once for each experiment.
#define SQL_AND_HAS_LABELS                                                                         \
    " AND (WITH wanted AS MATERIALIZED (SELECT DISTINCT value FROM json_each(?))"                  \
    " SELECT (SELECT count(*) FROM wanted) = (SELECT count(DISTINCT value) FROM"                   \
    " json_each(e.labels) WHERE value IN (SELECT value FROM wanted)))"
#define SQL_AND_STATE_IN  " AND e.state IN (SELECT value FROM json_each(?))"
#define SQL_AND_USER_IN   " AND e.user_id IN (SELECT value FROM json_each(?))"
#define SQL_AND_ID_NOT_IN " AND e.id NOT IN (SELECT value FROM json_each(?))"
#define SQL_AND_VISIBLE                                                                            \
    " AND (SELECT workspace_id FROM projects WHERE id = e.project_id) IN"                          \
    " (" SQL_SEEN_WORKSPACES ")"

// A format: the filters, the maximum number of rows.
#define SQL_FIND_EXPERIMENTS                                                                       \
    "SELECT e.id FROM experiments e WHERE e.kind = 'EXPERIMENT'%s ORDER BY e.id"                   \
    " LIMIT %d"

// The experiments, or trials, that a filter selects for a verb on many objects. Further conditions
// follow, each with an AND of its own, and then the limit.
#define SQL_SELECT_SEARCHES "SELECT r.id FROM experiment_briefs r WHERE r.kind = 'EXPERIMENT'"
#define SQL_SELECT_RUNS                                                                            \
    "SELECT t.id FROM experiment_briefs r JOIN experiments e ON e.id = r.id JOIN trials t ON"      \
    " t.experiment_id = r.id WHERE r.kind = 'EXPERIMENT'"
#define SQL_AND_BRIEF_PROJECT " AND r.project_id = ?"
#define SQL_FIRST_IDS         " ORDER BY 1 LIMIT ?"

// Words between the parts of a composed query.
#define SQL_AND        " AND "
#define SQL_ORDER_BY   " ORDER BY "
#define SQL_FROM       " FROM "
#define SQL_FROM_QUERY " FROM ("
#define SQL_WHERE      " WHERE "

// Conditions follow, each with its own AND.
#define SQL_WHERE_TRUE " WHERE 1"

// Conditions on the ids of a JSON list.
#define SQL_IN_LIST      " IN (SELECT value FROM json_each(?))"
#define SQL_SELECT_WORD  "SELECT "
#define SQL_PAGE         " LIMIT ? OFFSET ?"
#define SQL_SELECT_COUNT "SELECT count(*)"
#define SQL_IN           " IN ("
#define SQL_NOT_IN       " NOT IN ("

// Formats of conditions.
#define SQL_AND_CONDITION      " AND (%s)"
#define SQL_AND_COLUMN_IN      " AND (%s) IN ("
#define SQL_AND_COLUMN_IS      " AND (%s) = ?"
#define SQL_AND_COLUMN_LIKE    " AND (%s) LIKE ? ESCAPE '\\'"
#define SQL_AND_COLUMN_VISIBLE " AND (%s) IN (" SQL_SEEN_WORKSPACES ")"

// Formats of a list: FROM .. and the conditions; columns, FROM .., JOIN .., conditions, order.
#define SQL_LIST_COUNT "SELECT count(*) %s WHERE 1%s"
#define SQL_LIST_PAGE  "%s %s %s WHERE 1%s%s LIMIT ? OFFSET ?"

// A format: the number of the parameter that holds a metric's name. Checkpoints without this metric
// come last.
#define SQL_ORDER_BY_CHECKPOINT_METRIC                                                             \
    " ORDER BY json_extract(c.validation, '$.avgMetrics.\"' || replace(?%1$d, '\"', '') ||"        \
    " '\"') IS NULL, json_extract(c.validation, '$.avgMetrics.\"' || replace(?%1$d, '\"', '')"     \
    " || '\"')"

#endif
