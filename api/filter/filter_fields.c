// The fields of the filter language, and texts made from the table: help, and trees as text.

#include <stdio.h>
#include <string.h>

#include "api/filter/filter.h"
#include "base/clock.h"

#define BOTH (FILTER_EXPERIMENTS | FILTER_TRIALS)
#define EXP  FILTER_EXPERIMENTS
#define RUNS FILTER_RUNS

// clang-format off
const struct filter_field filter_fields[] = {
    // name, type, lists, optional, sortable, help
    {"id", FILTER_NUMBER, BOTH | RUNS, false, true, "its number"},
    {"experiment", FILTER_NUMBER, RUNS, false, true, "the number of its experiment"},
    {"name", FILTER_TEXT, EXP | RUNS, false, true, "its name"},
    {"description", FILTER_TEXT, EXP | RUNS, false, true, "its description"},
    {"notes", FILTER_TEXT, EXP, false, false, "the notes of users"},
    {"text", FILTER_WORDS, EXP, false, false, "words of name, description, labels and notes"},
    {"label", FILTER_TEXT, EXP | RUNS, true, false, "one of its labels"},
    {"state", FILTER_STATE, BOTH | RUNS, false, true, "ACTIVE (any of QUEUED PULLING STARTING RUNNING), PAUSED, COMPLETED, CANCELED, ERROR, .."},
    {"archived", FILTER_FLAG, EXP | RUNS, true, false, "whether it is archived (hidden from lists)"},
    {"unmanaged", FILTER_FLAG, EXP | RUNS, true, false, "whether its programs run elsewhere"},
    {"owner", FILTER_TEXT, EXP | RUNS, false, true, "the user who submitted it"},
    {"user_id", FILTER_NUMBER, EXP | RUNS, false, true, "the id of that user"},
    {"workspace", FILTER_TEXT, EXP, false, true, "the name of its workspace"},
    {"project", FILTER_TEXT, EXP, false, true, "the name of its project"},
    {"project_id", FILTER_NUMBER, EXP | RUNS, false, true, "the id of its project"},
    {"forked_from", FILTER_NUMBER, EXP | RUNS, true, true, "the experiment it was forked from"},
    {"searcher", FILTER_TEXT, EXP | RUNS, false, true, "the searcher: single, random, .."},
    {"resource_pool", FILTER_TEXT, EXP | RUNS, false, true, "the pool it runs in"},
    {"slots", FILTER_NUMBER, EXP, false, true, "slots of a trial"},
    {"trials", FILTER_NUMBER, EXP | RUNS, false, true, "the number of its trials"},
    {"checkpoints", FILTER_NUMBER, BOTH | RUNS, false, true, "the number of its checkpoints that are not deleted"},
    {"checkpoint_size", FILTER_NUMBER, BOTH | RUNS, false, true, "the size of these checkpoints, in bytes"},
    {"external_id", FILTER_TEXT, EXP | RUNS, true, true, "the name that its submitter gave to the experiment"},
    {"steps", FILTER_NUMBER, FILTER_TRIALS, false, true, "steps completed"},
    {"restarts", FILTER_NUMBER, FILTER_TRIALS | RUNS, false, true, "failures of its program so far, the last one included"},
    {"reason", FILTER_TEXT, FILTER_TRIALS, false, true, "the reason why it last ended or restarted"},
    {"progress", FILTER_NUMBER, BOTH | RUNS, false, true, "from 0 to 1"},
    {"metric", FILTER_NUMBER, BOTH | RUNS, true, true, "the best value of the searcher's metric"},
    {"started", FILTER_TIME, BOTH | RUNS, false, true, "time of the submission; of a trial: of its creation"},
    {"ended", FILTER_TIME, BOTH | RUNS, true, true, "when it ended"},
    {"duration", FILTER_DURATION, BOTH | RUNS, false, true, "time from started to ended, or until now"},
    {"ran", FILTER_DURATION, FILTER_TRIALS, false, true, "time that it ran, without waiting"},
    {"log_days", FILTER_NUMBER, FILTER_TRIALS, true, true, "days for which its log is kept; empty: by the master's rule"},
    {"hparams", FILTER_HPARAM, BOTH | RUNS, true, true, "hparams.PATH: a hyperparameter, as in hparams.optimizer.momentum"},
    {"training", FILTER_METRIC, BOTH | RUNS, true, true, "training.NAME: a metric, its last value; also .min and .max"},
    {"validation", FILTER_METRIC, BOTH | RUNS, true, true, "validation.NAME: the same for validation metrics"},
    {0},
};
// clang-format on

static const char *const operators[] = {
    [FILTER_EQ] = "=",  [FILTER_NE] = "!=",   [FILTER_LT] = "<",  [FILTER_LE] = "<=",
    [FILTER_GT] = ">",  [FILTER_GE] = ">=",   [FILTER_IN] = "in", [FILTER_NOT_IN] = "not in",
    [FILTER_HAS] = "~", [FILTER_FINDS] = ":", [FILTER_IS] = "",
};

const char *filter_op_text(enum filter_op op)
{
    return operators[op];
}

// --- a tree as text ------------------------------------------------------------------------------

