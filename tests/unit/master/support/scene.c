#include "tests/unit/master/support/scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "master/sched/explain.h"
#include "master/sched/sched.h"

enum { NAMES = 256, WORD = 200, WORDS = 128 };
enum { NO_LANE = 0 };

struct scene_names {
    char text[NAMES][32];
    int handle[NAMES], count;
};

struct scene_gang { // the state of a gang
    struct sched_gang_spec spec;
    int64_t since; // beginning of the wait, or of the run
    bool placed, leaving;
};

struct scene_play {
    const char *title;
    char line[8 * WORD]; // the statement, for messages
    char words[WORDS][WORD];
    int count; // number of words
    struct sched *s;
    int64_t now, orders;
    int pools;
    struct scene_names teams, jobs, gangs; // the index in gangs is the tag
    struct sched_job_spec job_specs[NAMES];
    struct sched_team_spec team_specs[NAMES];
    struct scene_gang gang_states[NAMES];
    const struct sched_command *commands;
    size_t command_count;
};

#define FAIL(p, ...)                                                                               \
    do {                                                                                           \
        print_error(__VA_ARGS__);                                                                  \
        fail_msg(" in \"%s\" of: %s", (p)->line, (p)->title);                                      \
    } while (0)

static const char *const reason_names[SCHED_REASON_COUNT] = {
    "placed",     "not_considered", "no_agents", "over_agent", "over_pool", "over_maximum",
    "over_limit", "team_full",      "busy",      "spread",     "behind",    "draining"};
static const char *const cause_names[SCHED_CAUSES] = {"priority", "share", "service", "shrink",
                                                      "grow",     "move",  "resize"};

// --- words ---------------------------------------------------------------------------------------

static void text_copy(char *out, size_t cap, const char *text, size_t len)
{
    assert_true(len < cap);
    memcpy(out, text, len);
    out[len] = 0;
}

// Splits the next statement; returns the rest of the text, NULL at the end.
static const char *statement_split(struct scene_play *p, const char *at)
{
    size_t len = strcspn(at, ";");
    if (!at[len] && strspn(at, " ") == len)
        return NULL;
    text_copy(p->line, sizeof p->line, at, len);
    p->count = 0;
    for (const char *w = p->line; *(w += strspn(w, " "));) {
        size_t word = strcspn(w, " ");
        assert_true(p->count < WORDS);
        text_copy(p->words[p->count++], WORD, w, word);
        w += word;
    }
    return at + len + (at[len] == ';');
}

// "30", "5m", "2h": with a unit, in microseconds.
static int64_t number(struct scene_play *p, const char *text)
{
    static const char units[] = "smhd";
    static const int64_t seconds[] = {1, 60, 3600, 86400};
    char *end;
    if (!strcmp(text, "none"))
        return -1;
    long long value = strtoll(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (end == text || (*end && !unit && *end != '.' && *end != ',' && *end != '-'))
        FAIL(p, "\"%s\" is not a number", text);
    return unit ? value * seconds[unit - units] * 1000000 : value;
}

static int choice(struct scene_play *p, const char *const *names, int count, const char *text)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], text))
            return i;
    FAIL(p, "\"%s\" is unknown;", text);
    return -1;
}

static const char *value_of(const char *word, const char *key)
{
    size_t len = strlen(key);
    return !strncmp(word, key, len) && word[len] == '=' ? word + len + 1 : NULL;
}

// The value of "key=value" among the words of the statement.
static int64_t option(struct scene_play *p, const char *key, int64_t otherwise)
{
    for (int i = 1; i < p->count; i++) {
        const char *value = value_of(p->words[i], key);
        if (value)
            return number(p, value);
    }
    return otherwise;
}

static int find_name(const struct scene_names *names, const char *text)
{
    for (int i = 0; i < names->count; i++)
        if (!strcmp(names->text[i], text))
            return i;
    return -1;
}

static int name(struct scene_play *p, const struct scene_names *names, const char *text)
{
    int i = find_name(names, text);
    if (i < 0)
        FAIL(p, "no earlier statement names \"%s\";", text);
    return i;
}

