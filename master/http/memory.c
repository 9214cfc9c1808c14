#include "master/http/memory.h"

#include <malloc.h>
#include <stddef.h>

#include "base/clock.h"

enum {
    ARENAS = 2,       // for a dozen threads that rarely allocate
    MAPPED = 1 << 20, // bytes: blocks of this size are returned when they are freed
    KEPT = 4 << 20,   // unused bytes that may stay at the end of an arena
    LARGE = 1 << 20,  // bytes that a large call held
    EVERY_US = 30 * 1000000,
};

void memory_set_up(void)
{
    mallopt(M_ARENA_MAX, ARENAS);
    mallopt(M_MMAP_THRESHOLD, MAPPED);
    mallopt(M_TRIM_THRESHOLD, KEPT);
}

static void trim(struct offload_job *j, struct db_reader *db)
{
    struct memory *m = (struct memory *)((char *)j - offsetof(struct memory, job));
    (void)db;
    malloc_trim(KEPT);
    atomic_store(&m->under_way, false);
}

void memory_used(struct memory *m, struct offload *workers, size_t bytes)
{
    int64_t now = clock_mono_us();
    if ((bytes < LARGE && now < atomic_load(&m->next)) || atomic_exchange(&m->under_way, true))
        return;
    atomic_store(&m->next, now + EVERY_US);
    m->job.run = trim;
    if (offload_submit(workers, &m->job, NULL))
        atomic_store(&m->under_way, false);
}
