#include "cli/import/importer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "cli/import/id_table.h"
#include "cli/output/output.h"

enum {
    RECORDS_MAX = 200,      // records of a call
    RECORD_BYTES = 4 << 20, // about the bytes of their files
    COLUMN_STEPS = 4096,    // reports of one column
    COLUMN_VALUES = 40000,  // values of all columns of a group, with their steps and times
    VALUES_MAX = 60000,     // values of a call, with their steps and times
    POSTS_MAX = 500,        // posts of a call
    BUFFERED_MAX = 600000,  // values that wait for more of their trial
    REASONS_SHOWN = 20,
    NAMES_SHOWN = 10,
    RETRY_S = 600, // how long the master may be away
};

static const char *const kinds[] = {"user",       "workspace",     "project",
                                    "experiment", "trial",         "checkpoint",
                                    "model",      "model_version", "metrics of trials"};
static const char *const labels[] = {"users",       "workspaces",     "projects",
                                     "experiments", "trials",         "checkpoints",
                                     "models",      "model versions", "metrics of trials"};
static const char *const outcomes[] = {"NEW", "CHANGED", "EXISTING", "SKIPPED"};
enum { KINDS = sizeof kinds / sizeof *kinds, OUTCOMES = 4, SKIPPED = 3 };

struct series_buffer { // reports of one group of a trial that were not sent yet
    struct series_buffer *next;
    char *group;
    int64_t last_steps;
    size_t values;
    json_t *steps, *times, *metrics;
};

struct metrics_state { // of a trial whose metrics have begun
    struct series_buffer *buffers;
    bool wanted;
};

struct importer {
    struct cli *c;
    long long id;
    int64_t last_kept; // the greatest id of an experiment that is kept; 0: none
    json_t *records;   // not sent yet, of one kind
    size_t record_bytes;
    json_t *posts;       // of metrics, not sent yet
    char run[UUID_TEXT]; // names the calls with metrics, together with their number
    long long post_calls;
    size_t post_values, buffered;
    struct id_table trials; // of struct metrics_state
    long long counts[KINDS][OUTCOMES];
    long long reports;
    json_t *reasons;     // of skipped objects
    json_t *notes;       // {text: count}; a text begins with a noun in the plural
    json_t *remarks;     // about single objects
    json_t *no_password; // names of new users who cannot sign in
};

// --- calls ---------------------------------------------------------------------------------------

// Every call of an import may be repeated, so the master may restart in the meantime.
static int post(struct importer *m, const char *path, const json_t *body, json_t **answer,
                struct error *e)
{
    int64_t deadline = clock_mono_us() + RETRY_S * 1000000LL;
    return client_call_retry(m->c->client, "POST", path, body, deadline, answer, e);
}

static int begin(struct importer *m, const char *cluster, int64_t last_experiment,
                 int64_t last_trial, struct error *e)
{
    json_t *answer = NULL;
    json_t *body = json_pack("{s:s, s:I, s:I}", "cluster", cluster, "lastExperiment",
                             (json_int_t)last_experiment, "lastTrial", (json_int_t)last_trial);
    int err = post(m, "/api/v1/imports", body, &answer, e);
    if (err == ERR_FORBIDDEN)
        err =
            error_set(e, err, "only administrators may import; sign in as one: muster login admin");
    m->id = jget_int(jget(answer, "import"), "id", 0);
    m->last_kept = jget_int(jget(answer, "import"), "lastExperiment", 0);
    json_decref(answer);
    json_decref(body);
    return err;
}

int importer_open(struct cli *c, const char *cluster, int64_t last_experiment, int64_t last_trial,
                  struct importer **out, struct error *e)
{
    struct importer *m = xcalloc(1, sizeof *m);
    *m = (struct importer){.c = c,
                           .records = json_array(),
                           .posts = json_array(),
                           .reasons = json_array(),
                           .notes = json_object(),
                           .remarks = json_array(),
                           .no_password = json_array()};
    uuid_make(m->run);
    int err = begin(m, cluster, last_experiment, last_trial, e);
    if (err)
        importer_close(m);
    else
        *out = m;
    return err;
}

