// Small chunks at the end of a log become one. A program that prints a line now and then leaves a
// row for each; a reader of its log would look at each of them.
//
// Chunks are taken from the newest back while the next one is at most twice as large as those
// gathered so far: so a line is written anew a few times only, however slowly a log grows. The rows
// become the last of them, in one batch. Nothing else writes to a row that is there, and what
// deletes begins with the oldest, so a row that is gone meanwhile does not come back.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "db/logs.h"
#include "master/core/logs.h"
#include "master/core/loop.h"
#include "master/core/workers.h"

enum {
    LOOK_BACK = 512,                       // chunks
    MERGED_MOST = LOG_CHUNK_BYTES / 4 * 3, // bytes: numbers of origins may take more room
};

struct merge {
    struct work work;
    char *task;
    int64_t trial;
    int64_t first, last; // lines that are in `packed`
    int64_t first_end;   // last line of the first chunk of them
    int count;
    struct log_packed packed;
    struct error e;
};

// --- on a worker ---------------------------------------------------------------------------------

static void choose(struct merge *m, struct db_reader *db)
{
    struct db_rows *rows = db_query(db, STMT_LOG_CHUNK_SIZES, "si", m->task, (int64_t)LOOK_BACK);
    int64_t bytes = 0, lines = 0;
    while (db_next(rows) == 1) {
        int64_t last = db_int(rows, 0), more = db_int(rows, 1), size = db_int(rows, 2);
        bool fits = bytes + size <= MERGED_MOST && lines + more <= LOG_CHUNK_LINES;
        if (!fits || (m->count && size > 2 * bytes))
            break;
        if (!m->count++)
            m->last = last;
        m->first_end = last;
        m->first = last - more + 1;
        bytes += size;
        lines += more;
    }
    db_rows_close(rows);
}

static int gather(struct merge *m, struct db_reader *db, struct log_packer *p)
{
    struct log_reader log;
    const struct log_line *line;
    const struct log_origin *from;
    int64_t id = 0;
    int step = LOG_ON;
    log_reader_init(&log, m->task, false, &log_wanted_all);
    log.place = m->first - 1;
    while (step > 0 && id < m->last) {
        step = log_reader_next(&log, db, &line, &from, &id, &m->e);
        if (step == LOG_LINE && !log_packer_add(p, from, line->time, line->text, line->len))
            step = error_set(&m->e, ERR_TOO_LARGE, "too many origins");
    }
    log_reader_free(&log);
    return step < 0 ? step : 0;
}

static void merge_run(struct work *w, struct db_reader *db)
{
    struct merge *m = (struct merge *)w;
    struct log_packer p = {0};
    choose(m, db);
    if (m->count > 1 && !gather(m, db, &p) && p.count == m->last - m->first + 1)
        log_packer_pack(&p, &m->packed);
    log_packer_free(&p);
}

// --- on the core thread --------------------------------------------------------------------------

static void merge_drop(struct work *w)
{
    struct merge *m = (struct merge *)w;
    log_packed_free(&m->packed);
    free(m->task);
    free(m);
}

static void merge_done(struct core *c, struct work *w)
{
    struct merge *m = (struct merge *)w;
    struct log_task *t = by_id_find(&c->logs->tasks, m->trial);
    const struct log_packed *p = &m->packed;
    char quoted[ERROR_TEXT_MAX];
    must(t);
    t->merging = false;
    if (m->e.code && m->e.code != ERR_TOO_LARGE)
        log_error("log lines cannot be merged", "task=%s err=%s", m->task,
                  log_quote(quoted, sizeof quoted, m->e.text));
    if (p->lines) {
        STORE(c, LOG_CHUNK_MERGE, "iiiibbsi", p->lines, p->bytes, p->first_time, p->last_time,
              p->origins, p->origins_len, p->data, p->data_len, m->task, m->last);
        STORE(c, LOG_CHUNKS_DELETE_MERGED, "sii", m->task, m->first_end, m->last);
        bool small = p->bytes < LOG_CHUNK_SMALL;
        t->tail += small;
        t->tail_bytes += small ? p->bytes : 0;
    }
    merge_drop(w);
}

void logs_merge(struct core *c, struct log_task *t)
{
    if (t->merging)
        return;
    struct merge *m = xcalloc(1, sizeof *m);
    m->work = (struct work){.run = merge_run, .done = merge_done, .drop = merge_drop};
    m->task = xstrdup(t->id);
    m->trial = t->trial;
    if (workers_send(c->workers, &m->work, true, NULL)) {
        merge_drop(&m->work); // later
        return;
    }
    t->merging = true;
    t->tail = 0;
    t->tail_bytes = 0;
}
