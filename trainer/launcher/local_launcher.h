// The launcher of a rank that `muster-trainer run` forked. Every call is a JSON message to the
// parent:
//
//   {"step":n,"loss":x}  {"group":"training","at":n,"steps":n,"metrics":{..}}
//   {"checkpoint":"folder","at":n,"best":b,"only_best":b}  {"note":"text"}
//   {"permanent_failure":"why"}  {"failed":"why","code":n}
//   {"drained":false} at the end of rank 0
#ifndef MUSTER_TRAINER_LAUNCHER_LOCAL_LAUNCHER_H
#define MUSTER_TRAINER_LAUNCHER_LOCAL_LAUNCHER_H

#include "trainer/launcher/gang.h"
#include "trainer/launcher/launcher.h"

struct local_launcher {
    struct gang_member *member;
    int64_t step_sent; // when the last "step" was sent, monotonic microseconds
};

struct launcher local_launcher_open(struct local_launcher *local, struct gang_member *member);
void local_launcher_report_failure(struct local_launcher *local, int code, const char *why);

#endif
