// A log range draws base^minval to base^maxval. Determined's users know it from its documentation;
// others write the values themselves, as in most search libraries.
#include "api/config/log_bounds.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/text/json.h"

#define ABSURD_SPAN 1e15 // of values: no hyperparameter has such a range of positive exponents

struct log_range {
    double base, low, high; // exponents
};

// Bounds are probably values if both are positive and, read as values, they span more than read as
// exponents (0.0001 to 0.1: a factor of 1,000, not of 1.26), or if the values that they give are
// absurd (2^16 to 2^256).
static bool are_values(const struct log_range *r)
{
    if (r->low <= 0 || r->high <= r->low)
        return false;
    double span = pow(r->base, r->high - r->low);
    return r->high / r->low > span || span > ABSURD_SPAN;
}

struct finding {
    struct buf text, others;
    int count;
};

static void note_range(struct finding *f, const char *path, const struct log_range *r)
{
    double scale = log(r->base);
    if (f->count++) {
        buf_printf(&f->others, "%s%s", f->count > 2 ? ", " : "", path);
        return;
    }
    buf_printf(&f->text,
               "%s: the bounds of a log range are exponents, so base %g with minval %g and maxval "
               "%g draws values from %.6g to %.6g. For values from %g to %g write {type: log, "
               "base: %g, minval: %.6g, maxval: %.6g}",
               path, r->base, r->low, r->high, pow(r->base, r->low), pow(r->base, r->high), r->low,
               r->high, r->base, log(r->low) / scale, log(r->high) / scale);
}

static void search_group(struct finding *f, const char *path, const json_t *group)
{
    const char *key;
    json_t *hp;
    json_object_foreach((json_t *)group, key, hp)
    {
        const char *type = jget_string(hp, "type", NULL);
        const struct log_range r = {jget_double(hp, "base", 10), jget_double(hp, "minval", 0),
                                    jget_double(hp, "maxval", 0)};
        char *below = xasprintf("%s.%s", path, key);
        if (!type && json_is_object(hp))
            search_group(f, below, hp);
        else if (type && !strcmp(type, "log") && r.base > 1 && are_values(&r))
            note_range(f, below, &r);
        free(below);
    }
}

char *log_bounds_warning(const json_t *config)
{
    struct finding f = {.count = 0};
    buf_init(&f.text, LIMIT_BODY_SMALL);
    buf_init(&f.others, LIMIT_BODY_SMALL);
    search_group(&f, "hyperparameters", jget(config, "hyperparameters"));
    if (f.count > 1)
        buf_printf(&f.text, "; the same is true of %s", buf_str(&f.others));
    buf_free(&f.others);
    if (f.count)
        return buf_take(&f.text);
    buf_free(&f.text);
    return NULL;
}
