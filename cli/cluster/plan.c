#include "cli/cluster/plan.h"

#include "base/log.h"

static const struct plan_step *step_of(const struct work_plan *p, const struct plan_machine *m)
{
    return &p->steps[m->step];
}

// Moves on to the next step of the machine's roles.
static void skip_foreign_steps(const struct work_plan *p, struct plan_machine *m)
{
    while (step_of(p, m)->name && !(step_of(p, m)->roles & m->roles))
        m->step++;
    m->state = step_of(p, m)->name ? PLAN_IDLE : PLAN_DONE;
}

void plan_add(struct work_plan *p, size_t machine, int roles)
{
    p->machines[machine] = (struct plan_machine){.roles = roles};
    skip_foreign_steps(p, &p->machines[machine]);
}

static bool has_failed(const struct plan_machine *m)
{
    return m->state == PLAN_FAILED || m->state == PLAN_BARRED;
}

enum gate { OPEN, CLOSED, BARRED };

static enum gate gate_of_machine(const struct plan_machine *other, size_t step, bool must_be_good)
{
    if (has_failed(other))
        return must_be_good ? BARRED : OPEN;
    return other->state == PLAN_DONE || other->step >= step ? OPEN : CLOSED;
}

static enum gate gate_of(const struct work_plan *p, const struct plan_machine *m)
{
    enum plan_gate kind = step_of(p, m)->gate;
    if (kind == GATE_NONE)
        return OPEN;
    if (kind == GATE_MASTER)
        return m == p->machines ? OPEN : gate_of_machine(p->machines, m->step, true);
    enum gate gate = OPEN;
    for (size_t i = 0; i < p->count && gate != BARRED; i++) {
        if (&p->machines[i] == m)
            continue;
        enum gate other = gate_of_machine(&p->machines[i], m->step, kind == GATE_ALL_GOOD);
        gate = other == OPEN ? gate : other;
    }
    return gate;
}

// Whether another machine may begin a step that goes one by one.
static enum gate turn_of(const struct work_plan *p, const struct plan_machine *m)
{
    const struct plan_step *step = step_of(p, m);
    size_t busy = 0;
    for (size_t i = 0; i < p->count && step->one_by_one; i++) {
        const struct plan_machine *other = &p->machines[i];
        if (other->step != m->step || other == m)
            continue;
        if (step->ends_after_failure && other->state == PLAN_FAILED)
            return BARRED;
        busy += other->state == PLAN_BUSY;
    }
    return step->one_by_one && busy >= p->at_once ? CLOSED : OPEN;
}

enum plan_answer plan_pick(struct work_plan *p, size_t *machine)
{
    bool waits = false, barred_one = true;
    while (barred_one) { // a barred machine may bar others
        barred_one = false;
        waits = false;
        for (size_t i = 0; i < p->count; i++) {
            struct plan_machine *m = &p->machines[i];
            waits |= m->state == PLAN_BUSY;
            if (m->state != PLAN_IDLE)
                continue;
            enum gate gate = gate_of(p, m);
            gate = gate == OPEN ? turn_of(p, m) : gate;
            if (gate == OPEN) {
                m->state = PLAN_BUSY;
                *machine = i;
                return PLAN_RUN;
            }
            waits |= gate == CLOSED;
            barred_one |= gate == BARRED;
            m->state = gate == BARRED ? PLAN_BARRED : m->state;
        }
    }
    return waits ? PLAN_WAIT : PLAN_END;
}

void plan_report(struct work_plan *p, size_t machine, bool failed, bool changed)
{
    struct plan_machine *m = &p->machines[machine];
    must(m->state == PLAN_BUSY);
    m->changed |= changed;
    m->state = PLAN_FAILED;
    if (!failed) {
        m->step++;
        skip_foreign_steps(p, m);
    }
}
