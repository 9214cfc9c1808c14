// SQL that concerns the file: its settings, its identity, its checks and its text indexes.
#ifndef MUSTER_DB_STATEMENTS_CONTROL_H
#define MUSTER_DB_STATEMENTS_CONTROL_H

#define SQL_APPLICATION_ID "PRAGMA application_id"
#define SQL_USER_VERSION   "PRAGMA user_version"

// Changes when another connection has committed.
#define SQL_DATA_VERSION "PRAGMA data_version"
#define SQL_SET_IDENTITY "PRAGMA application_id = %d; PRAGMA user_version = %d"

// Formats of sqlite3_mprintf(), with the name of a table.
#define SQL_COUNT_TABLE "SELECT count(*) FROM \"%w\""
#define SQL_QUICK_CHECK "PRAGMA quick_check(\"%w\")"
#define SQL_TABLES_BY_NAME                                                                         \
    "SELECT name FROM sqlite_schema WHERE type = 'table'"                                          \
    " AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
#define SQL_TABLES                                                                                 \
    "SELECT name FROM sqlite_schema WHERE type = 'table'"                                          \
    " AND sql NOT LIKE 'CREATE VIRTUAL%'"
#define SQL_INTEGRITY_FAULTS                                                                       \
    "SELECT count(*) FROM pragma_integrity_check"                                                  \
    " WHERE integrity_check <> 'ok'"
#define SQL_BROKEN_REFERENCES "SELECT count(*) FROM pragma_foreign_key_check"
#define SQL_BYTES_IN_USE                                                                           \
    "SELECT (page_count - freelist_count) * page_size FROM"                                        \
    " pragma_page_count, pragma_freelist_count, pragma_page_size"

// A format: how much to add to ids and to the start numbers of trials.
#define SQL_ADVANCE_IDS                                                                            \
    "UPDATE sqlite_sequence SET seq = seq + %d WHERE name IN ('experiments', 'trials');"           \
    "UPDATE trials SET run_id = run_id + %d"                                                       \
    " WHERE state NOT IN ('COMPLETED', 'CANCELED', 'ERROR')"
#define SQL_SYNCHRONOUS_FULL "PRAGMA synchronous = FULL"

// Copies the write-ahead log into the file and empties it.
#define SQL_CHECKPOINT_LOG      "PRAGMA wal_checkpoint(TRUNCATE)"
#define SQL_FOREIGN_KEYS_ON     "PRAGMA foreign_keys = ON"
#define SQL_FOREIGN_KEYS_OFF    "PRAGMA foreign_keys = OFF"
#define SQL_SECURE_DELETE_OFF   "PRAGMA secure_delete = OFF"
#define SQL_CACHE_8_MIB         "PRAGMA cache_size = -8192"
#define SQL_LOG_LIMIT_64_MIB    "PRAGMA journal_size_limit = 67108864"
#define SQL_TEMPORARY_IN_MEMORY "PRAGMA temp_store = MEMORY"
#define SQL_JOURNAL_WAL         "PRAGMA journal_mode = WAL"
#define SQL_JOURNAL_MEMORY      "PRAGMA journal_mode = MEMORY"
#define SQL_JOURNAL_IS_WAL      "SELECT journal_mode = 'wal' FROM pragma_journal_mode"
#define SQL_COUNT_TABLES        "SELECT count(*) FROM sqlite_schema"

// The text indexes, written at the end of a transaction for all experiments that changed in it.
#define SQL_INDEX_TEXTS                                                                            \
    "INSERT INTO experiments_text (rowid, name, description, labels, notes)"                       \
    " SELECT e.id, e.name, e.description, e.labels, e.notes FROM experiments_unindexed u"          \
    " CROSS JOIN experiments e ON e.id = u.id"
#define SQL_INDEX_NAMES                                                                            \
    "INSERT INTO experiments_names (rowid, name) SELECT e.id, e.name"                              \
    " FROM experiments_unindexed u CROSS JOIN experiments e ON e.id = u.id"
#define SQL_CLEAR_UNINDEXED "DELETE FROM experiments_unindexed"
#define SQL_HAS_UNINDEXED   "SELECT 1 FROM experiments_unindexed LIMIT 1"

#endif
