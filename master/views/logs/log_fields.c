// The values by which a log can be filtered: agents, allocations, ranks and so on. The stream sends
// one line, then ends.

#include <stdlib.h>
#include <string.h>

#include "db/logs/logs.h"
#include "master/common/task_id.h"
#include "master/views/views.h"

struct log_fields_stream {
    struct stream stream;
    const char *task_id;
};

enum { FIELD_VALUES_MAX = 10000 }; // of one field; further values are left out

struct log_field_values { // sorted, without duplicates
    char **texts;
    size_t count;
};

struct log_field_sets {
    struct log_field_values of[LOG_FIELDS];
    int64_t *ranks;
    size_t rank_count;
};

static void add_value(struct log_field_values *v, const char *text)
{
    size_t low = 0, high = v->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(v->texts[middle], text);
        if (!order)
            return;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (!*text || v->count == FIELD_VALUES_MAX)
        return;
    v->texts = xrealloc(v->texts, (v->count + 1) * sizeof *v->texts);
    memmove(v->texts + low + 1, v->texts + low, (v->count - low) * sizeof *v->texts);
    v->texts[low] = xstrdup(text);
    v->count++;
}

static void add_rank(struct log_field_sets *f, int64_t rank)
{
    size_t at = f->rank_count;
    while (at && f->ranks[at - 1] >= rank)
        at--;
    if (rank < 0 || f->rank_count == FIELD_VALUES_MAX ||
        (at < f->rank_count && f->ranks[at] == rank))
        return;
    f->ranks = xrealloc(f->ranks, (f->rank_count + 1) * sizeof *f->ranks);
    memmove(f->ranks + at + 1, f->ranks + at, (f->rank_count - at) * sizeof *f->ranks);
    f->ranks[at] = rank;
    f->rank_count++;
}

static int add_origin(void *ctx, const struct log_origin *o)
{
    struct log_field_sets *f = ctx;
    for (int i = 0; i < LOG_FIELDS; i++)
        add_value(&f->of[i], o->text[i]);
    add_rank(f, o->rank);
    return 0;
}

static void write_field_sets(const struct log_field_sets *f, struct buf *out)
{
    static const struct {
        const char *key;
        enum log_field field;
    } keys[] = {{"agentIds", LOG_AGENT},
                {"allocationIds", LOG_ALLOCATION},
                {"containerIds", LOG_CONTAINER},
                {"sources", LOG_SOURCE},
                {"stdtypes", LOG_STDTYPE}};
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "result");
    jw_object(&w);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        jw_key(&w, keys[i].key);
        jw_array(&w);
        for (size_t k = 0; k < f->of[keys[i].field].count; k++)
            jw_string(&w, f->of[keys[i].field].texts[k]);
        jw_array_end(&w);
    }
    jw_key(&w, "rankIds");
    jw_array(&w);
    for (size_t i = 0; i < f->rank_count; i++)
        jw_int(&w, f->ranks[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_puts(out, "\n");
}

static enum stream_turn fill_fields(struct stream *s, struct db_reader *db, struct buf *out)
{
    struct log_field_sets found = {0};
    struct error e = {0};
    if (logs_each_origin(db, ((struct log_fields_stream *)s)->task_id, add_origin, &found, &e))
        wire_write_stream_error(out, ERR_INTERNAL, e.text);
    else
        write_field_sets(&found, out);
    for (int i = 0; i < LOG_FIELDS; i++) {
        for (size_t k = 0; k < found.of[i].count; k++)
            free(found.of[i].texts[k]);
        free(found.of[i].texts);
    }
    free(found.ranks);
    return STREAM_END;
}

static int open_fields(struct view *v, const char *task, struct stream **out)
{
    struct log_fields_stream *f = arena_alloc(&v->rq->arena, sizeof *f);
    f->stream.fill = fill_fields;
    f->task_id = task;
    *out = &f->stream;
    return 0;
}

int stream_trial_log_fields(struct view *v, struct stream **out, struct error *e)
{
    int64_t trial;
    const char *task;
    int rc = find_task_of_trial(v, &trial, &task, e);
    return rc ? rc : open_fields(v, task, out);
}

int stream_task_log_fields(struct view *v, struct stream **out, struct error *e)
{
    (void)e;
    char first[TASK_ID];
    const char *task = task_id_first(v->rq->params[0], first);
    return open_fields(v, arena_strdup(&v->rq->arena, task), out);
}