static void print_quoted(const char *text, struct buf *out)
{
    buf_puts(out, "\"");
    for (; *text; text++)
        buf_printf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    buf_puts(out, "\"");
}

static void print_name(const struct filter_name *name, struct buf *out)
{
    static const char *const picks[] = {"last", "min", "max"};
    buf_puts(out, name->field->name);
    for (size_t i = 0; i < name->part_count; i++) {
        buf_puts(out, ".");
        print_quoted(name->parts[i], out);
    }
    if (name->field->type == FILTER_METRIC)
        buf_printf(out, ".%s", picks[name->pick]);
}

static void print_value(const struct filter_value *v, struct buf *out)
{
    char time[CLOCK_RFC3339_MAX];
    switch (v->kind) {
    case FILTER_IS_NUMBER:
        buf_printf(out, "%.17g", v->number);
        break;
    case FILTER_IS_TEXT:
        print_quoted(v->text, out);
        break;
    case FILTER_IS_TIME:
        buf_puts(out, clock_format(v->time, time));
        break;
    case FILTER_IS_AGO:
        buf_printf(out, "-%.17gs", (double)v->time / 1e6);
        break;
    }
}

static void print_test(const struct filter_node *n, struct buf *out)
{
    print_name(&n->name, out);
    if (n->op == FILTER_IS)
        return;
    buf_printf(out, " %s ", operators[n->op]);
    bool many = n->op == FILTER_IN || n->op == FILTER_NOT_IN;
    buf_puts(out, many ? "(" : "");
    for (size_t i = 0; i < n->value_count; i++) {
        buf_puts(out, i ? ", " : "");
        print_value(&n->values[i], out);
    }
    buf_puts(out, many ? ")" : "");
}

static void print_group(const struct filter_node *n, const char *word, struct buf *out)
{
    for (const struct filter_node *c = n->child; c; c = c->next) {
        bool plain = c->shape == FILTER_TEST || c->shape == FILTER_NOT;
        buf_printf(out, "%s%s", c == n->child ? "" : word, plain ? "" : "(");
        filter_print(c, out);
        buf_puts(out, plain ? "" : ")");
    }
}

void filter_print(const struct filter_node *n, struct buf *out)
{
    if (!n)
        return;
    switch (n->shape) {
    case FILTER_AND:
        print_group(n, " and ", out);
        break;
    case FILTER_OR:
        print_group(n, " or ", out);
        break;
    case FILTER_NOT:
        buf_puts(out, "not (");
        filter_print(n->child, out);
        buf_puts(out, ")");
        break;
    case FILTER_TEST:
        print_test(n, out);
        break;
    }
}

// --- help ----------------------------------------------------------------------------------------

static const char intro[] =
    "Filters and sort orders of lists (muster experiment list --filter .. --sort ..):\n\n"
    "  state = RUNNING and (validation.loss < 0.3 or hparams.optimizer = adam)\n"
    "  label in (vision, nlp) and name ~ resnet and not archived\n"
    "  text : \"image net\" and started > -7d and duration > 1h30m\n\n"
    "Combine tests by and, or, not and ( ). Operators: = != < <= > >=, in (a, b), not in (a, "
    "b),\n"
    "~ (contains, in any case), : (contains all these words; net* matches words that begin with "
    "net). A bare name tests\n"
    "whether there is a value: ended, label, validation.loss, not archived.\n\n"
    "Values: numbers; texts, in quotes if they contain blanks, commas or parentheses; times as\n"
    "2026-11-21, 2026-11-21T10:00:00Z or an age such as -7d; durations as 90, 30s, 5m, 1h30m, 2d.\n"
    "Quote parts of a name that contain characters other than letters, digits, _ - and /:\n"
    "validation.\"top 5\".max. A test is false if there is no value; != is the same as not =.\n"
    "An experiment passes a test of hparams or label if one of its trials or labels does; its\n"
    "metrics are over all its trials: the last value, .min the smallest, .max the largest.\n\n"
    "A sort order is a list of names, - before a name for the largest first: --sort "
    "-validation.loss,id\n"
    "Rows without a value come last.\n";

static const char *type_word(enum filter_type type)
{
    static const char *const words[] = {
        [FILTER_NUMBER] = "number", [FILTER_TEXT] = "text",         [FILTER_STATE] = "state",
        [FILTER_TIME] = "time",     [FILTER_DURATION] = "duration", [FILTER_FLAG] = "yes or no",
        [FILTER_WORDS] = "words",   [FILTER_METRIC] = "number",     [FILTER_HPARAM] = "any"};
    return words[type];
}

static void document_list(enum filter_list list, const char *title, struct buf *out)
{
    buf_printf(out, "\nFields of %s (* can be sorted by):\n", title);
    for (const struct filter_field *f = filter_fields; f->name; f++)
        if (f->lists & list)
            buf_printf(out, "  %-13s %s %-9s  %s\n", f->name, f->sortable ? "*" : " ",
                       type_word(f->type), f->help);
}

void filter_document(struct buf *out)
{
    buf_puts(out, intro);
    document_list(FILTER_EXPERIMENTS, "experiments", out);
    document_list(FILTER_TRIALS, "trials", out);
}
