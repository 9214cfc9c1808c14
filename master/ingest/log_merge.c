// Small chunks at the end of a log become few. A program that prints a line now and then leaves a
// row for each; a reader of its log would look at each of them.
//
// Chunks are taken from the newest back, in groups of what one chunk should hold, while the next
// one is at most twice as large as all those before: so a line is written anew a few times only,
// however slowly a log grows. The rows of a group become the last of them, in one batch. Nothing
// else writes to a row that is there, and what deletes begins with the oldest, so a row that is
// gone meanwhile does not come back. A worker sees what is committed: the next merging of a log
// waits for the commit of the one before.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "db/logs/logs.h"
#include "master/ingest/logs.h"
#include "master/kernel/loop.h"
#include "master/kernel/workers.h"

enum { LOOK_BACK = 512, GROUPS_MAX = 32 };

struct group {           // chunks that become one
    int64_t first, last; // lines
    int64_t first_end;   // last line of the first chunk
    int64_t bytes;
    int count;
    struct log_packed packed; // no lines: left as they are
};

struct merge {
    struct work work;
    char *task;
    int64_t trial;
    struct group groups[GROUPS_MAX]; // the newest first
    int group_count;
    struct error e;
};

// --- on a worker ---------------------------------------------------------------------------------

static void take_chunk(struct group *g, int64_t last, int64_t lines, int64_t bytes)
{
    if (!g->count++)
        g->last = last;
    g->first_end = last;
    g->first = last - lines + 1;
    g->bytes += bytes;
}

static void choose(struct merge *m, struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, LOG_CHUNK_SIZES, m->task, LOOK_BACK);
    struct group *g = NULL;
    int64_t all = 0;
    while (db_next(rows) == 1) {
        int64_t last = DB_GET(rows, LOG_CHUNK_SIZES, last_id),
                lines = DB_GET(rows, LOG_CHUNK_SIZES, lines),
                bytes = DB_GET(rows, LOG_CHUNK_SIZES, bytes);
        if (bytes >= LOG_CHUNK_SMALL || (g && bytes > 2 * all))
            break;
        bool fits =
            g && g->bytes + bytes <= LOG_MERGED_MOST && g->last - last + lines <= LOG_CHUNK_LINES;
        if (!fits && m->group_count == GROUPS_MAX)
            break;
        if (!fits)
            g = &m->groups[m->group_count++];
        take_chunk(g, last, lines, bytes);
        all += bytes;
    }
    db_rows_close(rows);
}

static int gather(struct merge *m, const struct group *g, struct db_reader *db,
                  struct log_packer *p)
{
    struct log_reader log;
    const struct log_line *line;
    const struct log_origin *from;
    int64_t id = 0;
    int step = LOG_ON;
    log_reader_init(&log, m->task, false, &log_wanted_all);
    log.place = g->first - 1;
    while (step > 0 && id < g->last) {
        step = log_reader_next(&log, db, &line, &from, &id, &m->e);
        if (step == LOG_LINE && !log_packer_add(p, from, line->time, line->text, line->len))
            step = LOG_NONE; // it has too many origins: it stays
    }
    log_reader_free(&log);
    return step < 0 ? step : 0;
}

static void merge_run(struct work *w, struct db_reader *db)
{
    struct merge *m = (struct merge *)w;
    choose(m, db);
    for (int i = 0; i < m->group_count; i++) {
        struct group *g = &m->groups[i];
        struct log_packer p = {0};
        if (g->count > 1 && !gather(m, g, db, &p) && p.count == g->last - g->first + 1)
            log_packer_pack(&p, &g->packed);
        log_packer_free(&p);
    }
}

// --- on the core thread --------------------------------------------------------------------------

static void merge_drop(struct work *w)
{
    struct merge *m = (struct merge *)w;
    for (int i = 0; i < m->group_count; i++)
        log_packed_free(&m->groups[i].packed);
    free(m->task);
    free(m);
}

static void store_group(struct core *c, struct log_task *t, const struct group *g)
{
    const struct log_packed *p = &g->packed;
    if (!p->lines)
        return;
    STORE(c, LOG_CHUNK_MERGE, p->lines, p->bytes, p->first_time, p->last_time,
          DB_BLOB(p->origins, p->origins_len), DB_BLOB(p->data, p->data_len), t->id, g->last);
    STORE(c, LOG_CHUNKS_DELETE_MERGED, t->id, g->first_end, g->last);
    if (p->bytes < LOG_CHUNK_SMALL) {
        t->tail++;
        t->tail_bytes += p->bytes;
    }
}

static void merge_done(struct core *c, struct work *w)
{
    struct merge *m = (struct merge *)w;
    struct log_task *t = id_map_find(&c->logs->tasks, m->trial);
    char quoted[ERROR_TEXT_MAX];
    must(t);
    t->merging = false;
    t->merged = c->submitted + 1; // this turn's
    if (m->e.code)
        log_error("log lines cannot be merged", "task=%s err=%s", m->task,
                  log_quote(quoted, sizeof quoted, m->e.text));
    for (int i = 0; i < m->group_count; i++)
        store_group(c, t, &m->groups[i]);
    merge_drop(w);
}

void logs_merge(struct core *c, struct log_task *t)
{
    if (t->merging || atomic_load(&c->committed) < t->merged)
        return;
    struct merge *m = xcalloc(1, sizeof *m);
    m->work = (struct work){.run = merge_run, .done = merge_done, .drop = merge_drop};
    m->task = xstrdup(t->id);
    m->trial = t->trial;
    if (workers_send(c->workers, &m->work, WORK_SLOW, NULL)) {
        merge_drop(&m->work); // later
        return;
    }
    t->merging = true;
    t->tail = 0;
    t->tail_bytes = 0;
}
