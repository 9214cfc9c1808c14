#include "db/metrics/series_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

static const int64_t EXACT_INTEGER_MAX = INT64_C(1)
                                         << 53; // doubles represent all integers up to here

bool series_number(const json_t *value, uint8_t *kind, double *out)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    if (json_is_real(value)) {
        *kind = SERIES_REAL;
        *out = json_real_value(value);
        return true;
    }
    if (json_is_integer(value)) {
        *kind = SERIES_INTEGER;
        *out = (double)json_integer_value(value);
        return json_integer_value(value) <= EXACT_INTEGER_MAX &&
               json_integer_value(value) >= -EXACT_INTEGER_MAX;
    }
    const char *text = json_string_value(value);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i].word)) {
            *kind = SERIES_REAL;
            *out = words[i].value;
            return true;
        }
    return false;
}

static void column_set_text(struct arena *a, struct series_column *c, const json_t *value)
{
    char *text = json_text(value);
    c->kinds[0] = SERIES_JSON;
    c->texts = arena_alloc(a, sizeof *c->texts);
    c->texts[0] = arena_strdup(a, text);
    free(text);
}

int series_check_name(const char *name, struct error *e)
{
    if (*name && (unsigned char)*name < ' ')
        return error_set(e, ERR_INVALID, "a metric's name begins with a control character (%d)",
                         *name);
    if (strlen(name) > LIMIT_METRIC_NAME)
        return error_set(e, ERR_TOO_LARGE, "the metric %.32s..: its name has more than %d bytes",
                         name, LIMIT_METRIC_NAME);
    return 0;
}

int series_from_json(struct arena *a, const json_t *values, const json_t *batches,
                     struct series_block *out, struct error *e)
{
    const char *name;
    json_t *value;
    size_t room = json_object_size(values) + 1, n = 0;
    uint8_t *kinds = arena_alloc(a, room);
    double *numbers = arena_alloc(a, room * sizeof *numbers);
    struct series_column *columns = arena_alloc(a, room * sizeof *columns);
    json_object_foreach((json_t *)values, name, value)
    {
        int err = series_check_name(name, e);
        if (err)
            return err;
        columns[n] = (struct series_column){
            .name = arena_strdup(a, name), .end = 1, .kinds = kinds + n, .values = numbers + n};
        if (!series_number(value, &kinds[n], &numbers[n]))
            column_set_text(a, &columns[n], value);
        n++;
    }
    if (batches && !json_is_null(batches)) {
        columns[n] = (struct series_column){
            .name = SERIES_BATCHES, .end = 1, .kinds = kinds + n, .values = numbers + n};
        column_set_text(a, &columns[n++], batches);
    }
    *out = (struct series_block){.count = 1, .column_count = n, .columns = columns};
    out->ids = arena_alloc(a, sizeof *out->ids);
    out->runs = arena_alloc(a, sizeof *out->runs);
    out->steps = arena_alloc(a, sizeof *out->steps);
    out->times = arena_alloc(a, sizeof *out->times);
    return 0;
}

// Writes whole reals with a point, as they arrived: 3.0 is not an integer.
static void write_real(struct json_writer *w, double v)
{
    char text[32];
    if (!(fabs(v) < 1e15 && v == floor(v)))
        return jw_double(w, v);
    snprintf(text, sizeof text, "%.1f", v);
    jw_raw(w, text);
}

static void write_value(struct json_writer *w, const struct series_column *c, size_t at)
{
    enum series_kind kind = series_kind_at(c, at);
    jw_key(w, c->name);
    if (kind == SERIES_JSON)
        jw_raw(w, c->texts[at - c->first]);
    else if (kind == SERIES_INTEGER)
        jw_int(w, (int64_t)c->values[at - c->first]);
    else
        write_real(w, c->values[at - c->first]);
}

void series_write_values(struct json_writer *w, const struct series_block *b, size_t at)
{
    jw_object(w);
    for (size_t i = 0; i < b->column_count; i++)
        if (series_kind_at(&b->columns[i], at) != SERIES_ABSENT &&
            strcmp(b->columns[i].name, SERIES_BATCHES))
            write_value(w, &b->columns[i], at);
    jw_object_end(w);
}

const char *series_batches(const struct series_block *b, size_t at)
{
    for (size_t i = 0; i < b->column_count; i++) {
        const struct series_column *c = &b->columns[i];
        if (series_kind_at(c, at) == SERIES_JSON && !strcmp(c->name, SERIES_BATCHES))
            return c->texts[at - c->first];
    }
    return NULL;
}
