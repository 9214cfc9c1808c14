// The network backend of trainer/comm/. ENCRYPT is true or false.
#include "base/text/json.h"
#include "tests/bench/network/meet.h"
#include "trainer/comm/comm.h"
#include "trainer/ops/device.h"

struct bench_meeting {
    int rank, count;
    const char *folder;
};

static struct comm *comm;
static struct error error;

// Replaces trainer/ops, which this program does not link: results are in host memory at once.
int ops_synchronize(struct error *e)
{
    (void)e;
    return 0;
}

static int gather(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct bench_meeting *m = ctx;
    char name[16], text[ADDRESS_MAX + 1];
    char *own = json_dumps(mine, JSON_ENCODE_ANY);
    snprintf(name, sizeof name, "meeting%d", m->count++);
    meet_publish(m->folder, name, m->rank, own, strlen(own));
    free(own);
    *all = json_array();
    for (int rank = 0; rank < 2; rank++) {
        text[meet_read(m->folder, name, rank, text)] = 0;
        json_array_append_new(*all, json_loads(text, JSON_DECODE_ANY, NULL));
    }
    (void)e;
    return 0;
}

static int all_reduce(int32_t *data, size_t count)
{
    return comm_all_reduce(comm, data, count, COMM_INT32, COMM_MAX, &error);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    struct bench_meeting meeting = {.rank = argv[1][0] == '1', .folder = argv[2]};
    const struct comm_config config = {
        .rank = meeting.rank,
        .world = 2,
        .arena_bytes = BYTES_MAX,
        .rendezvous = {.all_gather = gather, .ctx = &meeting},
        .encrypt = ENCRYPT,
        .address = meeting.rank ? "10.213.8.3" : "10.213.8.2",
    };
    if (comm_open(&config, &comm, &error)) {
        puts(error.text);
        return 1;
    }
    int32_t *data = comm_alloc(comm, BYTES_MAX);
    if (strcmp(argv[3], "time") == 0) {
        measure_all_reduce(meeting.rank, data, all_reduce);
    } else {
        while (!all_reduce(data, 256))
            ;
        printf("%.3f rank %d: %s\n", now(), meeting.rank, error.text);
    }
    comm_close(comm);
    return 0;
}
