// A disk that fails: a VFS of SQLite with a fault at a chosen operation, and with power cuts, after
// which files hold all flushed data and any part of the rest. For one process and one store.
#ifndef MUSTER_TESTS_UNIT_DB_FAULTY_VFS_H
#define MUSTER_TESTS_UNIT_DB_FAULTY_VFS_H

#include <stdint.h>

enum fault {
    FAULT_NONE,
    FAULT_FULL,     // a write fails, and all writes after it: the disk is full
    FAULT_WRITE,    // one write fails
    FAULT_SYNC,     // one flush fails, and the data may be lost, as on Linux
    FAULT_SYNC_ALL, // a flush fails, and all flushes after it
    FAULT_TRUNCATE, // one truncation fails
    FAULT_POWER,    // the process ends at a write or flush
    FAULTS
};

extern const char *const fault_names[FAULTS];

// SQLite uses the VFS from now on. The fault comes with operation number `at` of its kind, from 1;
// `seed` decides which data survive it.
void faulty_install(enum fault fault, int at, uint64_t seed);
int faulty_failures(void); // number of operations that have failed

enum { FAULTY_POWER_CUT = 99 }; // exit status of the process after a power cut

#endif
