// A disk that fails: SQLite's own way to the files (a VFS) with a fault at a chosen operation, and
// with power cuts, after which files hold what was flushed and any part of what was not. One
// process, one store.
#ifndef MUSTER_TESTS_UNIT_DB_FAULTY_VFS_H
#define MUSTER_TESTS_UNIT_DB_FAULTY_VFS_H

#include <stdint.h>

enum fault {
    FAULT_NONE,
    FAULT_FULL,  // a write fails, and all after it: no room
    FAULT_WRITE, // a write fails, once
    FAULT_SYNC,  // a flush fails, once, and what it should have flushed may be lost: as Linux does
    FAULT_SYNC_ALL, // a flush fails, and all after it
    FAULT_TRUNCATE, // a truncation fails, once
    FAULT_POWER,    // the process ends at a write or flush
    FAULTS
};

extern const char *const fault_names[FAULTS];

// From here on SQLite uses it. The fault comes with operation number `at` of its kind, from 1;
// `seed` decides what survives it.
void faulty_install(enum fault fault, int at, uint64_t seed);
int faulty_met(void); // how many operations have failed

enum { FAULTY_POWER_CUT = 99 }; // exit status of the process then

#endif