static int add_name(struct scene_names *names, const char *text)
{
    assert_true(names->count < NAMES);
    text_copy(names->text[names->count], sizeof *names->text, text, strlen(text));
    return names->count++;
}

// "0.1,0.2"
static size_t read_places(struct scene_play *p, const char *text, struct sched_place *out)
{
    size_t count = 0;
    for (; text; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
        const char *dot = strchr(text, '.');
        assert_non_null(dot);
        out[count++] = (struct sched_place){(int)number(p, text), (int)number(p, dot + 1)};
    }
    return count;
}

// --- pools, agents, teams ------------------------------------------------------------------------

static void do_pool(struct scene_play *p)
{
    int policy = choice(p, sched_policy_names, SCHED_POLICIES, p->words[1]);
    int64_t which = option(p, "is", -1);
    if (which >= 0)
        sched_pool_set(p->s, (int)which, (enum sched_policy)policy);
    else
        assert_int_equal(sched_pool_add(p->s, (enum sched_policy)policy), p->pools++);
}

static void need_pool(struct scene_play *p)
{
    if (!p->pools)
        p->pools = 1 + sched_pool_add(p->s, SCHED_POLICY_FAIR_SHARE);
}

static void do_agents(struct scene_play *p)
{
    need_pool(p);
    for (int i = 1; i < p->count; i++) {
        const char *rack = strchr(p->words[i], '/');
        if (strchr(p->words[i], '='))
            continue;
        char slots[WORD];
        text_copy(slots, WORD, p->words[i], strcspn(p->words[i], "/"));
        int agent = sched_agent_add(p->s, (int)option(p, "pool", 0), (int)number(p, slots),
                                    rack ? (int)number(p, rack + 1) : SCHED_NONE);
        sched_agent_set(p->s, agent, true);
    }
}

static void do_lost(struct scene_play *p)
{
    sched_agent_set(p->s, (int)number(p, p->words[1]), false);
}

static void do_back(struct scene_play *p)
{
    sched_agent_set(p->s, (int)number(p, p->words[1]), true);
}

static void do_gone(struct scene_play *p)
{
    sched_agent_remove(p->s, (int)number(p, p->words[1]));
}

static void do_near(struct scene_play *p)
{
    int groups[3][WORD] = {0};
    for (int kind = 0; kind + 2 < p->count; kind++)
        for (int i = 0; p->words[2 + kind][i]; i++)
            groups[kind][i] = p->words[2 + kind][i] == '-' ? -1 : p->words[2 + kind][i];
    sched_agent_set_nearness(p->s, (int)number(p, p->words[1]), groups[0], groups[1], groups[2]);
}

static void set_slot(struct scene_play *p, bool enabled)
{
    struct sched_place place;
    for (int i = 1; i < p->count; i++) {
        read_places(p, p->words[i], &place);
        sched_slot_set(p->s, place.agent, place.slot, enabled);
    }
}

static void do_off(struct scene_play *p)
{
    set_slot(p, false);
}

static void do_on(struct scene_play *p)
{
    set_slot(p, true);
}

static void do_team(struct scene_play *p)
{
    int i = find_name(&p->teams, p->words[1]), parent = SCHED_ROOT;
    struct sched_team_spec old =
        i < 0 ? (struct sched_team_spec){.weight = 1000} : p->team_specs[i];
    struct sched_team_spec spec = {option(p, "weight", old.weight),
                                   option(p, "guarantee", old.guaranteed),
                                   option(p, "max", old.maximum)};
    need_pool(p);
    if (i >= 0) {
        sched_team_set(p->s, p->teams.handle[i], &spec);
        p->team_specs[i] = spec;
        return;
    }
    const char *slash = strrchr(p->words[1], '/');
    if (slash) {
        char above[WORD];
        text_copy(above, WORD, p->words[1], (size_t)(slash - p->words[1]));
        parent = p->teams.handle[name(p, &p->teams, above)];
    }
    i = add_name(&p->teams, p->words[1]);
    p->team_specs[i] = spec;
    p->teams.handle[i] = sched_team_add(p->s, parent, &spec);
}

