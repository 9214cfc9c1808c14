#include "master/common/task_id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"

enum {
    NUMBER_DIGITS = 12, // the last group of a UUID
    NUMBER_MAX_DIGITS = 18,
};

void task_id_make(char out[TASK_ID], const char *cluster, int64_t experiment, int64_t trial)
{
    char name[160], h[SHA256_HEX];
    int len = snprintf(name, sizeof name, "%.100s %lld %lld", cluster, (long long)experiment,
                       (long long)trial);
    must(trial > 0 && trial < INT64_C(1000000000000)); // NUMBER_DIGITS
    sha256_hex(name, (size_t)len, h);
    int variant = h[16] % 4; // the two free bits beside the variant of RFC 9562
    snprintf(out, TASK_ID, "%lld.%.8s-%.4s-8%.3s-%c%.3s-%0*lld", (long long)experiment, h, h + 8,
             h + 12, "89ab"[variant], h + 17, NUMBER_DIGITS, (long long)trial);
}

// Reads a number without a sign and without leading zeros. NULL: there is none.
static const char *read_number(const char *text, int64_t *out)
{
    size_t digits = strspn(text, "0123456789");
    if (!digits || digits > NUMBER_MAX_DIGITS || *text == '0')
        return NULL;
    *out = strtoll(text, NULL, 10);
    return text + digits;
}

// Reads a UUID of version 8 that ends with a number. NULL: there is none.
static const char *read_uuid(const char *text, int64_t *number)
{
    static const char form[] = "hhhhhhhh-hhhh-8hhh-hhhh-dddddddddddd";
    size_t i = 0;
    for (; form[i]; i++) {
        const char *any = form[i] == 'h' ? "0123456789abcdef" : "0123456789";
        bool fits =
            form[i] == 'h' || form[i] == 'd' ? text[i] && strchr(any, text[i]) : text[i] == form[i];
        if (!fits)
            return NULL;
    }
    *number = strtoll(text + i - NUMBER_DIGITS, NULL, 10);
    return text + i;
}

bool task_id_read(const char *text, struct task_id *out)
{
    *out = (struct task_id){0};
    const char *at = read_number(text, &out->experiment);
    if (!at || *at++ != '.')
        return false;
    const char *end = read_uuid(at, &out->trial);
    out->is_short = !end;
    if (!end)
        end = read_number(at, &out->trial);
    if (end && *end == '-')
        end = read_number(end + 1, &out->number);
    if (end && *end == '.')
        end = read_number(end + 1, &out->epoch);
    return end && !*end;
}

bool task_id_names(const char *text, const char *id)
{
    struct task_id given, own;
    if (!strcmp(text, id))
        return true;
    return task_id_read(text, &given) && given.is_short && !given.epoch && task_id_read(id, &own) &&
           given.experiment == own.experiment && given.trial == own.trial &&
           given.number == own.number;
}

int64_t task_id_number(const char *text)
{
    struct task_id id;
    return task_id_read(text, &id) ? id.number : 0;
}

const char *task_id_first(const char *text, char out[TASK_ID])
{
    struct task_id id;
    if (!task_id_read(text, &id) || !id.number || id.epoch)
        return text;
    snprintf(out, TASK_ID, "%.*s", (int)(strrchr(text, '-') - text), text);
    return out;
}

const char *task_id_resolve(struct db_reader *db, struct arena *arena, const char *text)
{
    struct task_id id;
    if (!task_id_read(text, &id) || !id.is_short || id.epoch)
        return text;
    struct db_rows *rows = DB_QUERY(db, TASK_OF_SHORT_ID, id.experiment, id.trial);
    if (db_next(rows) == 1)
        text = id.number ? arena_printf(arena, "%s-%lld", DB_GET(rows, TASK_OF_SHORT_ID, task_id),
                                        (long long)id.number)
                         : arena_strdup(arena, DB_GET(rows, TASK_OF_SHORT_ID, task_id));
    db_rows_close(rows);
    return text;
}

const char *allocation_id_resolve(struct db_reader *db, struct arena *arena, const char *text)
{
    struct task_id id;
    if (!task_id_read(text, &id) || !id.is_short || !id.epoch)
        return text;
    struct db_rows *rows = DB_QUERY(db, ALLOCATION_OF_SHORT_ID, id.experiment, id.trial, id.epoch);
    if (db_next(rows) == 1)
        text = arena_strdup(arena, DB_GET(rows, ALLOCATION_OF_SHORT_ID, id));
    db_rows_close(rows);
    return text;
}
