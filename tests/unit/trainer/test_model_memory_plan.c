// Memory plans: tensors that are alive together do not overlap, and others share memory.
#include "tests/unit/trainer/arithmetic.h"
#include "trainer/model/memory_plan.h"

static bool alive_together(const struct planned_tensor *a, const struct planned_tensor *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static void check_plan(const struct memory_plan *p)
{
    for (int i = 0; i < p->count; i++) {
        const struct planned_tensor *a = &p->tensors[i];
        assert_int_equal(a->offset % 16, 0);
        assert_true(a->offset + (size_t)a->floats <= p->floats);
        for (int k = 0; k < i; k++) {
            const struct planned_tensor *b = &p->tensors[k];
            if (alive_together(a, b))
                assert_true(a->offset + (size_t)a->floats <= b->offset ||
                            b->offset + (size_t)b->floats <= a->offset);
        }
    }
}

// The largest number of floats alive at one moment, the lower bound of any plan.
static size_t max_alive_floats(const struct memory_plan *p, int moments)
{
    size_t max_floats = 0;
    for (int moment = 0; moment < moments; moment++) {
        size_t sum = 0;
        for (int i = 0; i < p->count; i++)
            if (p->tensors[i].first <= moment && moment <= p->tensors[i].last)
                sum += (size_t)p->tensors[i].floats;
        max_floats = sum > max_floats ? sum : max_floats;
    }
    return max_floats;
}

static void test_random_lifetimes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct arithmetic a = arithmetic_begin(seed);
        struct memory_plan p = {0};
        int64_t tensors = between(&a, 1, 150);
        for (int64_t i = 0; i < tensors; i++) {
            int moment = (int)between(&a, 0, 99);
            int t = memory_plan_add(&p, between(&a, 0, 1000), moment);
            memory_plan_use(&p, t, (int)between(&a, 0, 99));
        }
        memory_plan_place(&p);
        check_plan(&p);
        size_t bound = max_alive_floats(&p, 100);
        assert_true(p.floats >= bound && p.floats <= 2 * bound);
        memory_plan_free(&p);
    }
}

// A chain of equal layers whose values are kept for the backward pass, with gradients that live for
// two moments: two gradients are all the memory needed besides the values.
static void test_chain(void **state)
{
    (void)state;
    enum { LAYERS = 20, SIZE = 160 };
    struct memory_plan p = {0};
    for (int i = 0; i < LAYERS; i++) {
        int value = memory_plan_add(&p, SIZE, i);
        memory_plan_use(&p, value, 2 * LAYERS - i);
        int gradient = memory_plan_add(&p, SIZE, 2 * LAYERS - i);
        memory_plan_use(&p, gradient, 2 * LAYERS - i - 1);
    }
    memory_plan_place(&p);
    check_plan(&p);
    assert_int_equal(p.floats, (LAYERS + 2) * SIZE);
    memory_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_lifetimes),
        cmocka_unit_test(test_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
