#include "agent/gpu/xid.h"

#include <stddef.h>

const char *const fault_grade_names[] = {
    [FAULT_NONE] = "", [FAULT_NOTED] = "noted", [FAULT_DRAINS] = "drains", [FAULT_ENDS] = "ends"};

// clang-format off
static const struct {
    int xid;
    enum fault_grade grade;
    const char *text;
} xid_table[] = {
    {13,  FAULT_NOTED,  "the program made the GPU's engine raise an exception"},
    {31,  FAULT_NOTED,  "the program used GPU memory that is not its own"},
    {32,  FAULT_NOTED,  "the GPU received commands that it cannot read"},
    {43,  FAULT_NOTED,  "the GPU has stopped working for the program"},
    {45,  FAULT_NOTED,  "the driver removed the program's work from the GPU after an earlier error"},
    {48,  FAULT_ENDS,   "an uncorrectable memory error; reset the GPU"},
    {62,  FAULT_ENDS,   "the GPU's internal controller has halted; reset the GPU"},
    {63,  FAULT_NOTED,  "the next reset of the GPU replaces a memory row"},
    {64,  FAULT_DRAINS, "a faulty memory row could not be replaced; reset the GPU"},
    {74,  FAULT_ENDS,   "an NVLink connection has failed; reset the GPU"},
    {79,  FAULT_ENDS,   "the GPU has fallen off the bus; restart the machine"},
    {92,  FAULT_NOTED,  "many corrected memory errors"},
    {94,  FAULT_NOTED,  "an uncorrectable memory error that affected only this program; "
                        "reset the GPU when convenient"},
    {95,  FAULT_ENDS,   "an uncorrectable memory error that was not contained; reset the GPU"},
    {109, FAULT_ENDS,   "the GPU could not switch to another program; reset the GPU"},
    {110, FAULT_ENDS,   "a security fault of the GPU; restart the machine"},
    {119, FAULT_ENDS,   "the GPU's system processor does not answer; reset the GPU"},
    {120, FAULT_ENDS,   "the GPU's system processor has failed; reset the GPU"},
    {136, FAULT_ENDS,   "an NVLink connection could not be set up; reset the GPU"},
    {140, FAULT_ENDS,   "recovery from an uncorrectable memory error failed; reset the GPU"},
    {143, FAULT_ENDS,   "the GPU could not be initialized; reset the GPU"},
    {154, FAULT_NOTED,  "the driver has changed the recovery action"},
    {156, FAULT_DRAINS, "a reset can disable a faulty part of the GPU; reset the GPU"},
    {158, FAULT_ENDS,   "the GPU does not answer in time; reset the GPU"},
};
// clang-format on

const char *xid_describe(long long xid, enum fault_grade *grade)
{
    for (size_t i = 0; i < sizeof xid_table / sizeof *xid_table; i++)
        if (xid_table[i].xid == xid) {
            *grade = xid_table[i].grade;
            return xid_table[i].text;
        }
    *grade = FAULT_NOTED;
    return "see NVIDIA's catalogue of Xid errors";
}
