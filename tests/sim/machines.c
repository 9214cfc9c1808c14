#include "tests/sim/machines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum {
    CALL_TIMEOUT = 9 * SECOND, // these five as in agent/agent.c
    BACKOFF_FIRST = 100 * MS,
    BACKOFF_MOST = 2000 * MS,
    DROP_AFTER = 10 * MS,
    ASK_AGAIN = 50 * MS,
    SIGNAL_TERM = 15,
    SIGNAL_KILL = 9,
};

// --- reports of agents ---------------------------------------------------------------------------

static json_t *number_or_null(bool known, int value)
{
    return known ? json_integer(value) : json_null();
}

// The rank that failed first is the cause; its supervisor has ended the other ranks of the machine.
static json_t *ranks_json(const struct model_part *t)
{
    json_t *ranks = json_array();
    bool exited = t->state == TASK_EXITED;
    for (int i = 0; i < t->rank_count && !t->never_ran; i++) {
        bool swept = i && (t->exit_code || t->exit_signal);
        bool by_signal = exited && (t->exit_signal || swept);
        json_t *rank =
            json_pack("{s:i, s:i, s:o, s:o}", "rank", t->first_rank + i, "pid", 1000, "exitCode",
                      number_or_null(exited && !by_signal, t->exit_code), "signal",
                      number_or_null(by_signal, swept ? SIGNAL_TERM : t->exit_signal));
        json_array_append_new(ranks, rank);
    }
    return ranks;
}

static json_t *tasks_json(const struct machine *m)
{
    static const char *const words[] = {"STARTING", "RUNNING", "EXITED"};
    json_t *tasks = json_array();
    for (const struct model_part *t = m->tasks; t; t = t->next)
        json_array_append_new(tasks, json_pack("{s:s, s:s, s:o, s:s}", "allocationId", t->run->id,
                                               "state", words[t->state], "ranks", ranks_json(t),
                                               "reason", t->reason ? t->reason : ""));
    return tasks;
}

static void poll_done(struct world *w, struct sim_call *c, int status, const json_t *answer);

static const char *machine_pool(const struct world *w, const struct machine *m)
{
    return m->number % w->pools ? "other" : "default";
}

static void post(struct world *w, struct machine *m)
{
    char session[40];
    snprintf(session, sizeof session, "%s-%d", m->id, m->life);
    if (m->poll)
        call_drop(w, m->poll);
    struct sim_call call = {.handler = core_agent_poll,
                            .name = "poll",
                            .kind = PRINCIPAL_AGENT,
                            .machine = m,
                            .timeout = CALL_TIMEOUT,
                            .done = poll_done,
                            .owner = m};
    snprintf(call.p0, sizeof call.p0, "%s", m->id);
    call.body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:O, s:I, s:o}", "version", "1",
                          "session", session, "pool", machine_pool(w, m), "hostname", m->id,
                          "address", m->id, "masterUrl", "http://master", "slots", m->slots_json,
                          "seen", (json_int_t)m->seen, "tasks", tasks_json(m));
    must(call.body);
    m->changed = false;
    m->posted_at = w->now;
    m->poll = call_send(w, &call);
}

// --- actions of agents ---------------------------------------------------------------------------

static void act(struct world *w, void *who, int64_t life);

static void act_at(struct world *w, struct machine *m, int64_t when)
{
    at(w, when, act, m, m->life);
}

void machine_wake(struct world *w, struct machine *m)
{
    m->changed = true;
    act_at(w, m, w->now);
}

static struct model_part *find_task(const struct machine *m, const char *id)
{
    for (struct model_part *t = m->tasks; t; t = t->next)
        if (!strcmp(t->run->id, id))
            return t;
    return NULL;
}

static void forget_task(struct machine *m, struct model_part *t)
{
    struct model_part **link = &m->tasks;
    while (*link != t)
        link = &(*link)->next;
    *link = t->next;
    t->gone = true;
}

static void task_ready(struct world *w, void *who, int64_t arg)
{
    struct model_part *t = who;
    (void)arg;
    if (t->gone || t->state != TASK_STARTING)
        return;
    t->state = TASK_RUNNING;
    note(w, "%s runs %s", t->machine->id, t->run->id);
    machine_wake(w, t->machine);
    program_start(w, t);
}

static struct model_part *task_new(struct world *w, struct machine *m, struct model_run *run)
{
    struct model_part *t = arena_alloc(&w->arena, sizeof *t);
    t->machine = m;
    t->run = run;
    struct model_part **last = &m->tasks;
    while (*last)
        last = &(*last)->next;
    *last = t;
    return t;
}

