#include "master/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"

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
