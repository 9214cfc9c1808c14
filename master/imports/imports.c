#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"
#include "master/imports/internal.h"
#include "master/imports/module.h"
#include "master/kernel/workers.h"

enum { RECORDS_MAX = 500 }; // so that other calls do not wait long for the core thread

// --- fields of a record --------------------------------------------------------------------------

const char *import_text(const json_t *record, const char *key)
{
    return jget_string(record, key, "");
}

int64_t import_time(const json_t *record, const char *key)
{
    int64_t time;
    return clock_parse(import_text(record, key), &time) ? 0 : time;
}

char *import_json(const json_t *record, const char *key, const char *fallback)
{
    const json_t *value = jget(record, key);
    return value ? json_text(value) : xstrdup(fallback);
}

void import_skip(struct import_result *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(&r->why, ERR_INVALID, fmt, args);
    va_end(args);
    r->outcome = IMPORT_SKIPPED;
}

// --- old ids and new ids -------------------------------------------------------------------------

bool import_row_exists(struct db_rows *rows)
{
    bool found = db_next(rows) == 1;
    db_rows_close(rows);
    return found;
}

struct imported import_find(struct import_call *m, const char *kind, const char *old)
{
    struct imported found = {0};
    struct db_rows *rows = DB_QUERY(m->c->reader, IMPORTED, m->id, kind, old);
    if (db_next(rows) == 1) {
        found.found = true;
        found.open = DB_GET(rows, IMPORTED, open);
        found.id = DB_GET(rows, IMPORTED, new_id);
        snprintf(found.digest, sizeof found.digest, "%s", DB_GET(rows, IMPORTED, digest));
    }
    db_rows_close(rows);
    return found;
}

bool import_reference(struct import_call *m, const json_t *record, const char *key,
                      const char *kind, struct import_result *r, int64_t *id)
{
    const char *old = import_text(record, key);
    struct imported found = import_find(m, kind, old);
    *id = found.id;
    if (!found.found)
        import_skip(r, "its %s %.64s was not imported", key, *old ? old : "(none)");
    return found.found;
}

void import_keep(struct import_call *m, const char *kind, const char *old, int64_t id, bool open,
                 const char *digest)
{
    STORE(m->c, IMPORTED_SET, m->id, kind, old, id, open, digest);
}

// --- POST /imports -------------------------------------------------------------------------------

static void raise_ids(struct core *c, int64_t last_experiment, int64_t last_trial)
{
    c->next_experiment = last_experiment + 1;
    c->next_trial = last_trial + 1;
    STORE(c, IMPORT_RESERVE_IDS, "experiments", last_experiment);
    STORE(c, IMPORT_RAISE_IDS, "experiments", last_experiment);
    STORE(c, IMPORT_RESERVE_IDS, "trials", last_trial);
    STORE(c, IMPORT_RAISE_IDS, "trials", last_trial);
}

// Ids are kept only on a master that has never given one: then none of them can be in use.
static void reserve_ids(struct core *c, int64_t *last_experiment, int64_t *last_trial)
{
    if (c->next_experiment > 1 || c->next_trial > 1) {
        *last_experiment = *last_trial = 0;
        return;
    }
    raise_ids(c, *last_experiment, *last_trial);
}

static int check_import(const struct core *c, const char *cluster, int64_t experiments,
                        int64_t trials, struct error *e)
{
    if (!*cluster || strlen(cluster) > LIMIT_NAME)
        return error_set(e, ERR_INVALID, "cluster: give the id of the cluster, 1 to %d bytes",
                         LIMIT_NAME);
    if (!strcmp(cluster, c->options.cluster_id))
        return error_set(e, ERR_INVALID, "cluster: %s is this master's own cluster", cluster);
    if (experiments < 0 || experiments > INT32_MAX || trials < 0 || trials > INT32_MAX)
        return error_set(e, ERR_INVALID, "lastExperiment, lastTrial: ids from 0 to %d", INT32_MAX);
    return 0;
}