static void take_ranks(struct world *w, struct model_part *t, const json_t *ranks)
{
    size_t i, k;
    json_t *rank, *slot;
    t->first_rank = (int)jget_int(json_array_get(ranks, 0), "rank", -1);
    t->rank_count = (int)json_array_size(ranks);
    json_array_foreach(ranks, i, rank)
    {
        json_array_foreach(jget(rank, "slots"), k, slot)
        {
            int number = (int)json_integer_value(slot);
            if (number < 0 || number >= t->machine->slots || t->slot_count == MACHINE_SLOTS_MAX)
                broken(w, "slots_exist", "%s on slot %d of %s", t->run->id, number, t->machine->id);
            t->slots[t->slot_count++] = number;
        }
    }
}

static void begin_task(struct world *w, struct machine *m, const json_t *task)
{
    const json_t *env = jget(task, "env");
    const char *id = jget_string(task, "allocationId", "");
    if (!env)
        broken(w, "tasks_have_an_environment", "%s on %s", id, m->id);
    struct model_part *t = task_new(w, m, run_of(w, task, env));
    take_ranks(w, t, jget(task, "ranks"));
    snprintf(t->resources, sizeof t->resources, "%s", jget_string(env, "DET_RESOURCES_ID", ""));
    struct model_run *run = t->run;
    must(run->task_count < MACHINES_MAX);
    run->tasks[run->task_count++] = t;
    t->resume = jget_int(env, "DET_STEPS_COMPLETED", 0);
    note(w, "%s begins %s at step %lld", m->id, id, (long long)t->resume);
    check_begin(w, t, t->resume);
    check_slots(w, m);
    m->changed = true;
    at(w, w->now + t->run->character->start_us, task_ready, t, 0);
}

static void declare_gone(struct world *w, struct machine *m, const json_t *task)
{
    struct model_run *run = run_find(w, jget_string(task, "allocationId", ""));
    if (!run)
        run = run_of(w, task, NULL);
    struct model_part *t = task_new(w, m, run);
    t->state = TASK_EXITED;
    t->never_ran = true;
    t->reason = "ordered to end before it was started";
    m->changed = true;
}

static void end_task(struct world *w, void *who, int64_t signal)
{
    struct model_part *t = who;
    if (!t->gone && t->state != TASK_EXITED)
        task_exit(w, t, 0, (int)signal);
}

static void kill_task(struct world *w, struct model_part *t, int64_t grace_s)
{
    if (t->killed || t->state == TASK_EXITED)
        return;
    t->killed = true;
    note(w, "%s ends %s", t->machine->id, t->run->id);
    if (!t->run->character->ignores_sigterm)
        at(w, w->now + between(&w->work, MS, 800 * MS), end_task, t, SIGNAL_TERM);
    at(w, w->now + grace_s * SECOND, end_task, t, SIGNAL_KILL);
}

void task_exit(struct world *w, struct model_part *t, int code, int signal)
{
    must(t->state != TASK_EXITED);
    t->state = TASK_EXITED;
    t->exit_code = code;
    t->exit_signal = signal;
    note(w, "%s: %s exits with %s %d", t->machine->id, t->run->id, signal ? "signal" : "code",
         signal ? signal : code);
    program_gone(w, t);
    machine_wake(w, t->machine);
}

static const json_t *task_is_desired(const json_t *answer, const char *id)
{
    size_t i;
    json_t *task;
    json_array_foreach(jget(answer, "tasks"), i, task)
    {
        if (!strcmp(jget_string(task, "allocationId", ""), id))
            return task;
    }
    return NULL;
}

static bool is_forgotten(const json_t *answer, const char *id)
{
    size_t i;
    json_t *name;
    json_array_foreach(jget(answer, "forget"), i, name)
    {
        if (!strcmp(json_string_value(name), id))
            return true;
    }
    return false;
}

static bool is_run(const json_t *task)
{
    return !strcmp(jget_string(task, "action", ""), "RUN");
}

// Like the table in agent/tasks/reconcile.c.
static void desired_apply(struct world *w, struct machine *m, const json_t *answer)
{
    size_t i;
    json_t *task;
    for (struct model_part *t = m->tasks, *next; t; t = next) {
        const json_t *wish = task_is_desired(answer, t->run->id);
        next = t->next;
        if (t->state != TASK_EXITED && (!wish || !is_run(wish)))
            kill_task(w, t, jget_int(wish, "graceSeconds", 10));
        else if (t->state == TASK_EXITED && !wish && is_forgotten(answer, t->run->id))
            forget_task(m, t);
    }
    json_array_foreach(jget(answer, "tasks"), i, task)
    {
        if (find_task(m, jget_string(task, "allocationId", "")))
            continue;
        if (is_run(task))
            begin_task(w, m, task);
        else
            declare_gone(w, m, task);
    }
}