static void buffer_clear(struct series_buffer *b)
{
    json_decref(b->steps);
    json_decref(b->times);
    json_decref(b->metrics);
    b->steps = b->times = b->metrics = NULL;
    b->values = 0;
}

static void free_state(void *value)
{
    struct metrics_state *s = value;
    while (s->buffers) {
        struct series_buffer *b = s->buffers;
        s->buffers = b->next;
        buffer_clear(b);
        free(b->group);
        free(b);
    }
    free(s);
}

void importer_close(struct importer *m)
{
    if (!m)
        return;
    id_table_free(&m->trials, free_state);
    json_decref(m->records);
    json_decref(m->posts);
    json_decref(m->reasons);
    json_decref(m->notes);
    json_decref(m->remarks);
    json_decref(m->no_password);
    free(m);
}

bool importer_keeps_id(const struct importer *m, int64_t experiment)
{
    return experiment <= m->last_kept;
}

// A limit in the format may have cut a character.
static json_t *sentence_of(const char *fmt, va_list args)
{
    char text[512];
    vsnprintf(text, sizeof(text), fmt, args);
    return json_string_cut(text);
}

void importer_note(struct importer *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    json_t *sentence = sentence_of(fmt, args);
    va_end(args);
    const char *text = json_string_value(sentence);
    json_object_set_new(m->notes, text, json_integer(jget_int(m->notes, text, 0) + 1));
    json_decref(sentence);
}

void importer_remark(struct importer *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    json_array_append_new(m->remarks, sentence_of(fmt, args));
    va_end(args);
}

// --- records -------------------------------------------------------------------------------------

static const char *kind_of(const json_t *record)
{
    return jget_string(record, "kind", "");
}

static int kind_index(const char *kind)
{
    int at = 0;
    while (at < KINDS - 1 && strcmp(kinds[at], kind) != 0)
        at++;
    return at; // metrics_begin and metrics_end count as metrics
}

static void add_reason(struct importer *m, const char *kind, const char *old, const char *reason)
{
    json_array_append_new(m->reasons,
                          json_pack("{s:s, s:s, s:s}", "kind", kind, "id", old, "reason", reason));
}

static void note_result(struct importer *m, const json_t *record, const json_t *result)
{
    const char *kind = jget_string(record, "kind", ""), *old = jget_string(record, "old", "");
    const char *word = jget_string(result, "outcome", "SKIPPED");
    bool begins = strcmp(kind, "metrics_begin") == 0;
    int outcome = 0;
    while (outcome < SKIPPED && strcmp(outcomes[outcome], word) != 0)
        outcome++;
    if (outcome == SKIPPED)
        add_reason(m, begins ? "metrics" : kind, old, jget_string(result, "reason", ""));
    if (strcmp(kind, "user") == 0 && outcome == 0 && jget_bool(record, "active", false) &&
        !jget(record, "passwordHash"))
        json_array_append(m->no_password, jget(record, "username"));
    if (begins) {
        struct metrics_state *s = id_table_find(&m->trials, strtoll(old, NULL, 10));
        s->wanted = outcome == 0 || outcome == 1;
    }
    if (strcmp(kind, "metrics_end") != 0)
        m->counts[kind_index(kind)][outcome]++;
}

static int send_posts(struct importer *m, struct error *e)
{
    if (json_array_size(m->posts) == 0)
        return 0;
    char path[64], call[UUID_TEXT + 24];
    snprintf(path, sizeof(path), "/api/v1/imports/%lld/metrics", m->id);
    snprintf(call, sizeof(call), "%s.%lld", m->run, ++m->post_calls);
    json_t *body = json_pack("{s:O, s:s}", "posts", m->posts, "call", call);
    int err = post(m, path, body, NULL, e);
    json_decref(body);
    json_array_clear(m->posts);
    m->post_values = 0;
    return err;
}

