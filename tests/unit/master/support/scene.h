// Scenes for tests of the scheduler: a short play in words, run against a scheduler of its own on a
// clock of its own. Statements end with ';'. Times: 5s 5m 5h 5d. Service, usage, debt: slot-hours
// as 5h. What stands in [] may be left out; names are given by their first use.
//
//   lane [PERCENT]                  first of all: the fast lane's part of a pool, without a number
//   that of production; else there is none
//   pool POLICY                     one more pool, the first statement or none: then a fair_share
//   one agents SLOTS[/RACK] ... [pool=0]  numbered from 0 lost AGENT; back AGENT; gone AGENT; off
//   AGENT.SLOT; on AGENT.SLOT; near AGENT NVLINK NUMA [MODEL]   a letter a slot, -: none team PATH
//   [weight= guarantee= max=]   eng, eng/ann; said again: changes it job NAME [team= priority=
//   order= limit= weight= service= pool=]   said again: changes it gang NAME SLOTS|LEAST-MOST [one]
//   [stays] [not=AGENT]... [waited=] [job=NAME | keys of a job of its own] end GANG...; again
//   GANG... ended; left and waits again leave GANG; saved GANG; expect GANG TIME; adopt GANG
//   AGENT.SLOT,... [TIME ago] restore TEAM HOURS; wait TIME pass [GANG[=AGENT.SLOT,...]]...
//   [-GANG[:CAUSE[:FOR]]]...   exactly these commands drain all who were asked to leave have left
//   and wait again why GANG REASON [free= ahead= behind=
//   ...]; queue [GANG]... [pool=]; next TIME|never share PATH [used= wanted= entitled= usage=
//   debt=] [pool=]; look [agents= slots= ...] [pool=]
//
// After every statement the scheduler checks itself, and after every pass another one at the same
// time has to have nothing left to say.
#ifndef MUSTER_TESTS_UNIT_MASTER_SUPPORT_SCENE_H
#define MUSTER_TESTS_UNIT_MASTER_SUPPORT_SCENE_H

#include <stddef.h>

struct scene {
    const char *what, *play;
};

void scenes_run(const struct scene *scenes, size_t count);

#define SCENES_RUN(scenes) scenes_run(scenes, sizeof(scenes) / sizeof *(scenes))

#endif