static void do_disband(struct scene_play *p)
{
    int i = name(p, &p->teams, p->words[1]);
    sched_team_remove(p->s, p->teams.handle[i]);
    p->teams.text[i][0] = 0;
}

static void do_restore(struct scene_play *p)
{
    int team = p->teams.handle[name(p, &p->teams, p->words[1])];
    sched_team_restore(p->s, team, number(p, p->words[2]) / 1000000, p->now);
}

// --- jobs and gangs ------------------------------------------------------------------------------

// Sets the keys of a job that the statement gives; the others keep their values.
static struct sched_job_spec read_job(struct scene_play *p, struct sched_job_spec job)
{
    job.pool = (int)option(p, "pool", job.pool);
    job.priority = (int)option(p, "priority", job.priority);
    job.order = option(p, "order", job.order);
    job.limit = option(p, "limit", job.limit);
    job.weight = option(p, "weight", job.weight);
    job.service = option(p, "service", job.service);
    for (int i = 1; i < p->count; i++) {
        const char *team = value_of(p->words[i], "team");
        if (team)
            job.team = p->teams.handle[name(p, &p->teams, team)];
    }
    return job;
}

// The team of jobs that name none.
static int default_team(struct scene_play *p)
{
    int i = find_name(&p->teams, "someone");
    if (i < 0) {
        i = add_name(&p->teams, "someone");
        p->team_specs[i] = (struct sched_team_spec){.weight = 1000};
        p->teams.handle[i] = sched_team_add(p->s, SCHED_ROOT, &p->team_specs[i]);
    }
    return p->teams.handle[i];
}

static int make_job(struct scene_play *p, const char *text)
{
    bool has_team = false;
    need_pool(p);
    for (int k = 1; k < p->count; k++)
        has_team |= value_of(p->words[k], "team") != NULL;
    struct sched_job_spec fresh = {.team = has_team ? SCHED_ROOT : default_team(p),
                                   .priority = SCHED_PRIORITY_DEFAULT,
                                   .order = ++p->orders,
                                   .weight = SCHED_WEIGHT_ONE};
    int i = add_name(&p->jobs, text);
    p->job_specs[i] = read_job(p, fresh);
    p->jobs.handle[i] = sched_job_add(p->s, &p->job_specs[i]);
    return i;
}

static void do_job(struct scene_play *p)
{
    int i = find_name(&p->jobs, p->words[1]);
    if (i < 0) {
        make_job(p, p->words[1]);
        return;
    }
    p->job_specs[i] = read_job(p, p->job_specs[i]);
    sched_job_set(p->s, p->jobs.handle[i], &p->job_specs[i]);
}

static void do_gang(struct scene_play *p)
{
    int tag = add_name(&p->gangs, p->words[1]), job = -1;
    struct sched_gang_spec spec = {.tag = tag, .waited = option(p, "waited", 0)};
    const char *dash = strchr(p->words[2], '-');
    spec.min_slots = (int)number(p, p->words[2]);
    spec.max_slots = dash ? (int)number(p, dash + 1) : spec.min_slots;
    for (int i = 3; i < p->count; i++) {
        const char *is_job = value_of(p->words[i], "job"), *not = value_of(p->words[i], "not");
        if (is_job)
            job = name(p, &p->jobs, is_job);
        if (not )
            spec.excluded[spec.excluded_count++] = (int)number(p, not );
        spec.one_agent |= !strcmp(p->words[i], "one");
        spec.non_preemptible |= !strcmp(p->words[i], "stays");
    }
    spec.job = p->jobs.handle[job >= 0 ? job : make_job(p, p->words[1])];
    p->gang_states[tag] = (struct scene_gang){.spec = spec, .since = p->now};
    p->gangs.handle[tag] = sched_gang_add(p->s, &spec, p->now);
}

