#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/text/json.h"
#include "cli/output/rows.h"
#include "cli/output/wait_reason.h"

// Answers of a master, as master/calls writes them.
static const char experiment[] =
    "{'id':7,'name':'poems','state':'STATE_QUEUED','workspaceId':2,'workspaceName':'research',"
    "'userId':4,'username':'ada','resourcePool':'gpu'}";
static const char busy[] =
    "{'experimentId':7,'reason':'needs 4 slots; 1 of 8 in pool gpu are free; 2 before it in the "
    "queue','waiting':[{'trialId':12,'code':'BUSY','reason':'needs 4 slots','needs':4,'free':1,"
    "'largestFree':1,'largestAgent':4,'total':8,'ahead':2,'place':3,'leaving':0,'resource':'slots',"
    "'teamName':'','estimatedStart':'2026-03-01T10:12:30Z'}]}";
static const char shares[] =
    "[{'resourcePool':'gpu','workspaceId':1,'userId':null,'entitledSlots':4,'usedSlots':7},"
    "{'resourcePool':'gpu','workspaceId':2,'userId':null,'entitledSlots':4,'usedSlots':0,"
    "'wantedSlots':4,'debtSlotHours':1.5},"
    "{'resourcePool':'gpu','workspaceId':2,'userId':4,'entitledSlots':1,'usedSlots':1,"
    "'wantedSlots':1,'debtSlotHours':0}]";

struct wait_fixture {
    struct arena arena;
    struct waiting w;
    json_t *held[8];
    size_t count;
};

static json_t *keep(struct wait_fixture *f, const char *text)
{
    struct error e;
    char *json = arena_strdup(&f->arena, text);
    for (char *p = json; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    json_t *value = NULL;
    assert_int_equal(json_parse(json, strlen(json), "answer", &value, &e), 0);
    return f->held[f->count++] = value;
}

static struct wait_fixture *begin(const char *why)
{
    static struct wait_fixture f;
    f = (struct wait_fixture){0};
    f.w.experiment = keep(&f, experiment);
    f.w.why = keep(&f, why);
    assert_int_equal(clock_parse("2026-03-01T10:00:00Z", &f.w.now), 0);
    return &f;
}

static void end(struct wait_fixture *f)
{
    while (f->count > 0)
        json_decref(f->held[--f->count]);
    arena_free(&f->arena);
}

// The facts about the first group of waiting trials, or about an experiment that does not wait.
static json_t *facts_of(struct wait_fixture *f)
{
    json_t *groups = f->held[f->count++] = waiting_groups(f->w.why);
    return f->held[f->count++] = waiting_facts(&f->w, json_array_get(groups, 0), &f->arena);
}

static void expect_fact(const json_t *facts, const char *label, const char *text)
{
    assert_string_equal(jget_string(facts, label, "(none)"), text);
}

static void a_queued_one_says_what_it_waits_for(void **state)
{
    (void)state;
    struct wait_fixture *f = begin(busy);
    f->w.shares = keep(f, shares);
    assert_string_equal(waiting_sentence(&f->w, &f->arena),
                        "Experiment 7 (poems) needs 4 slots; 1 of 8 in pool gpu are free; 2 before "
                        "it in the queue.");
    const json_t *facts = facts_of(f);
    expect_fact(facts, "reason", "BUSY: too few slots are free");
    expect_fact(facts, "trial", "12");
    expect_fact(facts, "waits_for", "4 slots; 1 of 8 are free, at most 1 on one agent");
    expect_fact(facts, "place", "2 wait before it");
    expect_fact(
        facts, "start",
        "in 12m 30s; estimated from the progress of the running jobs, without new submissions");
    expect_fact(facts, "workspace",
                "research is entitled to 4 slots, holds 0, wants 4; is owed 1.5 slot hours");
    expect_fact(facts, "user", "ada is entitled to 1 slot, holds 1, wants 1");
    end(f);
}

static void trials_that_wait_for_the_same_are_one_group(void **state)
{
    (void)state;
    struct wait_fixture *f =
        begin("{'reason':'r','waiting':[{'trialId':1,'code':'BUSY','needs':2},"
              "{'trialId':2,'code':'OVER_LIMIT','needs':2,'resource':'job limit'},"
              "{'trialId':3,'code':'OVER_LIMIT','needs':2,'resource':'job limit'},"
              "{'trialId':4,'code':'OVER_LIMIT','needs':3,'resource':'job limit'}]}");
    json_t *groups = waiting_groups(f->w.why);
    assert_int_equal(json_array_size(groups), 3);
    json_t *facts = waiting_facts(&f->w, json_array_get(groups, 1), &f->arena);
    expect_fact(facts, "trials", "2 wait for the same: 2, 3");
    expect_fact(facts, "waits_for", "job limit");
    expect_fact(facts, "start", "when another of its trials ends");
    json_decref(facts);
    json_decref(groups);
    end(f);
}

static void a_long_group_is_counted(void **state)
{
    (void)state;
    struct wait_fixture *f = begin("{'reason':'r','waiting':[]}");
    json_t *entries = jget(f->w.why, "waiting");
    for (int i = 1; i <= 20; i++)
        json_array_append_new(entries, json_pack("{s:i, s:s}", "trialId", i, "code", "BUSY"));
    expect_fact(facts_of(f), "trials", "20 wait for the same: 1, 2, 3, 4, 5, 6, 7, 8 and 12 more");
    end(f);
}

static void an_impossible_job_has_no_place(void **state)
{
    (void)state;
    struct wait_fixture *f = begin("{'reason':'r','waiting':[{'code':'OVER_POOL','ahead':3}]}");
    const json_t *facts = facts_of(f);
    expect_fact(facts, "place", "(none)");
    expect_fact(facts, "start", "never with these agents");
    end(f);
}

static void a_job_that_does_not_wait_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *experiment, *why, *sentence;
    } cases[] = {
        {"{'id':1,'name':'a','state':'STATE_RUNNING'}", "{'allocatedSlots':2,'requestedSlots':4}",
         "Experiment 1 (a) runs on 2 slots of the 4 it asks for and does not wait."},
        {"{'id':1,'name':'a','state':'STATE_RUNNING'}", "{'allocatedSlots':1,'requestedSlots':1}",
         "Experiment 1 (a) runs on 1 slot and does not wait."},
        {"{'id':1,'name':'a','state':'STATE_PAUSED'}", "{}",
         "Experiment 1 (a) is paused: it holds no slots and is in no queue."},
        {"{'id':1,'name':'a','state':'STATE_COMPLETED'}", "{}",
         "Experiment 1 (a) has ended as COMPLETED and does not wait."},
        {"{'id':1,'name':'a','state':'STATE_STOPPING_CANCELED'}", "{}",
         "Experiment 1 (a) is stopping: its trials save their work and end."},
        {"{'id':1,'name':'a','state':'STATE_QUEUED'}", "{}",
         "Experiment 1 (a) has just been queued."},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wait_fixture *f = begin(cases[i].why);
        f->w.experiment = keep(f, cases[i].experiment);
        assert_string_equal(waiting_sentence(&f->w, &f->arena), cases[i].sentence);
        end(f);
    }
}