static void begin_import(struct core *c, const char *cluster, int64_t experiments, int64_t trials)
{
    reserve_ids(c, &experiments, &trials);
    STORE(c, IMPORT_INSERT, cluster, experiments, trials, c->wall);
    log_info("import begun", "cluster=%s keeps_ids=%d", cluster, experiments > 0);
}

// A later import may bring newer objects than the first one. They keep their ids as long as this
// master has given none of its own.
static void extend_import(struct core *c, const char *cluster, int64_t experiments, int64_t trials,
                          int64_t last_experiment, int64_t last_trial)
{
    bool unused = last_experiment > 0 && c->next_experiment == last_experiment + 1 &&
                  c->next_trial == last_trial + 1;
    if (!unused || (experiments <= last_experiment && trials <= last_trial))
        return;
    experiments = experiments > last_experiment ? experiments : last_experiment;
    trials = trials > last_trial ? trials : last_trial;
    raise_ids(c, experiments, trials);
    STORE(c, IMPORT_EXTEND, experiments, trials, cluster);
}

int core_import_begin(struct core *c, struct request *rq, struct error *e)
{
    const char *cluster = import_text(rq->body, "cluster");
    int64_t experiments = jget_int(rq->body, "lastExperiment", 0),
            trials = jget_int(rq->body, "lastTrial", 0);
    int err = check_import(c, cluster, experiments, trials, e);
    if (err)
        return err;
    struct db_rows *rows = DB_QUERY(c->reader, IMPORT_BY_CLUSTER, cluster);
    if (db_next(rows) == 1)
        extend_import(c, cluster, experiments, trials,
                      DB_GET(rows, IMPORT_BY_CLUSTER, last_experiment),
                      DB_GET(rows, IMPORT_BY_CLUSTER, last_trial));
    else
        begin_import(c, cluster, experiments, trials);
    db_rows_close(rows);
    request_answer(rq, ANSWER_STRING("cluster", cluster));
    return 0;
}

// --- POST /imports/{id}/records ------------------------------------------------------------------

struct records_call {
    struct work work; // first
    struct request *rq;
    struct import_prepared *each;
    size_t count;
};

static void records_free(struct work *work)
{
    struct records_call *call = (struct records_call *)work;
    for (size_t i = 0; i < call->count; i++)
        free(call->each[i].files);
    free(call->each);
    free(call);
}

static void prepare_record(const json_t *record, struct import_prepared *out)
{
    char *text = json_text(record);
    const char *files = import_text(record, "files");
    sha256_hex(text, strlen(text), out->digest);
    free(text);
    if (!*files)
        return;
    if (base64_decode(files, strlen(files), &out->files, &out->files_len) || !out->files_len) {
        free(out->files);
        out->files = NULL;
    } else {
        sha256_hex(out->files, out->files_len, out->files_hash);
    }
}

// Decoding and hashing files takes long, so it runs on a worker.
static void records_prepare(struct work *work, struct db_reader *db)
{
    struct records_call *call = (struct records_call *)work;
    const json_t *records = jget(call->rq->body, "records");
    (void)db;
    for (size_t i = 0; i < call->count; i++)
        prepare_record(json_array_get(records, i), &call->each[i]);
}

static const struct {
    const char *kind;
    import_record *run;
} kinds[] = {
    {"user", import_user},
    {"workspace", import_workspace},
    {"project", import_project},
    {"experiment", import_experiment},
    {"trial", import_trial},
    {"checkpoint", import_checkpoint},
    {"metrics_begin", import_metrics_begin},
    {"metrics_end", import_metrics_end},
    {"model", import_model},
    {"model_version", import_model_version},
};

static const char *const outcome_words[] = {"NEW", "EXISTING", "CHANGED", "SKIPPED"};

