// The ranks identify each other before a backend is chosen: every rank publishes its machine, its
// process, its version and the size of its arena.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/file.h"
#include "base/text/json.h"
#include "trainer/comm/backend.h"

enum { IDENTITY_MAX = 192, HOST_MAX = 256, SMALL_FILE = 4096 };

static void namespace_name(const char *path, char *out, size_t cap)
{
    ssize_t n = readlink(path, out, cap - 1);
    out[n > 0 ? n : 0] = 0;
}

// The identity of a machine: its boot, its PID namespace and its network namespace. Ranks with the
// same identity can share memory.
static int machine_identity(char out[IDENTITY_MAX], struct error *e)
{
    char *boot = NULL, pids[48], network[48];
    size_t len;
    int err = file_read("/proc/sys/kernel/random/boot_id", SMALL_FILE, &boot, &len, e);
    if (err)
        return err;
    boot[strcspn(boot, "\n")] = 0;
    namespace_name("/proc/self/ns/pid", pids, sizeof pids);
    namespace_name("/proc/self/ns/net", network, sizeof network);
    snprintf(out, IDENTITY_MAX, "%.64s %s %s", boot, pids, network);
    free(boot);
    return 0;
}

uint64_t comm_start_time(pid_t pid)
{
    char path[64], *text;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (file_read(path, SMALL_FILE, &text, &len, NULL))
        return 0;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    uint64_t ticks = at ? strtoull(at, NULL, 10) : 0;
    free(text);
    return ticks;
}

static int check_peers(const json_t *peers, int rank, struct error *e)
{
    const json_t *me = json_array_get(peers, (size_t)rank), *peer;
    size_t i;
    json_array_foreach(peers, i, peer)
    {
        if (strcmp(jget_string(peer, "version", ""), MUSTER_VERSION) != 0)
            return error_set(e, ERR_VERSION,
                             "rank %zu runs muster-trainer %s, rank %d runs %s: install one "
                             "version on all machines",
                             i, jget_string(peer, "version", "?"), rank, MUSTER_VERSION);
        if (jget_int(peer, "arena", -1) != jget_int(me, "arena", -1))
            return error_set(e, ERR_INVALID,
                             "rank %zu has buffers of %" PRId64 " bytes, rank %d with "
                             "%" PRId64 ": the ranks do not train the same model",
                             i, jget_int(peer, "arena", -1), rank, jget_int(me, "arena", -1));
    }
    return 0;
}

int comm_rendezvous_gather(const struct comm_config *config, const json_t *mine, json_t **all,
                           struct error *e)
{
    *all = NULL;
    int err = config->rendezvous.all_gather(config->rendezvous.ctx, mine, all, e);
    if (!err && json_array_size(*all) != (size_t)config->world) {
        err = error_set(e, ERR_PEER, "the rendezvous of %d ranks returned %zu answers",
                        config->world, json_array_size(*all));
        json_decref(*all);
        *all = NULL;
    }
    return err;
}

int comm_rendezvous(const struct comm_config *config, json_t **peers, struct error *e)
{
    char identity[IDENTITY_MAX], host[HOST_MAX] = "";
    int err = machine_identity(identity, e);
    if (err)
        return err;
    gethostname(host, sizeof host - 1);
    json_t *mine = json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:s}", "rank", config->rank, "host",
                             host, "machine", identity, "pid", (json_int_t)getpid(), "start",
                             (json_int_t)comm_start_time(getpid()), "arena",
                             (json_int_t)config->arena_bytes, "version", MUSTER_VERSION);
    err = comm_rendezvous_gather(config, mine, peers, e);
    json_decref(mine);
    return err ? err : check_peers(*peers, config->rank, e);
}

bool comm_same_machine(const json_t *peers, int a, int b)
{
    const json_t *x = json_array_get(peers, (size_t)a);
    const json_t *y = json_array_get(peers, (size_t)b);
    return strcmp(jget_string(x, "machine", ""), jget_string(y, "machine", "")) == 0;
}
