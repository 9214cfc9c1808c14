// NVIDIA's Xid numbers, by which the driver reports GPU faults: a description and the consequence
// for the slot, after the "immediate action" in NVIDIA's Xid catalogue. The slot stays in use where
// that action is to restart the program, and goes out of use where it is to reset the GPU.
// Pure; any thread.
#ifndef MUSTER_AGENT_GPU_XID_H
#define MUSTER_AGENT_GPU_XID_H

enum fault_grade {
    FAULT_NONE,
    FAULT_NOTED,  // the slot stays in use; the log of its task mentions the fault
    FAULT_DRAINS, // the slot goes out of use; its task saves its work and moves
    FAULT_ENDS,   // the slot goes out of use; its task cannot continue and is ended
};

extern const char *const fault_grade_names[]; // the words of the sync request

enum { XID_DOUBLE_BIT_ECC = 48, XID_OFF_THE_BUS = 79 };

// Describes the fault, without a full stop. An unknown number is FAULT_NOTED.
const char *xid_describe(long long xid, enum fault_grade *grade);

#endif