// "resize a 2-4": a gang that runs again afterwards (drain, again) has the new range.
static void do_resize(struct scene_play *p)
{
    int tag = name(p, &p->gangs, p->words[1]);
    struct sched_gang_spec *spec = &p->gang_states[tag].spec;
    const char *dash = strchr(p->words[2], '-');
    spec->min_slots = (int)number(p, p->words[2]);
    spec->max_slots = dash ? (int)number(p, dash + 1) : spec->min_slots;
    sched_gang_resize(p->s, p->gangs.handle[tag], spec->min_slots, spec->max_slots);
}

static void do_end(struct scene_play *p)
{
    for (int i = 1; i < p->count; i++) {
        int tag = name(p, &p->gangs, p->words[i]);
        sched_gang_remove(p->s, p->gangs.handle[tag], p->now);
        p->gang_states[tag].placed = p->gang_states[tag].leaving = false;
    }
}

static void gang_requeue(struct scene_play *p, int tag)
{
    struct scene_gang *a = &p->gang_states[tag];
    sched_gang_remove(p->s, p->gangs.handle[tag], p->now);
    a->placed = a->leaving = false;
    a->since = p->now;
    p->gangs.handle[tag] = sched_gang_add(p->s, &a->spec, p->now);
}

static void do_again(struct scene_play *p)
{
    for (int i = 1; i < p->count; i++)
        gang_requeue(p, name(p, &p->gangs, p->words[i]));
}

static void do_drain(struct scene_play *p)
{
    for (int tag = 0; tag < p->gangs.count; tag++)
        if (p->gang_states[tag].leaving)
            gang_requeue(p, tag);
}

static int handle_of(struct scene_play *p)
{
    return p->gangs.handle[name(p, &p->gangs, p->words[1])];
}

static void do_leave(struct scene_play *p)
{
    sched_gang_set_leaving(p->s, handle_of(p));
    p->gang_states[name(p, &p->gangs, p->words[1])].leaving = true;
}

static void do_saved(struct scene_play *p)
{
    sched_gang_set_saved(p->s, handle_of(p), p->now);
}

static void do_expect(struct scene_play *p)
{
    const struct scene_gang *a = &p->gang_states[name(p, &p->gangs, p->words[1])];
    sched_gang_set_expected_end(p->s, handle_of(p),
                                (a->placed ? p->now : 0) + number(p, p->words[2]));
}

static void do_adopt(struct scene_play *p)
{
    struct sched_place places[WORDS];
    struct scene_gang *a = &p->gang_states[name(p, &p->gangs, p->words[1])];
    size_t count = read_places(p, p->words[2], places);
    a->placed = true;
    a->since = p->now - (p->count > 3 ? number(p, p->words[3]) : 0);
    sched_gang_adopt(p->s, handle_of(p), places, count, a->since);
}

static void do_wait(struct scene_play *p)
{
    p->now += number(p, p->words[1]);
}

// --- passes --------------------------------------------------------------------------------------

// A command in the notation of a scene, with places.
static char *command_text(const struct scene_play *p, const struct sched_command *c)
{
    const char *who = p->gangs.text[c->tag];
    if (c->kind == SCHED_DRAIN)
        return xasprintf("-%s:%s%s%s", who, cause_names[c->cause],
                         c->beneficiary == SCHED_NONE ? "" : ":",
                         c->beneficiary == SCHED_NONE ? "" : p->gangs.text[c->beneficiary]);
    char *text = xasprintf("%s=", who);
    for (size_t i = 0; i < c->count; i++) {
        char *longer =
            xasprintf("%s%s%d.%d", text, i ? "," : "", c->places[i].agent, c->places[i].slot);
        free(text);
        text = longer;
    }
    return text;
}

// "a" expects a start with any places, "-a" a drain for any cause, "-a:share" in favour of any
// gang.
static bool agrees(const char *text, const char *expected)
{
    size_t len = strlen(expected);
    char after = expected[0] == '-' ? ':' : '=';
    return !strncmp(text, expected, len) && (!text[len] || text[len] == after);
}

