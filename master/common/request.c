#include "master/common/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/limits.h"
#include "base/log.h"

bool request_number(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-');
    size_t count = strspn(digits, "0123456789");
    if (!count || digits[count])
        return false;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return !errno;
}

static int parse_int(const char *what, const char *name, const char *text, int64_t *out,
                     struct error *e)
{
    if (request_number(text, out))
        return 0;
    return error_set(e, ERR_INVALID, "%s%s: \"%.64s\" is not an integer of 64 bits", what, name,
                     text);
}

int request_param_int(struct request *rq, int index, int64_t *out, struct error *e)
{
    const char *text = rq->params[index];
    return parse_int("the path", "", text ? text : "", out, e);
}

int request_query_int(struct request *rq, const char *name, int64_t fallback, int64_t *out,
                      struct error *e)
{
    const char *text = rq->query(rq, name);
    *out = fallback;
    if (!text || !*text)
        return 0;
    return parse_int("query parameter ", name, text, out, e);
}

int request_query_order(struct request *rq, bool *down, struct error *e)
{
    const char *text = rq->query(rq, "orderBy");
    *down = text && !strcmp(text, "ORDER_BY_DESC");
    if (*down || !text || !*text || !strcmp(text, "ORDER_BY_ASC") ||
        !strcmp(text, "ORDER_BY_UNSPECIFIED"))
        return 0;
    return error_set(e, ERR_INVALID,
                     "query parameter orderBy: \"%.64s\" is neither ORDER_BY_ASC nor ORDER_BY_DESC",
                     text);
}

void request_fail(struct request *rq, const struct error *e)
{
    struct json_writer w;
    int code = e->code ? e->code : ERR_INTERNAL;
    rq->status = err_http_status(code);
    buf_reset(&rq->answer);
    jw_init(&w, &rq->answer);
    wire_write_error(&w, code, e->text);
}

void request_write_warning(const struct request *rq, struct json_writer *w)
{
    jw_kv_raw(w, "warnings", rq->warning ? "[\"LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED\"]" : "[]");
    jw_key(w, "warningTexts");
    jw_array(w);
    if (rq->warning)
        jw_string(w, rq->warning);
    for (size_t i = 0; i < sizeof rq->notes / sizeof *rq->notes; i++)
        if (rq->notes[i])
            jw_string(w, rq->notes[i]);
    jw_array_end(w);
}

// --- results -------------------------------------------------------------------------------------

struct json_copy {
    json_t *value;
    struct json_copy *next;
};

const json_t *request_copy_json(struct request *rq, const json_t *value)
{
    if (!value)
        return NULL;
    struct json_copy *copy = arena_alloc(&rq->arena, sizeof *copy);
    *copy = (struct json_copy){json_deep_copy(value), rq->json_copies};
    must(copy->value);
    rq->json_copies = copy;
    return copy->value;
}

void request_release(struct request *rq)
{
    for (struct json_copy *copy = rq->json_copies; copy; copy = copy->next)
        json_decref(copy->value);
    rq->json_copies = NULL;
    rq->result = NULL;
}

void request_answer_fields(struct request *rq, const struct answer_field *fields)
{
    size_t count = 0;
    while (fields[count].key)
        count++;
    struct answer_field *copy = arena_alloc(&rq->arena, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        copy[i] = fields[i];
        if (copy[i].type == FIELD_STRING || copy[i].type == FIELD_RAW)
            copy[i].text = arena_strdup(&rq->arena, copy[i].text);
        if (copy[i].type == FIELD_JSON)
            copy[i].json = request_copy_json(rq, copy[i].json);
    }
    rq->result = copy;
}

// A struct needs less memory than its JSON.
int request_check_result(const struct request *rq, struct error *e)
{
    if (rq->arena.used <= LIMIT_RESPONSE)
        return 0;
    return error_set(e, ERR_TOO_LARGE, "the answer is larger than %d MB; ask for less with limit=",
                     LIMIT_RESPONSE >> 20);
}