// Expects a remedy with this command whose effect begins with these words; `command` NULL: no
// remedy.
static void expect_effect(const char *entry, const char *agents, const char *command,
                          const char *effect)
{
    struct wait_fixture *f = begin("{}");
    json_t *groups = keep(f, entry);
    f->w.agents = keep(f, agents);
    json_t *list = waiting_remedies(&f->w, groups, &f->arena);
    bool found = json_array_size(list) == 0 && !command;
    for (size_t i = 0; i < json_array_size(list) && command; i++) {
        const json_t *remedy = json_array_get(list, i);
        found |= !strcmp(jget_string(remedy, "command", ""), command) &&
                 !strncmp(jget_string(remedy, "effect", ""), effect, strlen(effect));
    }
    if (!found)
        fail_msg("%s does not offer: %s", entry, command);
    json_decref(list);
    end(f);
}

static void expect_remedy(const char *entry, const char *agents, const char *command)
{
    expect_effect(entry, agents, command, "");
}

// The user learns from the effect that only administrators may do this.
static void remedies_name_administrators(void **state)
{
    (void)state;
    static const char admin[] = "(administrators) ";
    expect_effect("{'code':'NO_AGENTS'}", "[{'id':'two','enabled':false,'resourcePools':['gpu']}]",
                  "muster agent enable two", admin);
    expect_effect("{'code':'TEAM_FULL','teamName':'research'}", "[]",
                  "muster team set research --max-slots N", admin);
    expect_effect("{'code':'BEHIND','behindExperimentId':5}", "[]",
                  "muster queue move 7 --ahead-of 5", admin);
}