static void note(struct scene_play *p, const struct sched_command *c)
{
    struct scene_gang *a = &p->gang_states[c->tag];
    if (c->kind == SCHED_DRAIN) {
        a->leaving = true;
        return;
    }
    a->placed = true;
    a->spec.waited += p->now - a->since;
    a->since = p->now;
}

static void do_pass(struct scene_play *p)
{
    char *texts[NAMES], *all = xstrdup("");
    bool expected[NAMES] = {false}, all_expected = true;
    need_pool(p);
    size_t count = sched_pass(p->s, p->now, &p->commands);
    for (size_t i = 0; i < count; i++) {
        texts[i] = command_text(p, &p->commands[i]);
        note(p, &p->commands[i]);
        char *longer = xasprintf("%s %s", all, texts[i]);
        free(all);
        all = longer;
    }
    for (int w = 1; w < p->count; w++) {
        size_t i = 0;
        while (i < count && (expected[i] || !agrees(texts[i], p->words[w])))
            i++;
        all_expected &= i < count;
        if (i < count)
            expected[i] = true;
    }
    if (!all_expected || (int)count != p->count - 1)
        FAIL(p, "commands:%s;", all);
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    free(all);
    sched_check(p->s);
    if (sched_pass(p->s, p->now, &p->commands))
        FAIL(p, "a second pass at the same time gives commands;");
}

// --- questions -----------------------------------------------------------------------------------

struct expected_answer {
    const char *key;
    int64_t value;
};

// Checks every "key=value" of the statement.
static void check_answers(struct scene_play *p, const struct expected_answer *answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t wanted = option(p, answers[i].key, answers[i].value);
        if (wanted != answers[i].value)
            FAIL(p, "%s is %lld;", answers[i].key, (long long)answers[i].value);
    }
    for (int w = 2; w < p->count; w++) {
        size_t i = 0, len = strcspn(p->words[w], "=");
        while (i < count && (strncmp(answers[i].key, p->words[w], len) || answers[i].key[len]))
            i++;
        if (p->words[w][len] && i == count && strncmp(p->words[w], "pool=", 5))
            FAIL(p, "%s is not known;", p->words[w]);
    }
}

static void check_name(struct scene_play *p, const char *key, const struct scene_names *names,
                       int at)
{
    for (int w = 2; w < p->count; w++) {
        const char *value = value_of(p->words[w], key);
        if (!value)
            continue;
        if (at < 0 || strcmp(names->text[at], value))
            FAIL(p, "%s is %s;", key, at < 0 ? "nobody" : names->text[at]);
        text_copy(p->words[w], WORD, "pool=", 5); // marks the word as used
    }
}

static void do_why(struct scene_play *p)
{
    struct sched_reason r;
    sched_explain_gang(p->s, handle_of(p), p->now, &r);
    if (strcmp(reason_names[r.code], p->words[2]))
        FAIL(p, "the reason is %s;", reason_names[r.code]);
    int team = 0;
    while (team < p->teams.count && (r.team == SCHED_NONE || p->teams.handle[team] != r.team))
        team++;
    check_name(p, "behind", &p->gangs, (int)r.behind);
    check_name(p, "team", &p->teams, team == p->teams.count ? -1 : team);
    const struct expected_answer answers[] = {{"needs", r.needs},
                                              {"free", r.free},
                                              {"largest_free", r.largest_free},
                                              {"largest", r.largest},
                                              {"total", r.total},
                                              {"ahead", r.ahead},
                                              {"job_used", r.job_used},
                                              {"job_limit", r.job_limit},
                                              {"team_used", r.team_used},
                                              {"team_limit", r.team_limit},
                                              {"leaving", r.leaving},
                                              {"could", r.would_fit},
                                              {"start", r.start ? r.start - p->now : -1}};
    check_answers(p, answers, sizeof answers / sizeof *answers);
}

