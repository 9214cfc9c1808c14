#include "cli/output/wait_reason.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/wire.h"
#include "base/clock.h"
#include "base/text/json.h"

enum {
    TRIALS_NAMED = 8, // further trials of a group are only counted
    SECOND_US = 1000000,
};

// --- reason codes --------------------------------------------------------------------------------

struct wait_meaning {
    const char *code;
    const char *brief;
    const char *start; // text about the start if the master has no estimate
    bool stuck;        // its queue position does not matter
};

static const char unknown_start[] = "unknown: the master cannot estimate when the running jobs end";

static const struct wait_meaning meanings[] = {
    {"PLACED", "it has its slots", "now", false},
    {"NOT_CONSIDERED", "it was submitted a moment ago", "ask again in a moment", false},
    {"NO_AGENTS", "no agent can take it", "when an agent joins or is enabled", true},
    {"OVER_AGENT", "larger than any agent", "never on these agents", true},
    {"OVER_POOL", "larger than the pool", "never with these agents", true},
    {"OVER_MAXIMUM", "larger than its team's maximum", "never under this maximum", true},
    {"OVER_LIMIT", "its experiment holds its maximum of slots", "when another of its trials ends",
     false},
    {"TEAM_FULL", "its team holds its maximum of slots", "when another job of its team ends",
     false},
    {"BUSY", "too few slots are free", unknown_start, false},
    {"SPREAD", "the free slots are on several agents", unknown_start, false},
    {"BEHIND", "the free slots are reserved for another job", unknown_start, false},
    {"DRAINING", "slots are being released for it",
     "when the preempted trials have saved their work", false},
};

static bool group_has_code(const json_t *group, const char *code)
{
    return strcmp(jget_string(group, "code", ""), code) == 0;
}

static const struct wait_meaning *meaning_of(const json_t *group)
{
    static const struct wait_meaning unknown = {"", "", unknown_start, false};
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (group_has_code(group, meanings[i].code))
            return &meanings[i];
    return &unknown; // a code of a newer master: only its sentence is shown
}

// --- the sentence --------------------------------------------------------------------------------

static const char *state_of(const json_t *experiment)
{
    const char *word = wire_word(WIRE_EXPERIMENT_STATE, jget_string(experiment, "state", ""));
    return word ? word : "UNKNOWN";
}

static const char *slots_text(int64_t n)
{
    return n == 1 ? "slot" : "slots";
}

static const char *running_text(const struct waiting *w, struct arena *a)
{
    long long held = jget_int(w->why, "allocatedSlots", 0);
    long long wanted = jget_int(w->why, "requestedSlots", 0);
    const char *some = held < wanted ? arena_printf(a, " of the %lld it asks for", wanted) : "";
    return arena_printf(a, "runs on %lld %s%s and does not wait", held, slots_text(held), some);
}

static const char *state_text(const struct waiting *w, struct arena *a)
{
    const char *state = state_of(w->experiment);
    if (wire_state_is_terminal(state))
        return arena_printf(a, "has ended as %s and does not wait", state);
    if (strcmp(state, "PAUSED") == 0 && jget_int(w->experiment, "liveAllocations", 0) > 0)
        return "is being paused: its trials save their work, then release their slots";
    if (strcmp(state, "PAUSED") == 0)
        return "is paused: it holds no slots and is in no queue";
    if (strncmp(state, "STOPPING", 8) == 0)
        return "is stopping: its trials save their work and end";
    if (jget_int(w->why, "allocatedSlots", 0) > 0)
        return running_text(w, a);
    return strcmp(state, "RUNNING") == 0 ? "runs and does not wait" : "has just been queued";
}

const char *waiting_sentence(const struct waiting *w, struct arena *a)
{
    const char *text = jget_string(w->why, "reason", "");
    if (*text == '\0' || strcmp(text, "is paused") == 0)
        text = state_text(w, a);
    return arena_printf(a, "Experiment %lld (%s) %s.", (long long)jget_int(w->experiment, "id", 0),
                        jget_string(w->experiment, "name", ""), text);
}

