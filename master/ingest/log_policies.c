// Log policies of an experiment: what to do when a line of a trial's log matches a pattern. Either
// an error of the program ends the trial instead of restarting it (cancel_retries), or the trial is
// not placed on that agent again (exclude_node).
//
// A worker matches the lines (log_patterns.c). The effect is a row of trial_policies in the batch
// of the lines. Lines may arrive after the end of the run that wrote them; they count for the runs
// that follow.
#include "master/ingest/log_policies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "base/text/pattern.h"
#include "base/text/yaml.h"
#include "master/ingest/logs.h"
#include "master/lifecycle/lifecycle.h"

struct log_policies {
    struct log_policy {
        char *pattern, *name;
        bool excludes; // exclude_node; false: cancel_retries
        // the trial's log already says that the pattern does not compile
        bool fault_reported;
    } * items;
    size_t count;
};

static const char *action_of(const json_t *policy)
{
    const json_t *action = jget(policy, "action");
    const char *word = json_string_value(action);
    return word ? word : jget_string(action, "type", "");
}

static bool has_action(const json_t *policy)
{
    const char *action = action_of(policy);
    return *jget_string(policy, "pattern", "") &&
           (!strcmp(action, "cancel_retries") || !strcmp(action, "exclude_node"));
}

static int check_pattern(const json_t *entry, size_t i, const struct yaml_doc *doc, struct error *e)
{
    char path[48], where[300] = "";
    struct pattern *compiled;
    snprintf(path, sizeof path, "log_policies.%zu.pattern", i);
    int err = pattern_compile(jget_string(entry, "pattern", ""), path, &compiled, e);
    pattern_free(compiled);
    if (err && doc)
        error_prefix(e, "%s", yaml_where(doc, path, where, sizeof where));
    return err;
}

int log_policies_check(const json_t *config, const struct yaml_doc *doc, struct error *e)
{
    size_t i, count = 0;
    json_t *entry;
    int err = 0;
    json_array_foreach(jget(config, "log_policies"), i, entry)
    {
        if (!has_action(entry))
            continue;
        err = ++count > LIMIT_LOG_POLICIES
                  ? error_set(e, ERR_TOO_LARGE,
                              "log_policies: more than %d policies; join patterns with |",
                              LIMIT_LOG_POLICIES)
                  : check_pattern(entry, i, doc, e);
        if (err)
            break;
    }
    return err;
}

struct log_policies *log_policies_new(const json_t *config)
{
    size_t i;
    json_t *entry;
    const json_t *list = jget(config, "log_policies");
    struct log_policies *p = xcalloc(1, sizeof *p);
    p->items = xcalloc(json_array_size(list) + 1, sizeof *p->items);
    json_array_foreach(list, i, entry)
    {
        if (!has_action(entry) || p->count == LIMIT_LOG_POLICIES)
            continue;
        const char *pattern = jget_string(entry, "pattern", "");
        p->items[p->count++] =
            (struct log_policy){.pattern = xstrdup(pattern),
                                .name = xstrdup(jget_string(entry, "name", pattern)),
                                .excludes = !strcmp(action_of(entry), "exclude_node")};
    }
    if (p->count)
        return p;
    log_policies_free(p);
    return NULL;
}

void log_policies_free(struct log_policies *p)
{
    for (size_t i = 0; p && i < p->count; i++) {
        free(p->items[i].pattern);
        free(p->items[i].name);
    }
    if (p)
        free(p->items);
    free(p);
}

// --- effects of a match --------------------------------------------------------------------------

static void policy_report(struct core *c, const struct trial *t, const char *name, const char *what)
{
    char *text = xasprintf("log policy \"%s\" %s", name, what);
    logs_add_message(c, t, "", "WARNING", text);
    free(text);
}

static bool is_excluded(const struct trial *t, const struct agent *g)
{
    for (int i = 0; i < t->excluded_count; i++)
        if (t->excluded[i] == g)
            return true;
    return false;
}