static void every_reason_has_a_remedy(void **state)
{
    (void)state;
    static const char here[] = "[{'id':'far','enabled':false,'resourcePools':['cpu']},"
                               "{'id':'one','enabled':true,'resourcePools':['gpu']},"
                               "{'id':'two','enabled':false,'resourcePools':['gpu']}]";
    expect_remedy("{'code':'NO_AGENTS'}", here, "muster agent enable two");
    expect_remedy("{'code':'NO_AGENTS'}", "[]", "muster agent list");
    expect_remedy("{'code':'OVER_POOL'}", here, "muster agent enable two");
    expect_remedy("{'code':'OVER_AGENT','needs':8,'fitsWith':4}", "[]",
                  "muster experiment resize 7 --slots 4");
    expect_remedy("{'code':'OVER_LIMIT'}", "[]", "muster queue move 7 --max-slots 0");
    expect_remedy("{'code':'TEAM_FULL','teamName':'research'}", "[]",
                  "muster team set research --max-slots N");
    expect_remedy("{'code':'OVER_MAXIMUM','teamName':'research'}", "[]",
                  "muster team set research --max-slots N");
    expect_remedy("{'code':'TEAM_FULL','teamName':'research','resource':'team maximum: ada in team "
                  "research'}",
                  "[]", "muster team set research --user ada --max-slots N");
    expect_remedy("{'code':'BEHIND','behindExperimentId':5}", "[]",
                  "muster queue move 7 --ahead-of 5");
    expect_remedy("{'code':'BUSY'}", "[]", "muster queue move 7 --priority N");
    expect_remedy("{'code':'SPREAD'}", "[]", "muster team shares");
    expect_remedy("{'code':'DRAINING'}", "[]", NULL);
    expect_remedy("{'code':'NOT_CONSIDERED'}", "[]", NULL);
}

// A gang of one slot has no smaller size, and an exact number is better than a minimum.
static void a_gang_can_become_smaller(void **state)
{
    (void)state;
    static const char resize[] = "muster experiment resize 7 --slots 2";
    expect_effect("{'code':'OVER_POOL','needs':8,'fitsWith':2}", "[]", resize, "give each trial");
    expect_effect("{'code':'OVER_MAXIMUM','needs':8,'fitsWith':2}", "[]", resize,
                  "give each trial");
    expect_effect("{'code':'SPREAD','needs':4,'fitsWith':2}", "[]", resize,
                  "give each trial fewer slots; it then starts now");
    expect_effect("{'code':'BUSY','needs':4,'fitsWith':0}", "[]",
                  "muster experiment resize 7 --min-slots 1", "let each trial start with fewer");
    struct wait_fixture *f = begin("{}");
    json_t *list = waiting_remedies(&f->w, keep(f, "{'code':'BUSY','needs':1}"), &f->arena);
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_null(strstr(jget_string(json_array_get(list, i), "command", ""), "resize"));
    json_decref(list);
    end(f);
}

static void a_time_is_told_from_now(void **state)
{
    (void)state;
    int64_t now;
    char text[WAITING_UNTIL_MAX];
    assert_int_equal(clock_parse("2026-03-01T10:00:00Z", &now), 0);
    assert_string_equal(waiting_until(NULL, now, text), "");
    assert_string_equal(waiting_until("2026-03-01T09:59:59.500Z", now, text), "any moment");
    assert_string_equal(waiting_until("2026-03-01T09:59:00Z", now, text), "");
    assert_string_equal(waiting_until("2026-03-01T12:30:00Z", now, text), "in 2h 30m");
}

static void a_job_is_a_row(void **state)
{
    (void)state;
    struct wait_fixture *f = begin("{}");
    json_t *row = row_job(keep(
        f, "{'full':{'summary':{'state':'STATE_QUEUED','jobsAhead':3},'place':3,'entityId':'7',"
           "'name':'poems','priority':42,'allocatedSlots':1,'requestedSlots':4,'reasonCode':'BUSY',"
           "'submissionTime':'2026-03-01T09:00:00Z','estimatedStart':null,'reason':'needs'}}"));
    assert_int_equal(jget_int(row, "place", -1), 3);
    expect_fact(row, "id", "7");
    expect_fact(row, "state", "QUEUED");
    expect_fact(row, "slots", "1/4");
    expect_fact(row, "start", "");
    expect_fact(row, "code", "BUSY");
    assert_true(jget_double(row, "waits_s", 0) > 0);
    json_decref(row);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queued_one_says_what_it_waits_for),
        cmocka_unit_test(trials_that_wait_for_the_same_are_one_group),
        cmocka_unit_test(a_long_group_is_counted),
        cmocka_unit_test(an_impossible_job_has_no_place),
        cmocka_unit_test(a_job_that_does_not_wait_says_so),
        cmocka_unit_test(remedies_name_administrators),
        cmocka_unit_test(every_reason_has_a_remedy),
        cmocka_unit_test(a_gang_can_become_smaller),
        cmocka_unit_test(a_time_is_told_from_now),
        cmocka_unit_test(a_job_is_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
