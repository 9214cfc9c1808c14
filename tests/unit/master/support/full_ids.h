// Tests write the short ids of trials' tasks and allocations ("1.1", "1.1.3"); these functions make
// the full ids of the cluster "cluster" from them.
#ifndef MUSTER_TESTS_UNIT_MASTER_SUPPORT_FULL_IDS_H
#define MUSTER_TESTS_UNIT_MASTER_SUPPORT_FULL_IDS_H

// Another text is returned as it is. The result is valid for the next 15 calls.
const char *full_id(const char *text);

// The text with the full id for each short id between quotes, slashes or blanks; heap.
char *with_full_ids(const char *text);

#endif
