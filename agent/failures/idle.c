#include "agent/failures/idle.h"

enum { LOOKS = 4 }; // within the limit

void idle_note_activity(struct idle_watch *w, int64_t now)
{
    *w = (struct idle_watch){.since = now, .looked_at = now};
}

bool idle_is_due(const struct idle_watch *w, int64_t now, int64_t limit)
{
    return now - w->looked_at >= limit / LOOKS;
}

int64_t idle_look(struct idle_watch *w, int64_t now, int64_t cpu)
{
    int64_t most = (now - w->since) * IDLE_CPU_PERCENT / 100;
    bool works = w->known && (cpu < w->cpu || cpu - w->cpu > most);
    w->looked_at = now;
    // The first look has nothing to compare with; it keeps `since`.
    if (works || !w->known) {
        w->since = works ? now : w->since;
        w->cpu = cpu;
        w->known = true;
    }
    return now - w->since;
}