static void do_queue(struct scene_play *p)
{
    int64_t tags[NAMES];
    size_t count = sched_waiting_gangs(p->s, (int)option(p, "pool", 0), p->now, tags, NAMES),
           at = 0;
    for (int i = 1; i < p->count; i++) {
        if (strchr(p->words[i], '='))
            continue;
        if (at == count || strcmp(p->gangs.text[tags[at]], p->words[i]))
            FAIL(p, "at place %zu is %s;", at, at == count ? "nobody" : p->gangs.text[tags[at]]);
        at++;
    }
    if (at != count)
        FAIL(p, "there are %zu;", count);
}

static void do_next(struct scene_play *p)
{
    int64_t next = sched_next_pass(p->s);
    int64_t wanted = strcmp(p->words[1], "never") ? p->now + number(p, p->words[1]) : INT64_MAX;
    if (next < wanted || (wanted < INT64_MAX && next > wanted + 2))
        FAIL(p, "it is in %lld us;", (long long)(next == INT64_MAX ? -1 : next - p->now));
}

static void do_share(struct scene_play *p)
{
    struct sched_share r;
    int team =
        strcmp(p->words[1], "all") ? p->teams.handle[name(p, &p->teams, p->words[1])] : SCHED_ROOT;
    sched_team_share(p->s, team, (int)option(p, "pool", 0), p->now, &r);
    const struct expected_answer answers[] = {{"used", r.used},
                                              {"wanted", r.wanted},
                                              {"entitled", r.entitled},
                                              {"usage", r.usage * 1000000},
                                              {"debt", r.debt * 1000000}};
    check_answers(p, answers, sizeof answers / sizeof *answers);
}

static void do_look(struct scene_play *p)
{
    struct sched_pool_view r;
    sched_pool_inspect(p->s, (int)option(p, "pool", 0), &r);
    const struct expected_answer answers[] = {{"agents", r.agents},
                                              {"slots", r.slots},
                                              {"free", r.free},
                                              {"waiting", r.waiting},
                                              {"running", r.running}};
    check_answers(p, answers, sizeof answers / sizeof *answers);
}

static void set_lane(struct scene_play *p, int percent)
{
    struct sched_rules rules = sched_default_rules;
    rules.fast_percent = percent;
    sched_free(p->s);
    p->s = sched_new(&rules);
}

static void do_lane(struct scene_play *p)
{
    set_lane(p, p->count > 1 ? (int)number(p, p->words[1]) : sched_default_rules.fast_percent);
}

static const struct {
    const char *word;
    void (*act)(struct scene_play *);
} verbs[] = {
    {"pool", do_pool},       {"agents", do_agents},   {"lost", do_lost},   {"back", do_back},
    {"gone", do_gone},       {"off", do_off},         {"on", do_on},       {"team", do_team},
    {"disband", do_disband}, {"restore", do_restore}, {"job", do_job},     {"gang", do_gang},
    {"end", do_end},         {"again", do_again},     {"leave", do_leave}, {"saved", do_saved},
    {"expect", do_expect},   {"adopt", do_adopt},     {"wait", do_wait},   {"pass", do_pass},
    {"drain", do_drain},     {"resize", do_resize},   {"why", do_why},     {"queue", do_queue},
    {"next", do_next},       {"share", do_share},     {"look", do_look},   {"near", do_near},
    {"lane", do_lane},
};

static void statement_run(struct scene_play *p)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].word, p->words[0])) {
            verbs[i].act(p);
            return;
        }
    FAIL(p, "\"%s\" is not a verb", p->words[0]);
}

static void scene_run(const struct scene *scene)
{
    struct scene_play *p = xcalloc(1, sizeof *p);
    p->title = scene->title;
    p->now = 1000000LL * 3600 * 24 * 365;
    set_lane(p, NO_LANE);
    for (const char *at = scene->play; (at = statement_split(p, at));) {
        statement_run(p);
        sched_check(p->s);
    }
    sched_free(p->s);
    free(p);
}

void scenes_run(const struct scene *scenes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        scene_run(&scenes[i]);
}