// --- groups --------------------------------------------------------------------------------------

static bool waits_for_same(const json_t *a, const json_t *b)
{
    static const char *const words[] = {"code", "resource", "teamName", "estimatedStart"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(jget_string(a, words[i], ""), jget_string(b, words[i], "")) != 0)
            return false;
    return jget_int(a, "needs", 0) == jget_int(b, "needs", 0) &&
           jget_int(a, "behindExperimentId", 0) == jget_int(b, "behindExperimentId", 0);
}

static json_t *find_group(const json_t *groups, const json_t *entry)
{
    size_t i;
    json_t *group;
    json_array_foreach(groups, i, group)
    {
        if (waits_for_same(group, entry))
            return group;
    }
    return NULL;
}

json_t *waiting_groups(const json_t *why)
{
    json_t *groups = json_array(), *entry;
    size_t i;
    json_array_foreach(jget(why, "waiting"), i, entry)
    {
        json_t *group = find_group(groups, entry);
        if (!group) {
            group = json_copy(entry);
            json_object_set_new(group, "trials", json_array());
            json_array_append_new(groups, group);
        }
        json_array_append_new(jget(group, "trials"), json_integer(jget_int(entry, "trialId", 0)));
    }
    return groups;
}

// The name of the pool, also if the configuration does not name one.
static const char *pool_of(const struct waiting *w)
{
    return jget_string(w->why, "resourcePool", jget_string(w->experiment, "resourcePool", ""));
}

// --- facts ---------------------------------------------------------------------------------------

static void facts_put(json_t *facts, const char *label, const char *text)
{
    if (text && *text != '\0')
        json_object_set_new(facts, label, json_string(text));
}

const char *waiting_until(const char *time, int64_t now, char out[WAITING_UNTIL_MAX])
{
    int64_t start;
    char text[32];
    out[0] = '\0';
    if (!time || clock_parse(time, &start) != 0)
        return out;
    if (start < now - SECOND_US)
        return out; // the estimate has passed
    if (start < now + SECOND_US)
        snprintf(out, WAITING_UNTIL_MAX, "any moment");
    else
        snprintf(out, WAITING_UNTIL_MAX, "in %s", duration_format(start - now, text, sizeof(text)));
    return out;
}

static const char *start_text(const struct waiting *w, const json_t *group, struct arena *a)
{
    char until[WAITING_UNTIL_MAX];
    if (*waiting_until(jget_string(group, "estimatedStart", NULL), w->now, until) == '\0')
        return meaning_of(group)->start;
    if (strncmp(until, "in ", 3) != 0)
        return arena_strdup(a, until);
    return arena_printf(
        a, "%s; estimated from the progress of the running jobs, without new submissions", until);
}

static const char *trials_text(const json_t *group, struct arena *a)
{
    const json_t *ids = jget(group, "trials");
    size_t count = json_array_size(ids);
    const char *text = "";
    for (size_t i = 0; i < count && i < TRIALS_NAMED; i++) {
        text = arena_printf(a, "%s%s%lld", text, i > 0 ? ", " : "",
                            (long long)json_integer_value(json_array_get(ids, i)));
    }
    if (count > TRIALS_NAMED)
        text = arena_printf(a, "%s and %zu more", text, count - TRIALS_NAMED);
    return count > 1 ? arena_printf(a, "%zu wait for the same: %s", count, text) : text;
}

static const char *resource_text(const json_t *group, struct arena *a)
{
    const char *resource = jget_string(group, "resource", "slots");
    long long needs = jget_int(group, "needs", 0);
    if (strcmp(resource, "slots") != 0)
        return resource;
    return arena_printf(a, "%lld %s; %lld of %lld are free, at most %lld on one agent", needs,
                        slots_text(needs), (long long)jget_int(group, "free", 0),
                        (long long)jget_int(group, "total", 0),
                        (long long)jget_int(group, "largestFree", 0));
}