// The end of a trial's metrics goes after their reports: if the import is killed between them, the
// next one sends the trial again.
static int send_records(struct importer *m, struct error *e)
{
    if (json_array_size(m->records) == 0)
        return 0;
    char path[64];
    json_t *answer = NULL, *record;
    size_t i;
    int err =
        strcmp(kind_of(json_array_get(m->records, 0)), "metrics_end") == 0 ? send_posts(m, e) : 0;
    snprintf(path, sizeof(path), "/api/v1/imports/%lld/records", m->id);
    json_t *body = json_pack("{s:O}", "records", m->records);
    err = err ? err : post(m, path, body, &answer, e);
    const json_t *results = jget(answer, "results");
    if (!err && json_array_size(results) != json_array_size(m->records))
        err = error_set(e, ERR_PEER, "the master did not answer for every record");
    if (!err) {
        json_array_foreach(m->records, i, record)
        {
            note_result(m, record, json_array_get(results, i));
        }
    }
    json_decref(answer);
    json_decref(body);
    json_array_clear(m->records);
    m->record_bytes = 0;
    return err;
}

int importer_add(struct importer *m, json_t *record, struct error *e)
{
    size_t bytes = strlen(jget_string(record, "files", ""));
    bool other = json_array_size(m->records) > 0 &&
                 strcmp(kind_of(json_array_get(m->records, 0)), kind_of(record)) != 0;
    int err = 0;
    if (other || json_array_size(m->records) >= RECORDS_MAX ||
        m->record_bytes + bytes > RECORD_BYTES)
        err = send_records(m, e);
    json_array_append_new(m->records, record);
    m->record_bytes += bytes;
    return err;
}

int importer_flush(struct importer *m, struct error *e)
{
    int err = send_records(m, e);
    return err ? err : send_posts(m, e);
}

// --- metrics -------------------------------------------------------------------------------------

static int add_post(struct importer *m, int64_t trial, json_t *post, size_t values, struct error *e)
{
    char old[24];
    snprintf(old, sizeof(old), "%lld", (long long)trial);
    json_object_set_new(post, "trial", json_string(old));
    json_array_append_new(m->posts, post);
    m->post_values += values;
    bool full = m->post_values > VALUES_MAX || json_array_size(m->posts) >= POSTS_MAX;
    return full ? send_posts(m, e) : 0;
}

static int buffer_send(struct importer *m, int64_t trial, struct series_buffer *b, struct error *e)
{
    const char *name;
    json_t *column;
    if (!b->steps)
        return 0;
    json_object_foreach(b->metrics, name, column)
    {
        while (json_array_size(column) < json_array_size(b->steps))
            json_array_append_new(column, json_null());
    }
    json_t *post = json_pack("{s:s, s:O, s:O, s:O}", "group", b->group, "steps", b->steps, "times",
                             b->times, "metrics", b->metrics);
    size_t values = b->values;
    m->buffered -= values;
    buffer_clear(b);
    return add_post(m, trial, post, values, e);
}

static struct series_buffer *buffer_of(struct metrics_state *s, const char *group)
{
    struct series_buffer *b = s->buffers;
    while (b && strcmp(b->group, group) != 0)
        b = b->next;
    if (!b) {
        b = xcalloc(1, sizeof(*b));
        b->group = xstrdup(group);
        b->next = s->buffers;
        s->buffers = b;
    }
    return b;
}

static void buffer_add(struct series_buffer *b, const struct import_report *r)
{
    const char *name;
    json_t *value, *column;
    if (!b->steps) {
        b->steps = json_array();
        b->times = json_array();
        b->metrics = json_object();
    }
    json_object_foreach((json_t *)r->values, name, value)
    {
        column = json_object_get(b->metrics, name);
        if (!column) {
            column = json_array();
            json_object_set_new(b->metrics, name, column);
        }
        while (json_array_size(column) < json_array_size(b->steps))
            json_array_append_new(column, json_null());
        json_array_append(column, value);
    }
    json_array_append_new(b->steps, json_integer(r->steps));
    json_array_append_new(b->times, json_string(r->time));
    b->last_steps = r->steps;
}