static json_t *record_import(struct import_call *m, const json_t *record)
{
    struct import_result r = {0};
    const char *kind = import_text(record, "kind"), *old = import_text(record, "old");
    size_t i = 0;
    while (i < sizeof kinds / sizeof *kinds && strcmp(kinds[i].kind, kind))
        i++;
    if (i == sizeof kinds / sizeof *kinds)
        import_skip(&r, "there is no kind \"%.32s\"", kind);
    else if (!*old || strlen(old) > LIMIT_NAME)
        import_skip(&r, "old: its id in the other cluster is missing or too long");
    else
        kinds[i].run(m, record, &r);
    json_t *result =
        json_pack("{s:s, s:I}", "outcome", outcome_words[r.outcome], "id", (json_int_t)r.id);
    if (r.outcome == IMPORT_SKIPPED)
        json_object_set_new(result, "reason", json_string_cut(r.why.text));
    return result;
}

static int call_begin(struct core *c, struct request *rq, struct import_call *m, struct error *e)
{
    *m = (struct import_call){.c = c, .rq = rq};
    int err = request_param_int(rq, 0, &m->id, e);
    if (err)
        return err;
    struct db_rows *rows = DB_QUERY(c->reader, IMPORT_BY_ID, m->id);
    if (db_next(rows) == 1) {
        m->last_experiment = DB_GET(rows, IMPORT_BY_ID, last_experiment);
        m->last_trial = DB_GET(rows, IMPORT_BY_ID, last_trial);
    } else {
        err =
            error_set(e, ERR_NOT_FOUND, "import '%lld' not found; POST /api/v1/imports begins one",
                      (long long)m->id);
    }
    db_rows_close(rows);
    return err;
}

static void records_store(struct import_call *m, const struct records_call *call)
{
    const json_t *records = jget(call->rq->body, "records");
    json_t *results = json_array();
    for (size_t i = 0; i < call->count; i++) {
        m->prepared = &call->each[i];
        json_array_append_new(results, record_import(m, json_array_get(records, i)));
    }
    request_answer(call->rq, ANSWER_JSON("results", results));
    json_decref(results);
}

// An import call finds the objects of earlier calls in the store. While the batch of an earlier
// call is not committed, the master refuses the call, and the client sends it again.
static int check_committed(const struct core *c, struct error *e)
{
    return c->imported_in > atomic_load(&c->committed)
               ? error_set(e, ERR_UNAVAILABLE,
                           "another call of an import is being stored; try again in a moment")
               : 0;
}

static void set_imported(struct core *c)
{
    if (c->batch && !db_batch_empty(c->batch))
        c->imported_in = c->submitted + 1;
}

static void records_ready(struct core *c, struct work *work)
{
    struct records_call *call = (struct records_call *)work;
    struct import_call m;
    struct error e;
    int err = call_begin(c, call->rq, &m, &e);
    if (!err)
        err = check_committed(c, &e);
    if (err) {
        core_refuse(c, call->rq, &e);
    } else {
        records_store(&m, call);
        set_imported(c);
        core_complete(c, call->rq);
    }
    records_free(work);
}

int core_import_records(struct core *c, struct request *rq, struct error *e)
{
    struct import_call m;
    const json_t *records = jget(rq->body, "records");
    int err = call_begin(c, rq, &m, e);
    if (!err && (!json_is_array(records) || json_array_size(records) > RECORDS_MAX))
        err = error_set(e, ERR_INVALID, "records: not a list of up to %d records", RECORDS_MAX);
    if (err)
        return err;
    struct records_call *call = xcalloc(1, sizeof *call);
    call->work = (struct work){.run = records_prepare, .done = records_ready, .drop = records_free};
    call->rq = rq;
    call->count = json_array_size(records);
    call->each = xcalloc(call->count + 1, sizeof *call->each);
    err = workers_send(c->workers, &call->work, WORK_SLOW, e);
    if (err)
        records_free(&call->work);
    return err ? err : REQUEST_PARKED;
}

int core_import_metrics(struct core *c, struct request *rq, struct error *e)
{
    struct import_call m;
    int err = call_begin(c, rq, &m, e);
    err = err ? err : check_committed(c, e);
    err = err ? err : import_metrics_store(&m, e);
    if (!err)
        set_imported(c);
    return err;
}
