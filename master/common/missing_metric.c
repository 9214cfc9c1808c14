#include "master/common/missing_metric.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text/json.h"

enum { NAMES_SHOWN = 8, NAME_SHOWN = 100 }; // names; bytes of a name

static const char *cut_name(const char *name, char out[NAME_SHOWN + 1])
{
    snprintf(out, NAME_SHOWN + 1, "%.*s", (int)json_utf8_fit(name, NAME_SHOWN), name);
    return out;
}

static bool names_contain(const char *const *names, const char *wanted)
{
    for (; *names; names++)
        if (!strcmp(*names, wanted))
            return true;
    return false;
}

static void names_write(const char *const *names, struct buf *out)
{
    char shown[NAME_SHOWN + 1];
    size_t count = 0;
    for (; names[count]; count++)
        if (count < NAMES_SHOWN)
            buf_printf(out, "%s%s", count ? ", " : "", cut_name(names[count], shown));
    if (count > NAMES_SHOWN)
        buf_printf(out, " and %zu more", count - NAMES_SHOWN);
}

static void validation_write(const char *metric, const struct reported_metrics *r, struct buf *out)
{
    const char *near = nearest_word(metric, r->validation);
    char shown[NAME_SHOWN + 1];
    buf_printf(out, "%s reported ", r->subject);
    names_write(r->validation, out);
    buf_printf(out, "; the searcher waits for %s: ", cut_name(metric, shown));
    if (near)
        buf_printf(out, "did you mean %s?", cut_name(near, shown));
    else
        buf_printf(out, "report it as a validation metric, or set searcher.metric to %s",
                   r->validation[1] ? "one of these" : cut_name(r->validation[0], shown));
}

char *missing_metric_warning(const char *metric, const struct reported_metrics *r)
{
    char shown[NAME_SHOWN + 1];
    struct buf out;
    if (!metric || !*metric || !strcmp(metric, "none") || names_contain(r->validation, metric))
        return NULL;
    bool in_training = names_contain(r->training, metric);
    if (!*r->validation && (!r->completed || (r->single && !*r->training)))
        return NULL;
    buf_init(&out, LIMIT_BODY_SMALL);
    if (in_training)
        buf_printf(&out,
                   "%s reported %s as a training metric; the searcher waits for a validation "
                   "metric of this name: report it in the group validation",
                   r->subject, cut_name(metric, shown));
    else if (*r->validation)
        validation_write(metric, r, &out);
    else
        buf_printf(&out,
                   "%s reported no validation metrics; the searcher waits for %s: report it in "
                   "the group validation%s",
                   r->subject, cut_name(metric, shown),
                   r->single ? ", or set searcher.metric to none" : "");
    return buf_take(&out);
}