const char *waiting_place(const json_t *entry, struct arena *a)
{
    long long ahead = jget_int(entry, "ahead", 0);
    if (meaning_of(entry)->stuck)
        return "";
    return ahead == 0   ? "first in the queue"
           : ahead == 1 ? "1 waits before it"
                        : arena_printf(a, "%lld wait before it", ahead);
}

static const char *share_text(const json_t *share, struct arena *a)
{
    double debt = jget_double(share, "debtSlotHours", 0),
           entitled = jget_double(share, "entitledSlots", 0);
    const char *owed = debt >= 0.05 ? arena_printf(a, "; is owed %.1f slot hours", debt) : "";
    return arena_printf(a, "is entitled to %.6g %s, holds %lld, wants %lld%s", entitled,
                        slots_text((int64_t)entitled), (long long)jget_int(share, "usedSlots", 0),
                        (long long)jget_int(share, "wantedSlots", 0), owed);
}

// Finds the share of the experiment's workspace (`user` 0) or of a user in it.
static const json_t *find_share(const struct waiting *w, int64_t user)
{
    int64_t workspace = jget_int(w->experiment, "workspaceId", 0);
    size_t i;
    json_t *share;
    json_array_foreach(w->shares, i, share)
    {
        if (jget_int(share, "workspaceId", 0) == workspace && jget_int(share, "userId", 0) == user)
            return share;
    }
    return NULL;
}

static void facts_put_share(json_t *facts, const char *label, const char *name, const json_t *share,
                            struct arena *a)
{
    if (share)
        facts_put(facts, label, arena_printf(a, "%s %s", name, share_text(share, a)));
}

json_t *waiting_facts(const struct waiting *w, const json_t *group, struct arena *a)
{
    json_t *facts = json_object();
    long long held = jget_int(w->why, "allocatedSlots", 0);
    if (group) {
        const char *code = jget_string(group, "code", "");
        facts_put(facts, "reason", arena_printf(a, "%s: %s", code, meaning_of(group)->brief));
        facts_put(facts, json_array_size(jget(group, "trials")) > 1 ? "trials" : "trial",
                  trials_text(group, a));
        facts_put(facts, "waits_for", resource_text(group, a));
        facts_put(facts, "place", waiting_place(group, a));
        facts_put(facts, "start", start_text(w, group, a));
    }
    if (held > 0) {
        facts_put(facts, "holds",
                  arena_printf(a, "%lld of the %lld slots it asks for", held,
                               (long long)jget_int(w->why, "requestedSlots", 0)));
    }
    facts_put(facts, "pool", pool_of(w));
    int64_t user = jget_int(w->experiment, "userId", 0);
    facts_put_share(facts, "workspace", jget_string(w->experiment, "workspaceName", ""),
                    find_share(w, 0), a);
    facts_put_share(facts, "user", jget_string(w->experiment, "username", ""),
                    user > 0 ? find_share(w, user) : NULL, a);
    return facts;
}

// --- possible actions ----------------------------------------------------------------------------

static void remedies_add(json_t *list, const char *effect, char *command)
{
    json_array_append_new(list, json_pack("{s:s, s:s}", "command", command, "effect", effect));
}

// Returns a disabled agent of the experiment's pool; NULL: there is none.
static const char *disabled_agent(const struct waiting *w)
{
    const char *pool = pool_of(w);
    size_t i;
    json_t *agent;
    json_array_foreach(w->agents, i, agent)
    {
        const char *of = json_string_value(json_array_get(jget(agent, "resourcePools"), 0));
        bool disabled = !jget_bool(agent, "enabled", true) && jget_bool(agent, "connected", true);
        if (disabled && (!of || strcmp(of, pool) == 0))
            return jget_string(agent, "id", NULL);
    }
    return NULL;
}