// Whether a match would change anything.
static bool would_change(struct core *c, const struct trial *t, const struct log_policy *p,
                         const char *agent)
{
    const struct agent *g = p->excludes ? core_agent_find(c, agent) : NULL;
    if (!p->excludes)
        return !t->no_retries;
    return g && t->excluded_count < SCHED_EXCLUDED_MAX && !is_excluded(t, g);
}

// A queued allocation is queued again, so that the scheduler learns of the excluded agent.
static void allocation_requeue(struct core *c, struct allocation *a)
{
    if (!a || a->state != ALLOCATION_QUEUED || a->gang == SCHED_NONE)
        return;
    sched_gang_remove(c->sched, a->gang, c->now);
    allocation_enqueue(c, a);
}

static void policy_apply(struct core *c, struct trial *t, const struct log_policy *p,
                         const char *agent)
{
    STORE(c, TRIAL_POLICY_INSERT, t->id, p->excludes ? agent : "");
    if (!p->excludes) {
        t->no_retries = true;
        policy_report(c, t, p->name, "matched: an error of its program ends this trial");
        return;
    }
    t->excluded[t->excluded_count++] = core_agent_find(c, agent);
    char *what = xasprintf("matched: the scheduler therefore will not schedule on %s again", agent);
    policy_report(c, t, p->name, what);
    free(what);
    allocation_requeue(c, t->allocation);
}

static void policy_report_fault(struct core *c, const struct trial *t, struct log_policy *p,
                                const char *fault)
{
    char name[300], quoted[ERROR_TEXT_MAX];
    if (p->fault_reported)
        return;
    p->fault_reported = true;
    log_warn("a log policy cannot be used", "trial=%lld policy=%s err=%s", (long long)t->id,
             log_quote(name, sizeof name, p->name), log_quote(quoted, sizeof quoted, fault));
    char *what = xasprintf("cannot be used and is ignored: %s; submit a copy of the experiment "
                           "with another pattern to use it",
                           fault);
    policy_report(c, t, p->name, what);
    free(what);
}

void log_policies_add_patterns(struct core *c, const struct trial *t, const char *agent,
                               struct log_pattern_list *w)
{
    const struct log_policies *p = t->active->log_policies;
    for (size_t i = 0; p && i < p->count; i++)
        if (!p->items[i].fault_reported && would_change(c, t, &p->items[i], agent))
            log_patterns_add(w, p->items[i].pattern, (int)i, 0);
}

void log_policies_matched(struct core *c, struct trial *t, const char *agent,
                          const struct log_pattern *pattern)
{
    const struct log_policies *all = t->active->log_policies;
    struct log_policy *p =
        all && (size_t)pattern->policy < all->count ? &all->items[pattern->policy] : NULL;
    bool replaced = p && strcmp(p->pattern, pattern->text); // continued with other policies
    if (!p || replaced)
        return;
    if (pattern->fault)
        policy_report_fault(c, t, p, pattern->fault);
    else if (pattern->matched && would_change(c, t, p, agent))
        policy_apply(c, t, p, agent);
}

// --- loading -------------------------------------------------------------------------------------

int log_policies_load(struct core *c, struct trial *t, struct error *e)
{
    if (!t->active->log_policies || trial_is_terminal(t->state))
        return 0;
    struct db_rows *rows = DB_QUERY(c->reader, TRIAL_POLICIES, t->id);
    int more;
    while ((more = db_next(rows)) == 1) {
        const char *agent = DB_GET(rows, TRIAL_POLICIES, agent_id);
        struct agent *g = *agent ? core_agent_find(c, agent) : NULL;
        t->no_retries |= !*agent;
        if (g && t->excluded_count < SCHED_EXCLUDED_MAX)
            t->excluded[t->excluded_count++] = g;
    }
    db_rows_close(rows);
    return more < 0 ? db_unreadable(c->reader, e) : 0;
}

void log_policies_forget(struct core *c, struct trial *t)
{
    t->no_retries = false;
    t->excluded_count = 0;
    STORE(c, TRIAL_POLICIES_DELETE, t->id);
}
