// log_policies of an experiment: what follows when a line of a trial's log matches a pattern. An
// error of its program is then no reason to start it again (cancel_retries), or it is not placed on
// that machine again (exclude_node).
//
// What matched is not stored: the lines are, and are read again when the master starts. They may
// come after the end of the run that wrote them; they count for what comes after them.
#include "master/core/policies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/pattern.h"
#include "db/logs.h"
#include "master/core/lives.h"
#include "master/core/logs.h"

enum { POLICIES_MAX = 16 };

struct policies {
    struct policy {
        regex_t pattern;
        char *name;
        bool excludes; // else cancels
    } * items;
    size_t count;
};

static const char *action_of(const json_t *policy)
{
    const json_t *action = jget(policy, "action");
    const char *word = json_string_value(action);
    return word ? word : jget_string(action, "type", "");
}

static bool acts(const json_t *policy)
{
    const char *action = action_of(policy);
    return *jget_string(policy, "pattern", "") &&
           (!strcmp(action, "cancel_retries") || !strcmp(action, "exclude_node"));
}

int policies_new(const json_t *config, struct policies **out, struct error *e)
{
    size_t i;
    json_t *entry;
    const json_t *list = jget(config, "log_policies");
    struct policies *p = xcalloc(1, sizeof *p);
    p->items = xcalloc(json_array_size(list) + 1, sizeof *p->items);
    *out = NULL;
    json_array_foreach(list, i, entry)
    {
        const char *pattern = jget_string(entry, "pattern", "");
        if (!acts(entry))
            continue;
        char where[48];
        snprintf(where, sizeof where, "log_policies.%zu.pattern", i);
        struct policy *policy = &p->items[p->count];
        int err = p->count < POLICIES_MAX
                      ? pattern_compile(pattern, where, &policy->pattern, e)
                      : error_set(e, ERR_TOO_LARGE, "log_policies: more than %d", POLICIES_MAX);
        if (err) {
            policies_free(p);
            return err;
        }
        policy->name = xstrdup(jget_string(entry, "name", pattern));
        policy->excludes = !strcmp(action_of(entry), "exclude_node");
        p->count++;
    }
    if (p->count)
        *out = p;
    else
        policies_free(p);
    return 0;
}

void policies_free(struct policies *p)
{
    for (size_t i = 0; p && i < p->count; i++) {
        regfree(&p->items[i].pattern);
        free(p->items[i].name);
    }
    if (p)
        free(p->items);
    free(p);
}

// --- a line --------------------------------------------------------------------------------------

static void say(struct core *c, const struct trial *t, const char *name, const char *what)
{
    char *text = xasprintf("log policy \"%s\" matched: %s", name, what);
    logs_say(c, t, "", "WARNING", text);
    free(text);
}

// False: it was so already, or can be no more.
static bool cancel(struct trial *t)
{
    bool changed = !t->no_retries;
    t->no_retries = true;
    return changed;
}

static bool exclude(struct trial *t, struct agent *g)
{
    for (int i = 0; i < t->excluded_count; i++)
        if (t->excluded[i] == g)
            return false;
    if (!g || t->excluded_count == SCHED_EXCLUDED_MAX)
        return false;
    t->excluded[t->excluded_count++] = g;
    return true;
}

// What waits already, waits anew.
static void wait_anew(struct core *c, struct allocation *a)
{
    if (!a || a->state != ALLOCATION_QUEUED || a->gang == SCHED_NONE)
        return;
    sched_gang_remove(c->sched, a->gang, c->now);
    allocation_enqueue(c, a);
}

static void look(struct core *c, struct trial *t, const char *agent, const char *line, bool tell)
{
    const struct policies *p = t->live->policies;
    for (size_t i = 0; i < p->count; i++) {
        const struct policy *policy = &p->items[i];
        if (regexec(&policy->pattern, line, 0, NULL, 0))
            continue;
        if (!policy->excludes) {
            if (cancel(t) && tell)
                say(c, t, policy->name, "an error of its program ends this trial");
        } else if (exclude(t, core_agent_find(c, agent)) && tell) {
            char *what = xasprintf("this trial is not placed on agent %s again", agent);
            say(c, t, policy->name, what);
            free(what);
            wait_anew(c, t->allocation);
        }
    }
}

void policies_line(struct core *c, struct trial *t, const char *agent, const char *line)
{
    look(c, t, agent, line, true);
}

int policies_load(struct core *c, struct trial *t, struct error *e)
{
    struct log_reader log;
    const struct log_line *line;
    const struct log_origin *from;
    int64_t id;
    int step = LOG_ON;
    if (!t->live->policies || trial_is_terminal(t->state))
        return 0;
    log_reader_init(&log, t->task_id, false, &log_wanted_all);
    while (step > 0) {
        step = log_reader_next(&log, c->reader, &line, &from, &id, e);
        if (step == LOG_LINE && strcmp(from->text[LOG_SOURCE], "master"))
            look(c, t, from->text[LOG_AGENT], line->text, false);
    }
    log_reader_free(&log);
    return step;
}
