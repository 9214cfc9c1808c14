// Scenes for tests of the scheduler. A scene is a text of statements that runs against a scheduler
// of its own, on a clock of its own. Statements end with ';'. Times: 5s 5m 5h 5d. Service, usage
// and debt are slot-hours, as 5h. Parts in [] may be left out; the first use of a name gives it.
//
//   lane [PERCENT]             first of all: the fast lane's part of a pool (without a number that
//   of
//                              production); without this statement there is no fast lane
//   pool POLICY                adds a pool; first, or never: then there is one fair_share pool
//   pool POLICY is=POOL        changes the policy of a pool
//   agents SLOTS[/RACK]... [pool=0]     agents are numbered from 0
//   lost AGENT; back AGENT; gone AGENT; off AGENT.SLOT...; on AGENT.SLOT...
//   near AGENT NVLINK NUMA [MODEL]      the groups of its slots, a letter for each; -: none
//   team PATH [weight= guarantee= max=]     as eng, eng/ann; repeated, it changes the team
//   disband PATH; restore PATH HOURS    removes a team; restores its usage
//   job NAME [team= priority= order= limit= weight= service= pool=]   repeated, it changes the job
//   gang NAME SLOTS|MIN-MAX [one] [stays] [not=AGENT]... [waited=] [job=NAME | keys of a job]
//   end GANG...; again GANG... (the gang has ended, and waits again)
//   resize GANG SLOTS|MIN-MAX
//   leave GANG; saved GANG; expect GANG TIME; adopt GANG AGENT.SLOT,... [TIME ago]
//   wait TIME
//   pass [GANG[=AGENT.SLOT,...]]... [-GANG[:CAUSE[:FOR]]]...    expects exactly these commands
//   drain                      all gangs that were asked to leave have left, and wait again
//   why GANG REASON [free= ahead= behind= ...]; queue [GANG]... [pool=]; next TIME|never
//   share PATH [used= wanted= entitled= usage= debt=] [pool=]; look [agents= slots= ...] [pool=]
//
// The scheduler checks itself after every statement. After every pass a second pass at the same
// time must give no commands.
#ifndef MUSTER_TESTS_UNIT_MASTER_SUPPORT_SCENE_H
#define MUSTER_TESTS_UNIT_MASTER_SUPPORT_SCENE_H

#include <stddef.h>

struct scene {
    const char *title, *play;
};

void scenes_run(const struct scene *scenes, size_t count);

#define SCENES_RUN(scenes) scenes_run(scenes, sizeof(scenes) / sizeof *(scenes))

#endif
