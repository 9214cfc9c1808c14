#include "cli/output/failure.h"

#include <stdio.h>
#include <string.h>

#include "api/wire.h"
#include "base/text/json.h"
#include "cli/output/rows.h"

const char *failure_columns(const json_t *rows, const char *columns, struct arena *a)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (json_object_get(row, "failure") && *jget_string(row, "failure", "") != '\0')
            return arena_printf(a, "%s,failure", columns);
    }
    return columns;
}

static bool failed(const json_t *trial)
{
    const char *word = wire_word(WIRE_TRIAL_STATE, jget_string(trial, "state", ""));
    return *jget_string(trial, "exitReason", "") != '\0' && word &&
           (strcmp(word, "ERROR") == 0 || !wire_state_is_terminal(word));
}

const json_t *failure_newest(const json_t *trials)
{
    const json_t *newest = NULL, *trial;
    size_t i;
    json_array_foreach((json_t *)trials, i, trial)
    {
        if (failed(trial) && (!newest || jget_int(trial, "id", 0) > jget_int(newest, "id", 0)))
            newest = trial;
    }
    return newest;
}

void failure_print(const json_t *trial)
{
    const char *words = jget_string(trial, "lastWords", "");
    if (*words == '\0')
        return;
    const char *word = wire_word(WIRE_TRIAL_STATE, jget_string(trial, "state", ""));
    bool is_final = word && strcmp(word, "ERROR") == 0;
    printf("\n%s %lld failed (%s). The last lines of its program:\n",
           is_final ? "Trial" : "An earlier start of trial", (long long)jget_int(trial, "id", 0),
           jget_string(trial, "exitReason", ""));
    for (const char *line = words; *line != '\0';
         line += strcspn(line, "\n"), line += *line == '\n')
        printf("    %.*s\n", (int)strcspn(line, "\n"), line);
}

const char *failure_reason(const json_t *experiment)
{
    const char *summary = jget_string(experiment, "failureSummary", "");
    return *summary ? summary : jget_string(experiment, "failure", "");
}

int failure_of(const json_t *experiment, struct error *e)
{
    long long id = jget_int(experiment, "id", 0);
    const char *why = failure_reason(experiment);
    return error_set(e, ERR_FAILED,
                     "experiment %lld ended as %s%s%.700s; see: muster experiment "
                     "logs %lld",
                     id, row_state(WIRE_EXPERIMENT_STATE, experiment), *why ? ": " : "", why, id);
}
