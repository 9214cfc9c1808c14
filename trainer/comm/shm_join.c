// Connects the ranks of one machine.
//
// Rank 0 publishes the path of its segment. A rank on another machine is rejected; the error names
// both machines. The pidfd of every peer is opened before its start time is compared, so a reused
// process id cannot be mistaken for the peer.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/comm/shm.h"

static int check_machines(const json_t *peers, int rank, struct error *e)
{
    const json_t *me = json_array_get(peers, (size_t)rank);
    for (int i = 0; i < (int)json_array_size(peers); i++) {
        const json_t *peer = json_array_get(peers, (size_t)i);
        if (!comm_same_machine(peers, i, rank))
            return error_set(e, ERR_INVALID,
                             "rank %d runs on \"%s\" and rank %d on \"%s\": ranks in shared memory "
                             "must be on one machine; ask for at most the slots of one machine",
                             rank, jget_string(me, "host", "?"), i, jget_string(peer, "host", "?"));
    }
    return 0;
}

static int watch_peers(struct shm *s, const json_t *peers, struct error *e)
{
    for (int i = 0; i < s->base.world; i++) {
        const json_t *peer = json_array_get(peers, (size_t)i);
        s->pids[i] = (pid_t)jget_int(peer, "pid", 0);
        if (i == s->base.rank)
            continue;
        s->peers[i].fd = pidfd_open(s->pids[i], 0);
        bool same = s->peers[i].fd >= 0 &&
                    comm_start_time(s->pids[i]) == (uint64_t)jget_int(peer, "start", 0);
        if (!same)
            return error_set(e, ERR_PEER, "rank %d (process %d) ended before training began",
                             s->first_rank + i, (int)s->pids[i]);
    }
    return 0;
}

// Creates rank 0's sealed memory. It is allocated at once, so that a lack of memory is reported
// here and not in the middle of training.
static int make_segment(size_t bytes, int *fd, struct error *e)
{
    *fd = memfd_create("muster-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create shared memory");
    int no = ftruncate(*fd, (off_t)bytes) ? errno : posix_fallocate(*fd, 0, (off_t)bytes);
    if (!no && fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        no = errno;
    if (no)
        return error_set_errno(e, ERR_NO_MEMORY, no, "no memory for %zu MiB shared by the ranks",
                               bytes >> 20);
    return 0;
}

static int find_segment(const struct comm_config *config, int own_fd, int *fd, struct error *e)
{
    char path[64];
    json_t *mine = NULL, *all = NULL;
    if (config->rank == 0) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), own_fd);
        mine = json_string(path);
    } else {
        mine = json_null();
    }
    int err = comm_rendezvous_gather(config, mine, &all, e);
    json_decref(mine);
    if (err)
        return err;
    const char *where = json_string_value(json_array_get(all, 0));
    if (config->rank > 0) {
        *fd = where ? open(where, O_RDWR | O_CLOEXEC) : -1;
        if (*fd < 0)
            err = error_set_errno(e, ERR_PEER, errno, "cannot open the shared memory of rank 0, %s",
                                  where ? where : "which published no path");
    }
    json_decref(all);
    return err;
}

static int map_segment(struct shm *s, int fd, size_t head, struct error *e)
{
    void *p = mmap(NULL, s->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return error_set_errno(e, ERR_NO_MEMORY, errno, "cannot map %zu MiB of shared memory",
                               s->segment_bytes >> 20);
    s->segment = p;
    s->stage = (char *)p + head;
    for (int i = 0; i < s->base.world; i++)
        s->shared_arenas[i] = s->stage + SHM_STAGE + (size_t)i * s->base.arena_bytes;
    s->base.arena = block_alloc(s->base.arena_bytes);
    if (!s->base.arena)
        return error_set(e, ERR_NO_MEMORY, "no memory for %zu MiB of weights and gradients",
                         s->base.arena_bytes >> 20);
    return 0;
}

void shm_share_arena(struct shm *s)
{
    free(s->base.arena);
    s->base.arena = s->shared_arenas[s->base.rank];
}

// With more ranks than processors a spinning rank would only delay the peer that it waits for.
static int choose_spins(int world)
{
    cpu_set_t set;
    int cpus = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return world <= cpus ? 4000 : 0;
}

int shm_join(struct shm *s, const struct comm_config *config, const json_t *peers, struct error *e)
{
    size_t world = (size_t)config->world;
    size_t head = sizeof(struct shm_segment) + world * sizeof(struct shm_rank);
    head = (head + 4095) / 4096 * 4096;
    s->base.rank = config->rank;
    s->base.world = config->world;
    s->first_rank = (int)jget_int(json_array_get(peers, 0), "rank", 0);
    s->base.arena_bytes = config->arena_bytes;
    s->segment_bytes = head + SHM_STAGE + world * config->arena_bytes;
    s->timeout_us = config->timeout_us;
    s->spins = choose_spins(config->world);
    s->shared_arenas = xcalloc(world, sizeof *s->shared_arenas);
    s->buffers = xcalloc(world, sizeof *s->buffers);
    s->pids = xcalloc(world, sizeof *s->pids);
    s->peers = xcalloc(world, sizeof *s->peers);
    for (size_t i = 0; i < world; i++)
        s->peers[i] = (struct pollfd){.fd = -1, .events = POLLIN};

    int fd = -1;
    int err = check_machines(peers, config->rank, e);
    if (!err)
        err = watch_peers(s, peers, e);
    if (!err && config->rank == 0)
        err = make_segment(s->segment_bytes, &fd, e);
    if (!err)
        err = find_segment(config, fd, &fd, e);
    if (!err)
        err = map_segment(s, fd, head, e);
    if (!err)
        err =
            comm_barrier(&s->base, e); // rank 0 keeps the file open until all ranks have mapped it
    if (fd >= 0)
        close(fd);
    return err;
}

void shm_leave(struct shm *s)
{
    if (s->segment && s->base.arena != s->shared_arenas[s->base.rank])
        free(s->base.arena);
    if (s->segment)
        munmap(s->segment, s->segment_bytes);
    for (int i = 0; s->peers && i < s->base.world; i++)
        if (s->peers[i].fd >= 0)
            close(s->peers[i].fd);
    free(s->peers);
    free(s->pids);
    free(s->buffers);
    free(s->shared_arenas);
    free(s);
}
