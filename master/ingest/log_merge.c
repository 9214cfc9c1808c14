// Merges small chunks at the end of a log. A program that prints a line now and then leaves one row
// for each line, and a reader of the log has to read all of them.
//
// Chunks are taken from the newest backwards, in groups that fit into one chunk, while the next
// chunk is at most twice as large as all newer ones together: so each line is rewritten only a few
// times, however slowly a log grows. The rows of a group become its last row, in one batch. Nothing
// else writes to an existing row, and deletion starts with the oldest chunk, so a row that was
// deleted meanwhile does not come back. The worker reads committed rows: the next merge of a log
// waits for the commit of the one before.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "db/logs/logs.h"
#include "master/ingest/logs.h"
#include "master/kernel/loop.h"
#include "master/kernel/workers.h"

enum { CHUNKS_READ = 512, GROUPS_MAX = 32 };

struct chunk_group {     // chunks that become one
    int64_t first, last; // lines
    int64_t first_end;   // last line of the first chunk
    int64_t bytes;
    int count;
    struct log_packed packed; // without lines: the chunks stay as they are
};

struct log_merge_job {
    struct work work;
    char *task;
    int64_t trial;
    struct chunk_group groups[GROUPS_MAX]; // the newest first
    int group_count;
    struct error e;
};

// --- on a worker ---------------------------------------------------------------------------------

static void group_add_chunk(struct chunk_group *g, int64_t last, int64_t lines, int64_t bytes)
{
    if (!g->count++)
        g->last = last;
    g->first_end = last;
    g->first = last - lines + 1;
    g->bytes += bytes;
}

static void choose_groups(struct log_merge_job *m, struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, LOG_CHUNK_SIZES, m->task, CHUNKS_READ);
    struct chunk_group *g = NULL;
    int64_t all = 0;
    while (db_next(rows) == 1) {
        int64_t last = DB_GET(rows, LOG_CHUNK_SIZES, last_id),
                lines = DB_GET(rows, LOG_CHUNK_SIZES, lines),
                bytes = DB_GET(rows, LOG_CHUNK_SIZES, bytes);
        if (bytes >= LOG_CHUNK_SMALL || (g && bytes > 2 * all))
            break;
        bool fits = g && g->bytes + bytes <= LOG_MERGED_BYTES_MAX &&
                    g->last - last + lines <= LOG_CHUNK_LINES;
        if (!fits && m->group_count == GROUPS_MAX)
            break;
        if (!fits)
            g = &m->groups[m->group_count++];
        group_add_chunk(g, last, lines, bytes);
        all += bytes;
    }
    db_rows_close(rows);
}

static int pack_group(struct log_merge_job *m, const struct chunk_group *g, struct db_reader *db,
                      struct log_packer *p)
{
    struct log_reader log;
    const struct log_line *line;
    const struct log_origin *from;
    int64_t id = 0;
    int step = LOG_MORE;
    log_reader_init(&log, m->task, false, &log_query_all);
    log.position = g->first - 1;
    while (step > 0 && id < g->last) {
        step = log_reader_next(&log, db, &line, &from, &id, &m->e);
        if (step == LOG_LINE && !log_packer_add(p, from, line->time, line->text, line->len))
            step = LOG_NONE; // too many origins for one chunk: the group stays as it is
    }
    log_reader_free(&log);
    return step < 0 ? step : 0;
}

static void merge_job_run(struct work *w, struct db_reader *db)
{
    struct log_merge_job *m = (struct log_merge_job *)w;
    choose_groups(m, db);
    for (int i = 0; i < m->group_count; i++) {
        struct chunk_group *g = &m->groups[i];
        struct log_packer p = {0};
        if (g->count > 1 && !pack_group(m, g, db, &p) && p.count == g->last - g->first + 1)
            log_packer_pack(&p, &g->packed);
        log_packer_free(&p);
    }
}

// --- on the core thread --------------------------------------------------------------------------

static void merge_job_free(struct work *w)
{
    struct log_merge_job *m = (struct log_merge_job *)w;
    for (int i = 0; i < m->group_count; i++)
        log_packed_free(&m->groups[i].packed);
    free(m->task);
    free(m);
}

static void store_group(struct core *c, struct log_task *t, const struct chunk_group *g)
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

static void merge_job_done(struct core *c, struct work *w)
{
    struct log_merge_job *m = (struct log_merge_job *)w;
    struct log_task *t = id_map_find(&c->logs->tasks, m->trial);
    char quoted[ERROR_TEXT_MAX];
    must(t);
    t->merging = false;
    t->merged_in = c->submitted + 1; // the commit of this turn
    if (m->e.code)
        log_error("log lines cannot be merged", "task=%s err=%s", m->task,
                  log_quote(quoted, sizeof quoted, m->e.text));
    for (int i = 0; i < m->group_count; i++)
        store_group(c, t, &m->groups[i]);
    merge_job_free(w);
}

void log_merge_begin(struct core *c, struct log_task *t)
{
    if (t->merging || atomic_load(&c->committed) < t->merged_in)
        return;
    struct log_merge_job *m = xcalloc(1, sizeof *m);
    m->work = (struct work){.run = merge_job_run, .done = merge_job_done, .drop = merge_job_free};
    m->task = xstrdup(t->id);
    m->trial = t->trial;
    if (workers_send(c->workers, &m->work, WORK_SLOW, NULL)) {
        merge_job_free(&m->work); // a later chunk tries again
        return;
    }
    t->merging = true;
    t->tail = 0;
    t->tail_bytes = 0;
}
