#include "trainer/commands/device_trace.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "trainer/ops/trace.h"

struct device_trace {
    char *path;
    FILE *file;
    double begin_us; // time of the first event, which becomes 0 in the file
    long long events;
};

// The names of the rows in the viewer.
static const char *const rows[OPS_TRACE_ROWS] = {"phases", "layers", "kernels"};

static const char *const phases[OPS_PHASES] = {
    [OPS_OTHER] = "rest",
    [OPS_DATA] = "data",
    [OPS_FORWARD] = "forward",
    [OPS_BACKWARD] = "backward",
    [OPS_COMMUNICATION] = "exchange",
    [OPS_OPTIMIZER] = "optimizer",
    [OPS_CHECKPOINT] = "checkpoint",
};

static void write_event(struct device_trace *t, json_t *event)
{
    char *text = event ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    if (text)
        fprintf(t->file, "%s\n%s", t->events++ > 0 ? "," : "", text);
    free(text);
    json_decref(event);
}

static void record_event(void *ctx, const struct ops_trace_event *event)
{
    struct device_trace *t = ctx;
    if (t->begin_us < 0)
        t->begin_us = event->begin_us;
    const char *name = event->row == OPS_TRACE_PHASE ? phases[event->phase] : event->name;
    json_t *args = json_object();
    if (event->row == OPS_TRACE_KERNEL) {
        json_object_set_new(args, "grid",
                            json_pack("[i,i,i]", event->grid[0], event->grid[1], event->grid[2]));
        json_object_set_new(
            args, "block", json_pack("[i,i,i]", event->block[0], event->block[1], event->block[2]));
        json_object_set_new(args, "registers", json_integer(event->registers));
        json_object_set_new(args, "shared_bytes", json_integer(event->shared));
    }
    write_event(t,
                json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "name", name, "cat",
                          rows[event->row], "ph", "X", "ts", event->begin_us - t->begin_us, "dur",
                          event->took_us, "pid", 0, "tid", (int)event->row, "args", args));
}

static void name_rows(struct device_trace *t)
{
    for (int row = 0; row < OPS_TRACE_ROWS; row++)
        write_event(t, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "thread_name", "ph", "M",
                                 "pid", 0, "tid", row, "args", "name", rows[row]));
}

static int device_trace_close(struct device_trace *t, struct error *e)
{
    int failed = ferror(t->file);
    failed = fclose(t->file) || failed;
    int rc = failed ? error_set(e, ERR_IO, "%s: %s", t->path, strerror(errno)) : 0;
    free(t->path);
    free(t);
    return rc;
}

int device_trace_begin(const char *path, struct device_trace **out, struct error *e)
{
    *out = NULL;
    FILE *file = fopen(path, "we");
    if (!file)
        return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    struct device_trace *t = xcalloc(1, sizeof *t);
    t->path = xstrdup(path);
    t->file = file;
    t->begin_us = -1;
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", file);
    name_rows(t);
    int rc = ops_trace_begin(record_event, t, e);
    if (rc) {
        ops_trace_end(NULL);
        device_trace_close(t, NULL);
        return rc;
    }
    *out = t;
    return 0;
}

int device_trace_end(struct device_trace *t, struct error *e)
{
    if (!t)
        return 0;
    int rc = ops_trace_end(e);
    fputs("\n]}\n", t->file);
    int closed = device_trace_close(t, rc ? NULL : e);
    return rc ? rc : closed;
}