static void offer_agents(const struct waiting *w, json_t *list, struct arena *a)
{
    const char *agent = disabled_agent(w);
    if (agent) {
        remedies_add(list, "(administrators) enable this agent",
                     arena_printf(a, "muster agent enable %s", agent));
    } else {
        remedies_add(list, "list the agents with their numbers of slots",
                     arena_strdup(a, "muster agent list"));
    }
}

// The trials that run with the new number continue from their checkpoints.
static void offer_resize(const json_t *group, long long id, struct arena *a, json_t *list)
{
    long long fits = jget_int(group, "fitsWith", 0);
    if (fits > 0)
        remedies_add(list,
                     meaning_of(group)->stuck ? "give each trial fewer slots, so that it can start"
                                              : "give each trial fewer slots; it then starts now",
                     arena_printf(a, "muster experiment resize %lld --slots %lld", id, fits));
    else if (!meaning_of(group)->stuck && jget_int(group, "needs", 0) > 1)
        remedies_add(list, "let each trial start with fewer slots, as soon as one is free",
                     arena_printf(a, "muster experiment resize %lld --min-slots 1", id));
}

// The resource tells whether the maximum is the workspace's, its user's or the cluster's.
static void offer_maximum(const struct waiting *w, const json_t *group, struct arena *a,
                          json_t *list)
{
    const char *resource = jget_string(group, "resource", "");
    const char *team = jget_string(group, "teamName", "TEAM");
    if (strstr(resource, "the cluster"))
        return;
    const char *user =
        strstr(resource, " in team ")
            ? arena_printf(a, " --user %s", jget_string(w->experiment, "username", ""))
            : "";
    remedies_add(list, "(administrators) raise the maximum",
                 arena_printf(a, "muster team set %s%s --max-slots N", team, user));
}

static void offer_moves(const struct waiting *w, const json_t *group, long long id, struct arena *a,
                        json_t *list)
{
    long long behind = jget_int(group, "behindExperimentId", 0);
    if (behind > 0 && behind != id) {
        remedies_add(list, "(administrators) put it ahead of the job it waits for",
                     arena_printf(a, "muster queue move %lld --ahead-of %lld", id, behind));
    }
    long long priority = jget_int(w->why, "priority", 42);
    if (priority > 1) {
        remedies_add(list,
                     arena_printf(a,
                                  "go before your other jobs: a number smaller than its %lld "
                                  "(below the pool's max_user_priority: administrators)",
                                  priority),
                     arena_printf(a, "muster queue move %lld --priority N", id));
    }
    remedies_add(list, "show the entitlements and slots of all teams",
                 arena_strdup(a, "muster team shares"));
}

json_t *waiting_remedies(const struct waiting *w, const json_t *group, struct arena *a)
{
    json_t *list = json_array();
    long long id = jget_int(w->experiment, "id", 0);
    if (!group) {
        if (strcmp(state_of(w->experiment), "PAUSED") == 0)
            remedies_add(list, "resume it", arena_printf(a, "muster experiment activate %lld", id));
    } else if (group_has_code(group, "NO_AGENTS")) {
        offer_agents(w, list, a);
    } else if (group_has_code(group, "OVER_AGENT") || group_has_code(group, "OVER_POOL")) {
        offer_resize(group, id, a, list);
        offer_agents(w, list, a);
    } else if (group_has_code(group, "OVER_MAXIMUM") || group_has_code(group, "TEAM_FULL")) {
        if (group_has_code(group, "OVER_MAXIMUM"))
            offer_resize(group, id, a, list);
        offer_maximum(w, group, a, list);
    } else if (group_has_code(group, "OVER_LIMIT")) {
        remedies_add(list, "remove its own maximum of slots",
                     arena_printf(a, "muster queue move %lld --max-slots 0", id));
    } else if (group_has_code(group, "BUSY") || group_has_code(group, "SPREAD") ||
               group_has_code(group, "BEHIND")) {
        offer_resize(group, id, a, list);
        offer_moves(w, group, id, a, list);
    }
    return list;
}
