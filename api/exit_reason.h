// The reason why a trial ended, as agents write it: "rank 0: exit 1: KeyError: 'lr'". Pure; any
// thread.
#ifndef MUSTER_API_EXIT_REASON_H
#define MUSTER_API_EXIT_REASON_H

// The error in a reason: the part behind the rank and the exit code. The whole reason if no error
// follows them. Points into `reason`.
const char *exit_reason_error(const char *reason);

#endif
