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

static const struct search_method *const methods[] = {&search_single, &search_random, &search_grid,
                                                      &search_halving, &search_adaptive};

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

int search_check_continue(const json_t *config, struct error *e)
{
    const struct search_method *method;
    int err = find_method(config, &method, e);
    if (!err && !method->continues)
        err = error_set(e, ERR_INVALID,
                        "a search by %s stops trials by what it saw of others, so it cannot be "
                        "continued; fork the experiment to search again",
                        method->name);
    return err;
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

bool search_changed(const struct search *s)
{
    return s->changed;
}

const char *search_time_metric(const json_t *config)
{
    const json_t *searcher = jget(config, "searcher"), *length = jget(searcher, "max_length");
    const char *unit;
    json_t *value;
    if (jget(searcher, "time_metric") || jget(searcher, "max_time"))
        return jget_string(searcher, "time_metric", NULL);
    json_object_foreach((json_t *)length, unit,
                        value) if (strcmp(unit, "batches") != 0) return unit;
    return NULL;
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
