#include "master/common/failure_summary.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/exit_reason.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/text/json.h"

enum {
    REASON_SHOWN = 160, // bytes of a reason
    GROUPS_SHOWN = 5,
    GROUPS_MAX = 64,  // trials with further reasons are only counted: a search would be slow
    TRIALS_SHOWN = 4, // of a group
    HPARAMS_SHOWN = 2,
    VALUE_SHOWN = 40, // bytes
};

struct group { // trials that failed for the same reason
    const char *reason;
    size_t length;       // of the reason
    size_t count, first; // first: index of its first trial
};

struct summary_state {
    const struct trial_outcome *trials;
    size_t count;
    bool all_failed;
    struct group groups[GROUPS_MAX];
    size_t group_count;
    bool more_groups; // some trials have reasons beyond GROUPS_MAX
    size_t *group_of; // of each trial; GROUPS_MAX: such a reason; SIZE_MAX: it has not failed
};

// --- reasons -------------------------------------------------------------------------------------

// The part of a reason that trials have in common: no rank, no exit code before an error.
static const char *common_part(const char *reason)
{
    if (strcasestr(reason, "CUDA out of memory"))
        return "CUDA out of memory";
    if (strcasestr(reason, "out of memory"))
        return "out of memory";
    return exit_reason_error(reason);
}

// A trial that was restarted has the number of its equal failures behind its reason.
static size_t reason_length(const char *reason)
{
    const char *times = strstr(reason, " times in the same way");
    size_t len = strlen(reason);
    if (times) {
        len = (size_t)(times - reason);
        while (len > 0 && isdigit((unsigned char)reason[len - 1]))
            len--;
        len -= len >= 2 && reason[len - 1] == '(' ? 2 : 0;
    }
    return len;
}

