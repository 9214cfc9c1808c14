// Every SQL statement of the store by name: writes.inc (the core thread's batches) and reads.inc
// (queries of the http threads, and of the core at start). Prepared once per connection.
#ifndef MUSTER_DB_STATEMENTS_H
#define MUSTER_DB_STATEMENTS_H

#include "db/statements/reads.inc"
#include "db/statements/writes.inc"

enum stmt {
#define STMT_ENUM(name, sql) STMT_##name,
    DB_WRITES(STMT_ENUM) DB_READS(STMT_ENUM)
#undef STMT_ENUM
        STMT_COUNT
};

#endif
