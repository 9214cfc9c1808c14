#include "master/common/missing_metric.h"

#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"

enum { NAMES_SHOWN = 8, NAME_SHOWN = 100 }; // names; bytes of a name

static bool names_contain(const char *const *names, const char *wanted)
{
    for (; *names; names++)
        if (!strcmp(*names, wanted))
            return true;
    return false;
}

static void names_write(const char *const *names, struct buf *out)
{
    size_t count = 0;
    for (; names[count]; count++)
        if (count < NAMES_SHOWN)
            buf_printf(out, "%s%.*s", count ? ", " : "", NAME_SHOWN, names[count]);
    if (count > NAMES_SHOWN)
        buf_printf(out, " and %zu more", count - NAMES_SHOWN);
}

static void validation_write(const char *metric, const struct reported_metrics *r, struct buf *out)
{
    const char *near = nearest_word(metric, r->validation), *only = r->validation[0];
    buf_printf(out, "%s reported ", r->subject);
    names_write(r->validation, out);
    buf_printf(out, "; the searcher waits for %.*s: ", NAME_SHOWN, metric);
    if (near)
        buf_printf(out, "did you mean %.*s?", NAME_SHOWN, near);
    else
        buf_printf(out, "report it as a validation metric, or set searcher.metric to %.*s",
                   NAME_SHOWN, r->validation[1] ? "one of these" : only);
}

char *missing_metric_warning(const char *metric, const struct reported_metrics *r)
{
    struct buf out;
    if (!metric || !*metric || !strcmp(metric, "none") || names_contain(r->validation, metric))
        return NULL;
    bool in_training = names_contain(r->training, metric);
    if (!*r->validation && (!r->completed || (r->single && !*r->training)))
        return NULL;
    buf_init(&out, LIMIT_BODY_SMALL);
    if (in_training)
        buf_printf(&out,
                   "%s reported %.*s as a training metric; the searcher waits for a validation "
                   "metric of this name: report it in the group validation",
                   r->subject, NAME_SHOWN, metric);
    else if (*r->validation)
        validation_write(metric, r, &out);
    else
        buf_printf(&out,
                   "%s reported no validation metrics; the searcher waits for %.*s: report it in "
                   "the group validation%s",
                   r->subject, NAME_SHOWN, metric,
                   r->single ? ", or set searcher.metric to none" : "");
    return buf_take(&out);
}
