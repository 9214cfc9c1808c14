// The keys of the searchers hyperband, tpe and pbt: their limits, and what they need.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/config/expconf.h"
#include "base/text/json.h"
#include "tests/unit/api/expconf_checks.h"

#define PBT(keys)         "entrypoint: x\nsearcher: {name: pbt, metric: a, " keys "}\n"
#define TRAINED_PBT(keys) "searcher: {name: pbt, metric: validation_loss, " keys "}\n" GPT

// LIMIT_TPE_TRIALS, LIMIT_PBT_MEMBERS, LIMIT_PBT_ROUNDS and LIMIT_PBT_SCORES, and one past them.
static void searchers_that_learn(void **state)
{
    (void)state;
    refused("entrypoint: x\nsearcher: {name: hyperband, metric: a}\n",
            "searcher: hyperband needs max_time");
    refused("searcher: {name: hyperband, metric: validation_loss, max_time: 2001}\n" GPT,
            "searcher.max_time: 2001 is more than trainer.steps (2000)");
    json_decref(
        accepted("searcher: {name: hyperband, metric: validation_loss, max_time: 2000}\n" GPT));
    json_decref(accepted("entrypoint: x\nsearcher: {name: tpe, metric: a, max_trials: 2000}\n"));
    refused("entrypoint: x\nsearcher: {name: tpe, metric: a, max_trials: 2001}\n",
            "searcher.max_trials: expected ");
    refused(PBT("population_size: 4, num_rounds: 3"), "searcher: pbt needs length_per_round");
    refused(PBT("num_rounds: 3, length_per_round: 9"), "searcher.population_size: missing");
    refused(PBT("population_size: 1001, num_rounds: 3, length_per_round: 9"),
            "searcher.population_size: expected ");
    refused(PBT("population_size: 3, num_rounds: 1001, length_per_round: 9"),
            "searcher.num_rounds: expected ");
    json_decref(accepted(PBT("population_size: 1000, num_rounds: 20, length_per_round: 9")));
    json_decref(accepted(PBT("population_size: 20, num_rounds: 1000, length_per_round: 9")));
    refused(PBT("population_size: 1000, num_rounds: 21, length_per_round: 9"),
            "searcher.num_rounds: 21 rounds of 1000 members are more than 20000 scores");
    refused(PBT("population_size: 4, num_rounds: 3, length_per_round: {batches: 0}"),
            "searcher.length_per_round: the number of batches must be greater than 0");
    refused(PBT("population_size: 4, num_rounds: 3, length_per_round: {batches: 1, epochs: 1}"),
            "searcher.length_per_round: expected one unit");
    refused(PBT("population_size: 4, num_rounds: 3, length_per_round: 9, "
                "replace_function: {truncate_fraction: 0.6}"),
            "searcher.replace_function.truncate_fraction: expected ");
    json_decref(accepted(TRAINED_PBT("population_size: 4, num_rounds: 4, length_per_round: 500")));
    refused(TRAINED_PBT("population_size: 4, num_rounds: 4, length_per_round: 501"),
            "4 rounds of 501 steps are more than trainer.steps (2000)");
    refused(TRAINED_PBT("population_size: 4, num_rounds: 4, length_per_round: {epochs: 1}"),
            "searcher.length_per_round: the native trainer counts steps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searchers_that_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