// Columns carry numbers of reports with a step; other reports are sent one by one.
static bool fits_columns(const struct import_report *r)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)r->values, name, value)
    {
        if (!json_is_number(value))
            return false;
    }
    return r->steps >= 0 && json_object_size(r->values) > 0;
}

static int add_single(struct importer *m, const struct import_report *r, struct error *e)
{
    json_t *inner = json_pack("{s:s, s:{s:O}}", "reportTime", r->time, "metrics", "avgMetrics",
                              (json_t *)r->values);
    if (r->steps >= 0)
        json_object_set_new(inner, "stepsCompleted", json_integer(r->steps));
    json_t *post = json_pack("{s:s, s:o}", "group", r->group, "metrics", inner);
    return add_post(m, r->trial, post, json_object_size(r->values) + 2, e);
}

static int send_buffers(struct importer *m, int64_t trial, struct metrics_state *s, struct error *e)
{
    int err = 0;
    for (struct series_buffer *b = s->buffers; b && !err; b = b->next)
        err = buffer_send(m, trial, b, e);
    return err;
}

static int send_all_buffers(struct importer *m, struct error *e)
{
    int err = 0;
    for (size_t i = 0; i < m->trials.size && !err; i++)
        if (m->trials.slots[i].value)
            err = send_buffers(m, m->trials.slots[i].id, m->trials.slots[i].value, e);
    return err;
}

int importer_add_report(struct importer *m, const struct import_report *r, struct error *e)
{
    struct metrics_state *s = id_table_find(&m->trials, r->trial);
    if (!s || !s->wanted || json_object_size(r->values) == 0)
        return 0;
    m->reports++;
    if (!fits_columns(r))
        return add_single(m, r, e);
    struct series_buffer *b = buffer_of(s, r->group);
    int err = 0;
    if (b->steps && (r->steps <= b->last_steps || json_array_size(b->steps) >= COLUMN_STEPS ||
                     b->values > COLUMN_VALUES))
        err = buffer_send(m, r->trial, b, e);
    size_t values = json_object_size(r->values) + 2;
    buffer_add(b, r);
    b->values += values;
    m->buffered += values;
    if (!err && m->buffered > BUFFERED_MAX)
        err = send_all_buffers(m, e);
    return err;
}

int importer_begin_metrics(struct importer *m, int64_t trial, const char *mark, struct error *e)
{
    char old[24];
    snprintf(old, sizeof(old), "%lld", (long long)trial);
    if (!id_table_find(&m->trials, trial))
        id_table_put(&m->trials, trial, xcalloc(1, sizeof(struct metrics_state)));
    return importer_add(
        m, json_pack("{s:s, s:s, s:s}", "kind", "metrics_begin", "old", old, "mark", mark), e);
}

bool importer_wants_metrics(const struct importer *m, int64_t trial)
{
    const struct metrics_state *s = id_table_find(&m->trials, trial);
    return s && s->wanted;
}

int importer_end_metrics(struct importer *m, int64_t trial, json_t *last, struct error *e)
{
    struct metrics_state *s = id_table_find(&m->trials, trial);
    int err = s ? send_buffers(m, trial, s, e) : 0;
    if (s)
        s->wanted = false;
    return err ? (json_decref(last), err) : importer_add(m, last, e);
}

// --- the summary ---------------------------------------------------------------------------------

void importer_skip(struct importer *m, const char *kind, const char *old, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    json_t *sentence = sentence_of(fmt, args);
    va_end(args);
    add_reason(m, kind, old, json_string_value(sentence));
    json_decref(sentence);
    m->counts[kind_index(kind)][SKIPPED]++;
}

