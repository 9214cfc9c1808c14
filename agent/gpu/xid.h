// NVIDIA's Xid numbers, by which its driver says what has gone wrong with a GPU: in words, and with
// what follows for the slot. After the "immediate action" of NVIDIA's Xid catalogue: where that is
// to start the program again the slot stays, where it is to reset the GPU it goes out of use.
// Pure; any thread.
#ifndef MUSTER_AGENT_GPU_XID_H
#define MUSTER_AGENT_GPU_XID_H

enum fault_grade {
    FAULT_NONE,
    FAULT_NOTED,  // said in the log of what runs there; the slot stays in use
    FAULT_DRAINS, // out of use; what runs there is asked to save its work and go elsewhere
    FAULT_ENDS,   // out of use; what runs there cannot go on, and is ended
};

extern const char *const fault_grade_names[]; // as the master reads them

enum { XID_DOUBLE_BIT_ECC = 48, XID_OFF_THE_BUS = 79 };

// What has happened, without a full stop. Numbers that the table does not have are noted.
const char *xid_words(long long xid, enum fault_grade *grade);

#endif
