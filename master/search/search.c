#include "master/search/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/text/json.h"
#include "master/search/method.h"

static const struct search_method *const methods[] = {
    &search_single,   &search_random,    &search_grid, &search_halving,
    &search_adaptive, &search_hyperband, &search_tpe,  &search_pbt};

enum { METHODS = sizeof methods / sizeof *methods };

static int find_method(const json_t *config, const struct search_method **out, struct error *e)
{
    const char *name = jget_string(jget(config, "searcher"), "name", "");
    struct buf known;
    for (size_t i = 0; i < METHODS; i++)
        if (!strcmp(methods[i]->name, name)) {
            *out = methods[i];
            return 0;
        }
    buf_init(&known, ERROR_TEXT_MAX);
    for (size_t i = 0; i < METHODS; i++)
        buf_printf(&known, "%s\"%s\"", i ? ", " : "", methods[i]->name);
    error_set(e, ERR_INVALID, "searcher.name: this master cannot search by \"%.64s\"; it has %s",
              name, buf_str(&known));
    buf_free(&known);
    return ERR_INVALID;
}

int search_new(const json_t *config, int64_t seed, struct search **out, struct error *e)
{
    const struct search_method *method;
    int err = find_method(config, &method, e);
    if (err)
        return err;
    struct search *s = xcalloc(1, sizeof *s);
    json_t *space = jget(config, "hyperparameters");
    s->method = method;
    s->space = space ? json_deep_copy(space) : json_object();
    s->seed = seed;
    rng_seed(&s->rng, (uint64_t)seed, 1);
    err = method->set_up ? method->set_up(s, config, e) : 0;
    if (err)
        search_free(s);
    else
        *out = s;
    return err;
}

// A key of the searcher that may change: more trials, or another number at the same time.
static bool may_change(const char *key)
{
    return !strcmp(key, "max_trials") || !strcmp(key, "max_concurrent_trials");
}

static int check_searcher(const json_t *before, const json_t *after, struct error *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)before, key, value)
    {
        if (!may_change(key) && !json_equal(value, json_object_get(after, key)))
            return error_set(e, ERR_INVALID,
                             "searcher.%.64s cannot change when a search continues, because its "
                             "completed trials ran with it; fork the experiment instead",
                             key);
    }
    if (jget_int(after, "max_trials", 1) < jget_int(before, "max_trials", 1))
        return error_set(e, ERR_INVALID,
                         "searcher.max_trials: a search that continues cannot have fewer trials "
                         "than before (%lld)",
                         (long long)jget_int(before, "max_trials", 1));
    return 0;
}

static bool same_rungs(const json_t *before, const json_t *after)
{
    size_t i, r;
    json_t *bracket, *rung;
    if (json_array_size(before) != json_array_size(after))
        return false;
    json_array_foreach((json_t *)before, i, bracket)
    {
        const json_t *other = json_array_get(after, i), *rungs = jget(other, "rungs");
        if (jget_int(other, "trials", 0) < jget_int(bracket, "trials", 0) ||
            json_array_size(rungs) != json_array_size(jget(bracket, "rungs")))
            return false;
        json_array_foreach(jget(bracket, "rungs"), r,
                           rung) if (!json_equal(jget(rung, "time"), jget(json_array_get(rungs, r),
                                                                          "time"))) return false;
    }
    return true;
}

// More trials may give an adaptive search other brackets, and its trials would be in none of them.
static int check_rungs(const json_t *before, const json_t *after, struct error *e)
{
    struct search *old = NULL, *new = NULL;
    int err = search_new(before, 0, &old, e);
    if (!err)
        err = search_new(after, 0, &new, e);
    json_t *rungs = err ? NULL : search_rungs(old), *planned = err ? NULL : search_rungs(new);
    if (!err && !same_rungs(rungs, planned))
        err = error_set(e, ERR_INVALID,
                        "searcher.max_trials: %lld trials need other brackets than the search has "
                        "(see: muster experiment preview); fork the experiment instead",
                        (long long)jget_int(jget(after, "searcher"), "max_trials", 0));
    json_decref(rungs);
    json_decref(planned);
    search_free(old);
    search_free(new);
    return err;
}

int search_check_continue(const json_t *before, const json_t *after, struct error *e)
{
    static const char *const fixed[] = {"hyperparameters", "reproducibility", "trainer"};
    int err = check_searcher(jget(before, "searcher"), jget(after, "searcher"), e);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed && !err; i++) {
        const json_t *old = jget(before, fixed[i]), *new = jget(after, fixed[i]);
        if ((old || new) && !json_equal(old, new))
            err = error_set(e, ERR_INVALID,
                            "%s cannot change when a search continues, because its completed "
                            "trials ran with it; fork the experiment instead",
                            fixed[i]);
    }
    return err ? err : check_rungs(before, after, e);
}

bool search_covers(const struct search *s, size_t trials)
{
    return !s->method->covers || s->method->covers(s, trials);
}

