// The progress of an experiment's search: its brackets, rungs, and the trials that reached them;
// and the history of best validations. The source is the state of the searcher that was stored
// last.
#include "master/search/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text/json.h"
#include "master/views/views.h"

// The searcher numbers its trials; all others know a trial by its id.
struct trial_number {
    int64_t number, id;
};

static int by_number(const void *a, const void *b)
{
    int64_t x = ((const struct trial_number *)a)->number,
            y = ((const struct trial_number *)b)->number;
    return (x > y) - (x < y);
}

static size_t read_trial_numbers(struct view *v, int64_t experiment, struct trial_number **out)
{
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_REQUESTS, experiment);
    struct trial_number *numbers = NULL;
    size_t count = 0, cap = 0;
    while (db_next(rows) == 1) {
        if (count == cap) {
            cap = cap ? 2 * cap : 64;
            numbers = xrealloc(numbers, cap * sizeof *numbers);
        }
        numbers[count++] =
            (struct trial_number){strtoll(DB_GET(rows, EXPERIMENT_REQUESTS, request_id), NULL, 10),
                                  DB_GET(rows, EXPERIMENT_REQUESTS, id)};
    }
    db_rows_close(rows);
    if (count)
        qsort(numbers, count, sizeof *numbers, by_number);
    *out = numbers;
    return count;
}

static void write_mark(struct json_writer *w, const json_t *mark,
                       const struct trial_number *numbers, size_t count)
{
    const struct trial_number wanted = {.number = jget_int(mark, "trial", 0)};
    const struct trial_number *found =
        count ? bsearch(&wanted, numbers, count, sizeof *numbers, by_number) : NULL;
    if (!found)
        return;
    jw_object(w);
    jw_kv_int(w, "trialId", found->id);
    if (jget(mark, "metric"))
        jw_kv_double(w, "metric", jget_double(mark, "metric", 0));
    jw_object_end(w);
}

static void write_rung(struct json_writer *w, const json_t *rung,
                       const struct trial_number *numbers, size_t count)
{
    size_t i;
    json_t *mark;
    jw_object(w);
    jw_kv_double(w, "time", jget_double(rung, "time", 0));
    jw_kv_int(w, "goOn", jget_int(rung, "goOn", 0));
    if (jget(rung, "size"))
        jw_kv_int(w, "size", jget_int(rung, "size", 0));
    jw_key(w, "marks");
    jw_array(w);
    json_array_foreach(jget(rung, "marks"), i, mark) write_mark(w, mark, numbers, count);
    jw_array_end(w);
    jw_object_end(w);
}

static void write_brackets(struct view *v, int64_t experiment, const json_t *brackets)
{
    struct json_writer *w = &v->w;
    struct trial_number *numbers;
    size_t count = read_trial_numbers(v, experiment, &numbers), i, r;
    json_t *bracket, *rung;
    jw_key(w, "brackets");
    jw_array(w);
    json_array_foreach((json_t *)brackets, i, bracket)
    {
        jw_object(w);
        jw_kv_int(w, "trials", jget_int(bracket, "trials", 0));
        jw_kv_int(w, "concurrent", jget_int(bracket, "concurrent", 0));
        jw_kv_int(w, "created", jget_int(bracket, "created", 0));
        jw_key(w, "rungs");
        jw_array(w);
        json_array_foreach(jget(bracket, "rungs"), r, rung) write_rung(w, rung, numbers, count);
        jw_array_end(w);
        jw_object_end(w);
    }
    jw_array_end(w);
    free(numbers);
}

static void write_method(struct json_writer *w, const json_t *config)
{
    const json_t *searcher = jget(config, "searcher");
    const char *time = search_time_metric(config);
    jw_kv_string(w, "method", jget_string(searcher, "name", ""));
    jw_kv_string(w, "metric", jget_string(searcher, "metric", ""));
    jw_kv_bool(w, "smallerIsBetter", jget_bool(searcher, "smaller_is_better", true));
    jw_kv_double(w, "divisor", jget_double(searcher, "divisor", 4));
    if (time)
        jw_kv_string(w, "timeMetric", time);
}

// The list is empty for an unmanaged experiment, and if this master does not know the search
// method.
static json_t *read_brackets(const json_t *config, int64_t seed, const char *saved)
{
    struct search *s = NULL;
    if (search_restore(config, seed, saved, &s, NULL))
        return json_array();
    json_t *brackets = search_rungs(s);
    search_free(s);
    return brackets;
}

int view_experiment_search(struct view *v, struct error *e)
{
    int64_t id;
    json_t *config = NULL, *brackets = NULL;
    int err = request_param_int(v->rq, 0, &id, e);
    if (err)
        return err;
    struct db_rows *rows = DB_QUERY(v->db, EXPERIMENT_SEARCH, id);
    int found = db_next(rows);
    if (found == 1)
        err = json_parse(DB_GET(rows, EXPERIMENT_SEARCH, config),
                         strlen(DB_GET(rows, EXPERIMENT_SEARCH, config)), "config", &config, e);
    else
        err = found < 0 ? store_failed(e) : error_not_found(e, "experiment", "%lld", (long long)id);
    if (!err)
        brackets = read_brackets(config, DB_GET(rows, EXPERIMENT_SEARCH, seed),
                                 DB_GET(rows, EXPERIMENT_SEARCH, searcher_state));
    db_rows_close(rows);
    if (!err) {
        jw_object(&v->w);
        write_method(&v->w, config);
        write_brackets(v, id, brackets);
        jw_object_end(&v->w);
    }
    json_decref(config);
    json_decref(brackets);
    return err;
}

// --- best validations ---

int view_validation_history(struct view *v, struct error *e)
{
    int64_t id;
    int more, rc = request_param_int(v->rq, 0, &id, e);
    if (rc)
        return rc;
    struct json_writer *w = &v->w;
    struct db_rows *rows = DB_QUERY(v->db, VALIDATION_HISTORY, id);
    jw_object(w);
    jw_key(w, "validationHistory");
    jw_array(w);
    while ((more = db_next(rows)) == 1) {
        jw_object(w);
        jw_kv_int(w, "trialId", DB_GET(rows, VALIDATION_HISTORY, trial_id));
        write_time(w, "endTime", DB_GET(rows, VALIDATION_HISTORY, time));
        jw_kv_double(w, "searcherMetric", DB_GET(rows, VALIDATION_HISTORY, value));
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
    db_rows_close(rows);
    return more < 0 ? store_failed(e) : 0;
}