// Compares reasons without regard to their numbers, such as steps and bytes.
static bool is_same_reason(const struct group *group, const char *b, size_t length)
{
    const char *a = group->reason, *end_a = a + group->length, *end_b = b + length;
    while (a < end_a && b < end_b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0123456789");
            b += strspn(b, "0123456789");
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return a >= end_a && b >= end_b;
}

static size_t group_find(struct summary_state *s, const char *reason, size_t trial)
{
    size_t i = 0, length = reason_length(reason);
    while (i < s->group_count && !is_same_reason(&s->groups[i], reason, length))
        i++;
    if (i == GROUPS_MAX) {
        s->more_groups = true;
        return i;
    }
    if (i == s->group_count)
        s->groups[s->group_count++] =
            (struct group){.reason = reason, .length = length, .first = trial};
    s->groups[i].count++;
    return i;
}

// --- hyperparameters -----------------------------------------------------------------------------

struct span { // of the values of a hyperparameter in a group
    const json_t *low, *high;
};

static int compare_values(const json_t *a, const json_t *b)
{
    double x = json_number_value(a), y = json_number_value(b);
    return (x > y) - (x < y);
}

static bool span_holds(const struct span *s, const json_t *value)
{
    if (json_is_number(s->low) && json_is_number(value))
        return compare_values(value, s->low) >= 0 && compare_values(value, s->high) <= 0;
    return json_equal(s->low, value);
}

// Returns whether the values of the group are a range of numbers, or one value.
static bool span_read(const struct summary_state *s, size_t group, const char *name,
                      struct span *out)
{
    *out = (struct span){0};
    for (size_t i = 0; i < s->count; i++) {
        const json_t *value = s->group_of[i] == group ? jget(s->trials[i].hparams, name) : NULL;
        if (s->group_of[i] != group)
            continue;
        bool one = out->low && json_equal(out->low, value);
        if (!value || json_is_object(value) ||
            (out->low && !one && !(json_is_number(value) && json_is_number(out->low))))
            return false;
        if (!out->low || (!one && compare_values(value, out->low) < 0))
            out->low = value;
        if (!out->high || (!one && compare_values(value, out->high) > 0))
            out->high = value;
    }
    return out->low;
}

// A trial that failed for another reason might have failed for this one, too; such trials count as
// others only if all trials have failed.
static bool is_other(const struct summary_state *s, size_t group, size_t trial)
{
    return s->all_failed ? s->group_of[trial] != group : !s->trials[trial].reason;
}

// Returns whether no other trial has a value within the span, and some have one outside.
static bool span_sets_apart(const struct summary_state *s, size_t group, const char *name,
                            const struct span *span)
{
    size_t others = 0;
    for (size_t i = 0; i < s->count; i++) {
        const json_t *value = jget(s->trials[i].hparams, name);
        if (!is_other(s, group, i))
            continue;
        if (!value || span_holds(span, value))
            return false;
        others++;
    }
    return others > 0;
}

static void value_write(const json_t *value, struct buf *out)
{
    char *text = json_is_string(value) ? xstrdup(json_string_value(value)) : json_text(value);
    if (json_is_real(value))
        buf_printf(out, "%.4g", json_real_value(value));
    else
        buf_printf(out, "%.*s", (int)json_utf8_fit(text, VALUE_SHOWN), text);
    free(text);
}

static void hparams_write(const struct summary_state *s, size_t group, struct buf *out)
{
    int shown = 0;
    const char *name;
    json_t *value;
    json_object_foreach(s->trials[s->groups[group].first].hparams, name, value)
    {
        struct span span;
        if (shown >= HPARAMS_SHOWN || !span_read(s, group, name, &span) ||
            !span_sets_apart(s, group, name, &span))
            continue;
        buf_printf(out, "%s%s ", shown++ ? ", " : " (", name);
        value_write(span.low, out);
        if (!json_equal(span.low, span.high)) {
            buf_puts(out, " to ");
            value_write(span.high, out);
        }
    }
    if (shown)
        buf_puts(out, ")");
}

// --- the sentence --------------------------------------------------------------------------------

static void trials_write(const struct summary_state *s, size_t group, struct buf *out)
{
    size_t shown = 0;
    buf_puts(out, s->groups[group].count > 1 ? " in trials " : " in trial ");
    for (size_t i = 0; i < s->count && shown < TRIALS_SHOWN; i++)
        if (s->group_of[i] == group)
            buf_printf(out, "%s%lld", shown++ ? ", " : "", (long long)s->trials[i].id);
    if (s->groups[group].count > shown)
        buf_puts(out, ", ..");
}

static void reason_write(const char *reason, size_t len, struct buf *out)
{
    size_t end = len < REASON_SHOWN ? len : REASON_SHOWN;
    while (end < len && end > 0 && ((unsigned char)reason[end] & 0xC0) == 0x80)
        end--;
    buf_append(out, reason, end);
    if (end < len)
        buf_puts(out, "..");
}

// Returns the largest group that was not written yet; of equal ones, the first.
static size_t next_group(const struct summary_state *s, const bool *written)
{
    size_t best = s->group_count;
    for (size_t i = 0; i < s->group_count; i++)
        if (!written[i] && (best == s->group_count || s->groups[i].count > s->groups[best].count))
            best = i;
    return best;
}

static void groups_write(const struct summary_state *s, struct buf *out)
{
    bool written[GROUPS_MAX] = {0};
    size_t shown = 0;
    for (; shown < s->group_count && shown < GROUPS_SHOWN; shown++) {
        size_t i = next_group(s, written);
        written[i] = true;
        buf_printf(out, "%s%zu x ", shown ? "; " : ": ", s->groups[i].count);
        reason_write(s->groups[i].reason, s->groups[i].length, out);
        trials_write(s, i, out);
        hparams_write(s, i, out);
    }
    if (shown < s->group_count)
        buf_printf(out, "; %s%zu more reasons", s->more_groups ? "more than " : "",
                   s->group_count - shown);
}

char *failure_summary(const struct trial_outcome *trials, size_t count, size_t total)
{
    struct buf out;
    size_t failed = 0;
    struct summary_state s = {
        .trials = trials, .count = count, .group_of = xcalloc(count + 1, sizeof *s.group_of)};
    for (size_t i = 0; i < count; i++) {
        failed += trials[i].reason != NULL;
        s.group_of[i] =
            trials[i].reason ? group_find(&s, common_part(trials[i].reason), i) : SIZE_MAX;
    }
    s.all_failed = failed == count;
    buf_init(&out, LIMIT_BODY_SMALL);
    buf_printf(&out, "%s%zu of %zu trials failed",
               failed == count && count < total ? "at least " : "", failed, total);
    groups_write(&s, &out);
    free(s.group_of);
    if (failed)
        return buf_take(&out);
    buf_free(&out);
    return NULL;
}