static void take_answer(struct world *w, struct machine *m, const json_t *answer)
{
    int64_t version = jget_int(answer, "version", -1);
    bool hasty = version == m->seen && w->now < m->posted_at + ASK_AGAIN;
    m->seen = version;
    m->backoff = 0;
    m->post_at = hasty ? w->now + ASK_AGAIN : w->now;
    desired_apply(w, m, answer);
}

static void poll_done(struct world *w, struct sim_call *c, int status, const json_t *answer)
{
    struct machine *m = c->owner;
    if (m->poll != c)
        return;
    m->poll = NULL;
    if (status == 401 || status == 403 || status == 400)
        broken(w, "agents_are_welcome", "%s gets %d", m->id, status);
    if (status != 200) {
        m->backoff = m->backoff ? 2 * m->backoff : BACKOFF_FIRST;
        m->backoff = m->backoff > BACKOFF_MOST ? BACKOFF_MOST : m->backoff;
        m->post_at = w->now + m->backoff;
    } else if (w->now < m->frozen_until) {
        m->held = json_incref((json_t *)answer);
    } else {
        take_answer(w, m, answer);
    }
    act_at(w, m, m->post_at);
}

static void act(struct world *w, void *who, int64_t life)
{
    struct machine *m = who;
    if (!m->up || life != m->life)
        return;
    if (w->now < m->frozen_until) {
        act_at(w, m, m->frozen_until);
        return;
    }
    if (m->held) {
        json_t *answer = m->held;
        m->held = NULL;
        take_answer(w, m, answer);
        json_decref(answer);
    }
    if (!m->poll && w->now >= m->post_at)
        post(w, m);
    else if (m->poll && m->changed && w->now >= m->posted_at + DROP_AFTER)
        post(w, m);
    else if (!m->poll)
        act_at(w, m, m->post_at);
    else if (m->changed)
        act_at(w, m, m->posted_at + DROP_AFTER);
}

// --- machines ------------------------------------------------------------------------------------

void machine_set_slots(struct machine *m, int slots)
{
    json_decref(m->slots_json);
    m->slots = slots;
    m->slots_json = json_array();
    for (int i = 0; i < slots; i++)
        json_array_append_new(m->slots_json, json_pack("{s:i, s:s, s:s, s:s}", "id", i, "type",
                                                       "CPU", "name", "cpu", "uuid", "none"));
}

struct machine *machine_add(struct world *w, int slots)
{
    if (w->machine_count == MACHINES_MAX)
        return NULL;
    struct machine *m = arena_alloc(&w->arena, sizeof *m);
    m->number = w->machine_count;
    m->full = slots;
    snprintf(m->id, sizeof m->id, "agent-%d", m->number + 1);
    machine_set_slots(m, slots);
    w->machines[w->machine_count++] = m;
    machine_up(w, m);
    return m;
}

void machine_up(struct world *w, struct machine *m)
{
    if (m->up)
        return;
    note_outside(w, "%s starts with %d slots", m->id, m->slots);
    m->up = true;
    m->life++;
    m->seen = -1;
    m->backoff = 0;
    m->post_at = w->now;
    machine_wake(w, m);
}

void machine_down(struct world *w, struct machine *m)
{
    m->up = false;
    if (m->poll)
        call_drop(w, m->poll);
    m->poll = NULL;
    json_decref(m->held);
    m->held = NULL;
}

// A disk that survives tells the next agent which tasks ran here.
void machine_crash(struct world *w, struct machine *m, bool keeps_disk)
{
    machine_down(w, m);
    for (struct model_part *t = m->tasks, *next; t; t = next) {
        next = t->next;
        if (t->state != TASK_EXITED) {
            t->state = TASK_EXITED;
            t->never_ran = true;
            t->reason = "supervisor lost: it was killed";
            program_gone(w, t);
        }
        if (!keeps_disk)
            forget_task(m, t);
    }
}

bool machine_is_cut(const struct world *w, const struct machine *m)
{
    return w->now < m->cut_until;
}

bool machine_stands(const struct world *w, const struct machine *m)
{
    return w->now >= m->cut_until;
}
