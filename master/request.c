#include "master/request.h"

#include <errno.h>
#include <stdlib.h>

#include "api/wire.h"

static int parse_int(const char *what, const char *name, const char *text, int64_t *out,
                     struct error *e)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return error_set(e, ERR_INVALID, "%s%s: \"%.64s\" is not an integer", what, name, text);
    *out = value;
    return 0;
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
    if (rq->note)
        jw_string(w, rq->note);
    jw_array_end(w);
}