static json_t *summary_rows(const struct importer *m)
{
    json_t *rows = json_array();
    for (int i = 0; i < KINDS; i++) {
        const long long *n = m->counts[i];
        const char *kind = m->c->format == OUTPUT_TABLE ? labels[i] : kinds[i];
        json_array_append_new(rows,
                              json_pack("{s:s, s:I, s:I, s:I, s:I}", "kind", kind, "new",
                                        (json_int_t)n[0], "changed", (json_int_t)n[1], "unchanged",
                                        (json_int_t)n[2], "skipped", (json_int_t)n[SKIPPED]));
    }
    return rows;
}

// "3 experiments had ..", "1 experiment had ..".
static void print_notes(const struct importer *m)
{
    const char *text;
    json_t *value;
    json_object_foreach(m->notes, text, value)
    {
        long long count = json_integer_value(value);
        size_t noun = strcspn(text, " ");
        printf("%lld %.*s%s\n", count, (int)noun - (count == 1), text, text + noun);
    }
}

// The names of users who cannot sign in: up to ten, then their number.
static void print_no_password(const struct importer *m)
{
    size_t count = json_array_size(m->no_password);
    if (count == 0)
        return;
    printf("%zu %s no password here: ", count, count == 1 ? "user has" : "users have");
    for (size_t i = 0; i < count && i < NAMES_SHOWN; i++)
        printf("%s%s", i ? ", " : "", json_string_value(json_array_get(m->no_password, i)));
    if (count > NAMES_SHOWN)
        printf(" and %zu more (-o json names all)", count - NAMES_SHOWN);
    printf(".\n  Set one for each: muster user change-password NAME. In Determined it was blank or "
           "came from single sign-on,\n  or a running master was read, which does not tell "
           "passwords.\n");
}

// Says that a list was cut. True: there is no room for line i.
static bool print_cut(const json_t *list, size_t i)
{
    if (i == REASONS_SHOWN)
        printf("... and %zu more (-o json shows all)\n", json_array_size(list) - i);
    return i >= REASONS_SHOWN;
}

static void print_remarks(const struct importer *m)
{
    json_t *value;
    size_t i;
    printf("\n%s\n", m->last_kept > 0
                         ? "Experiments and trials keep their ids."
                         : "This master had experiments of its own already, so imported "
                           "experiments and trials have new ids.");
    if (m->reports > 0)
        printf("%lld metric reports were imported.\n", m->reports);
    print_notes(m);
    print_no_password(m);
    json_array_foreach(m->remarks, i, value)
    {
        if (print_cut(m->remarks, i))
            break;
        printf("%s\n", json_string_value(value));
    }
    json_array_foreach(m->reasons, i, value)
    {
        if (print_cut(m->reasons, i))
            break;
        printf("skipped %s %s: %s\n", jget_string(value, "kind", ""), jget_string(value, "id", ""),
               jget_string(value, "reason", ""));
    }
}

int importer_print_summary(struct importer *m, struct error *e)
{
    static const char columns[] = "kind,new,changed,unchanged,skipped";
    json_t *rows = summary_rows(m);
    int err;
    if (m->c->format == OUTPUT_JSON) {
        json_t *all = json_pack("{s:b, s:O, s:I, s:O, s:O, s:O, s:O}", "keepsIds", m->last_kept > 0,
                                "objects", rows, "reports", (json_int_t)m->reports, "notes",
                                m->notes, "remarks", m->remarks, "withoutPassword", m->no_password,
                                "skipped", m->reasons);
        err = output_object(m->c, all, "objects", e);
        json_decref(all);
    } else {
        err = output_rows(m->c, rows, columns, e);
        if (!err && m->c->format == OUTPUT_TABLE && !m->c->options.quiet)
            print_remarks(m);
    }
    json_decref(rows);
    return err;
}