int search_restore(const json_t *config, int64_t seed, const char *snapshot, struct search **out,
                   struct error *e)
{
    struct search *s = NULL;
    json_t *saved = NULL;
    int err = search_new(config, seed, &s, e);
    if (err)
        return err;
    err = json_parse(snapshot, strlen(snapshot), "searcher state", &saved, e);
    if (err)
        goto out;
    const char *rng = jget_string(saved, "rng", "");
    if (sscanf(rng, "%" SCNx64 ":%" SCNx64, &s->rng.state, &s->rng.inc) != 2) {
        err = error_set(e, ERR_CORRUPT, "searcher state: rng: \"%.64s\" does not read", rng);
        goto out;
    }
    s->method->load(s, jget(saved, "method"));
    *out = s;
    s = NULL;
out:
    json_decref(saved);
    search_free(s);
    if (err && e)
        e->code = ERR_CORRUPT;
    return err ? ERR_CORRUPT : 0;
}

void search_free(struct search *s)
{
    if (!s)
        return;
    if (s->method->free)
        s->method->free(s);
    json_decref(s->space);
    free(s);
}

void search_handle_event(struct search *s, const struct search_event *event,
                         struct search_commands *out)
{
    *out = (struct search_commands){0};
    s->changed = false;
    s->method->handle_event(s, event, out);
}

struct search_command *search_command_add(struct search_commands *out,
                                          enum search_command_kind kind)
{
    out->items = xrealloc(out->items, (out->count + 1) * sizeof *out->items);
    struct search_command *command = &out->items[out->count++];
    memset(command, 0, sizeof *command);
    command->kind = kind;
    return command;
}

void search_commands_free(struct search_commands *commands)
{
    for (size_t i = 0; i < commands->count; i++)
        json_decref(commands->items[i].hparams);
    free(commands->items);
    *commands = (struct search_commands){0};
}

char *search_snapshot(const struct search *s)
{
    char rng[40];
    snprintf(rng, sizeof rng, "%" PRIx64 ":%" PRIx64, s->rng.state, s->rng.inc);
    json_t *saved = json_pack("{s:s, s:o}", "rng", rng, "method", s->method->save(s));
    must(saved);
    char *text = json_text(saved);
    json_decref(saved);
    return text;
}

json_t *search_rungs(const struct search *s)
{
    return s->method->rungs ? s->method->rungs(s) : json_array();
}

bool search_resumes(const struct search *s)
{
    return s->method->resumes;
}

bool search_changed(const struct search *s)
{
    return s->changed;
}

const char *search_time_metric(const json_t *config)
{
    const json_t *searcher = jget(config, "searcher"), *length = jget(searcher, "max_length");
    if (jget(searcher, "length_per_round"))
        length = jget(searcher, "length_per_round");
    const char *unit;
    json_t *value;
    if (jget(searcher, "time_metric") || jget(searcher, "max_time"))
        return jget_string(searcher, "time_metric", NULL);
    json_object_foreach((json_t *)length, unit,
                        value) if (strcmp(unit, "batches") != 0) return unit;
    return NULL;
}

// A point comes from the model when enough trials have ended, and others run until then.
static char *tpe_warning(const json_t *searcher)
{
    int64_t trials = jget_int(searcher, "max_trials", 1);
    int64_t startup = jget_int(searcher, "startup_trials", 10);
    int64_t concurrent = jget_int(searcher, "max_concurrent_trials", 0);
    bool at_once = concurrent < 1 || concurrent >= trials;
    if (!at_once && startup + concurrent <= trials)
        return NULL;
    if (at_once)
        return xasprintf("searcher.max_concurrent_trials: all %" PRId64 " trials start before any "
                         "of them ends, so tpe draws every one at random; lower it",
                         trials);
    return xasprintf("searcher.max_trials: tpe draws the first %" PRId64 " trials at random "
                     "(startup_trials, and those that run meanwhile), and there are %" PRId64
                     "; raise it, or lower startup_trials or max_concurrent_trials",
                     startup + concurrent - 1, trials);
}

char *search_warning(const json_t *config)
{
    const json_t *every = jget_path(config, "trainer.validate_every");
    json_int_t steps = json_integer_value(every);
    const char *name = jget_string(jget(config, "searcher"), "name", "");
    if (!strcmp(name, "single") || !strcmp(name, "custom"))
        return NULL;
    if (!search_varies(jget(config, "hyperparameters")))
        return xasprintf("hyperparameters: none is a range, so the trials of searcher %s differ by "
                         "their seed alone",
                         name);
    if (!strcmp(name, "tpe"))
        return tpe_warning(jget(config, "searcher"));
    double lowest = bracket_search_lowest_rung(config);
    if (!json_is_integer(every) || !lowest || (steps && (double)steps <= lowest))
        return NULL;
    return xasprintf("trainer.validate_every is %lld, and the lowest rung of the search is at step "
                     "%.0f: trials are compared when they validate, so set it to %.0f or less",
                     (long long)steps, lowest, lowest);
}

double search_progress(const struct search *s)
{
    return s->progress;
}
