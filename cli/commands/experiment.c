#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/archive/archive.h"
#include "api/config/expconf.h"
#include "api/wire.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/overlay.h"
#include "cli/output/columns.h"
#include "cli/output/failure.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"
#include "cli/output/search_table.h"
#include "cli/output/wait_reason.h"

int fetch_experiment(struct cli *c, long long id, json_t **experiment, struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/experiments/%lld", id);
    *experiment = !err ? json_incref(jget(answer, "experiment")) : NULL;
    json_decref(answer);
    return err;
}

int fetch_trials(struct cli *c, long long experiment, json_t **trials, struct error *e)
{
    return cli_list(c, "trials", 0, trials, e, "/api/v1/experiments/%lld/trials", experiment);
}

// --- create --------------------------------------------------------------------------------------

// Returns `root` as text: the file's own text with its comments if --config changes single values
// only, else JSON.
static char *overridden_text(struct cli *c, const char *text, const json_t *root)
{
    size_t count = 0, most = (size_t)c->options.config.count + 1;
    const char **paths = arena_alloc(&c->arena, most * sizeof(*paths));
    for (int i = 0; i < c->options.config.count; i++) {
        const char *item = c->options.config.items[i];
        paths[count++] = arena_printf(&c->arena, "%.*s", (int)strcspn(item, "="), item);
    }
    if (c->options.name)
        paths[count++] = "name";
    char *changed = overlay_text(text, paths, count, root);
    return changed ? changed : overlay_value(root, JSON_INDENT(2));
}

static const char *after_position(const char *text, const char *file)
{
    const char *at = text + strlen(file);
    if (strncmp(text, file, strlen(file)) != 0 || *at != ':')
        return text;
    at += 1 + strspn(at + 1, "0123456789:");
    return *at == ' ' ? at + 1 : text;
}

// The flag that has set the key, or a key around it; NULL: it stands in the file.
static const char *override_of(struct cli *c, const char *key)
{
    for (int i = c->options.config.count; i-- > 0;) {
        const char *item = c->options.config.items[i];
        size_t len = strcspn(item, "=");
        if (strncmp(key, item, len) == 0 && strchr(".[:", key[len]))
            return arena_printf(&c->arena, "--config %s", item);
    }
    return c->options.name && strncmp(key, "name:", 5) == 0 ? "--name" : NULL;
}

// An error of a key that a flag has set names the flag instead of a place in the file.
static int name_override(struct cli *c, const char *file, struct error *e)
{
    const char *key = after_position(e->text, file), *flag = override_of(c, key);
    const char *text = strstr(key, ": ");
    struct error said = *e;
    if (!flag || !text)
        return e->code;
    return error_set(e, said.code, "%s: %s", flag, said.text + (text - e->text) + 2);
}

static int set_override(struct yaml_doc *doc, const char *item, struct error *e)
{
    int err = expconf_set(doc, item, e);
    if (!err)
        return 0;
    struct error said = *e;
    const char *text = after_position(said.text, item);
    return error_set(e, said.code, "--config %s%s%s", text == said.text ? "" : item,
                     text == said.text ? "" : ": ", text);
}

// A file that is neither empty nor a list of keys stays as it is, and is refused later.
static void set_name(struct yaml_doc *doc, const char *name)
{
    if (!doc->root || json_is_null(doc->root)) {
        json_decref(doc->root);
        doc->root = json_object();
    }
    json_object_set_new(doc->root, "name", json_string(name));
}

int config_lay_over(struct cli *c, const char *name, char **text, struct yaml_doc *out,
                    struct error *e)
{
    struct yaml_doc doc = {0};
    int err = yaml_parse(*text, strlen(*text), name, &doc, e);
    for (int i = 0; i < c->options.config.count && !err; i++)
        err = set_override(&doc, c->options.config.items[i], e);
    if (!err && c->options.name)
        set_name(&doc, c->options.name);
    if (!err && json_is_object(doc.root) && (c->options.config.count > 0 || c->options.name)) {
        char *changed = overridden_text(c, *text, doc.root);
        free(*text);
        *text = changed;
    }
    if (!err && !c->options.template && expconf_finish(&doc, e)) // a template may supply keys
        err = name_override(c, name, e);
    if (out)
        *out = doc;
    else
        yaml_doc_free(&doc);
    return err;
}

int config_load(struct cli *c, const char *path, char **text, struct yaml_doc *doc, struct error *e)
{
    size_t len = 0;
    int err = file_read(path, LIMIT_CONFIG, text, &len, e);
    if (!err && strlen(*text) != len)
        err = error_set(e, ERR_INVALID, "%s: not a text file", path);
    err = err ? err : config_lay_over(c, path, text, doc, e);
    if (err) {
        free(*text);
        *text = NULL;
    }
    return err;
}

static json_t *create_body(struct cli *c, const char *yaml, json_t *files)
{
    json_t *body =
        json_pack("{s:s, s:o, s:b, s:b}", "config", yaml, "modelDefinition", files, "activate",
                  !c->options.paused, "validateOnly", c->options.validate_only);
    if (c->options.template)
        json_object_set_new(body, "template", json_string(c->options.template));
    if (c->options.project_id > 0)
        json_object_set_new(body, "projectId", json_integer(c->options.project_id));
    return body;
}

static int write_id_file(struct cli *c, long long id, struct error *e)
{
    if (!c->options.id_file)
        return 0;
    char text[32];
    int n = snprintf(text, sizeof(text), "%lld\n", id);
    return file_write_durable(c->options.id_file, text, (size_t)n, 0644, e);
}

void print_warnings(const json_t *answer)
{
    size_t i;
    json_t *warning;
    json_array_foreach(jget(answer, "warningTexts"), i, warning)
    {
        fprintf(stderr, "warning: %s\n", json_string_value(warning));
    }
}

int experiment_created(struct cli *c, const json_t *answer, struct error *e)
{
    print_warnings(answer);
    if (c->options.validate_only) {
        printf("The configuration is valid; nothing was created.\n");
        return 0;
    }
    long long id = jget_int(jget(answer, "experiment"), "id", 0);
    int err = write_id_file(c, id, e);
    if (c->format == OUTPUT_TABLE) {
        printf(c->options.quiet ? "%lld\n" : "Created experiment %lld\n", id);
        fflush(stdout);
    } else {
        json_t *row = row_experiment(jget(answer, "experiment"));
        err = err ? err : output_object(c, row, "id,name,state", e);
        json_decref(row);
    }
    return err || !c->options.follow ? err : cli_follow(c, id, e);
}

// Warns about symbolic links: their targets do not exist on the machines of the cluster.
static int list_files(const char *folder, json_t **files, struct error *e)
{
    json_t *links = NULL;
    int err = archive_list_folder(folder, files, e);
    err = err ? err : archive_list_links(folder, &links, e);
    size_t count = json_array_size(links);
    if (count > 0) {
        fprintf(stderr,
                "warning: %s: %zu symbolic link%s left out (%s%s); copy what the "
                "experiment needs into the folder\n",
                folder, count, count == 1 ? " is" : "s are",
                json_string_value(json_array_get(links, 0)), count > 1 ? ", .." : "");
    }
    json_decref(links);
    return err;
}

int run_experiment_create(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    char *yaml = NULL;
    struct yaml_doc doc = {0};
    json_t *files = NULL, *answer = NULL;
    const char *folder = c->arg_count > 1 ? c->args[1] : NULL;
    int err = config_load(c, c->args[0], &yaml, &doc, e);
    if (!err)
        err = session_open(c, true, e);
    if (!err) {
        err = folder ? list_files(folder, &files, e) : 0;
        files = files ? files : json_array();
    }
    if (!err && (folder || !c->options.validate_only))
        err = inputs_check(&doc, files, folder, c->args[0], e);
    if (!err) {
        json_t *body = create_body(c, yaml, json_incref(files));
        err = cli_call(c, "POST", body, &answer, e, "/api/v1/experiments");
        json_decref(body);
    }
    if (!err)
        err = experiment_created(c, answer, e);
    json_decref(answer);
    json_decref(files);
    yaml_doc_free(&doc);
    free(yaml);
    return err;
}

// --- read ----------------------------------------------------------------------------------------

static const char active_states[] =
    "&states=STATE_ACTIVE&states=STATE_QUEUED&states=STATE_PULLING&states=STATE_STARTING"
    "&states=STATE_RUNNING&states=STATE_PAUSED&states=STATE_STOPPING_COMPLETED"
    "&states=STATE_STOPPING_CANCELED&states=STATE_STOPPING_KILLED&states=STATE_STOPPING_ERROR";

static int state_query(struct cli *c, const char **query, struct error *e)
{
    const char *state = c->options.state;
    *query = "";
    if (!state || strcmp(state, "active") == 0) {
        *query = state ? active_states : "";
        return 0;
    }
    const char *word = NULL;
    int err = cli_word("--state", state, WIRE_EXPERIMENT_STATE, NULL, &word, e);
    if (!err)
        *query = arena_printf(&c->arena, "&states=%s", wire_name(WIRE_EXPERIMENT_STATE, word));
    return err;
}

int run_experiment_list(struct cli *c, const struct command *self, struct error *e)
{
    const char *states;
    int err = state_query(c, &states, e);
    if (err)
        return err;
    json_t *list = NULL;
    err =
        cli_list(c, "experiments", c->options.limit, &list, e,
                 "/api/v1/experiments?omit=config,originalConfig,description,notes%s%s%s%s%s%s",
                 c->options.all ? "" : "&archived=false", states,
                 cli_query(c, "users", c->options.user), cli_query(c, "filter", c->options.filter),
                 cli_query(c, "sort", c->options.sort), columns_query(c));
    if (!err) {
        json_t *rows = rows_of(list, row_experiment);
        err = columns_add(c, list, rows, e);
        err = err ? err : output_rows(c, rows, failure_columns(rows, self->columns, &c->arena), e);
        json_decref(rows);
    }
    json_decref(list);
    return err;
}

// Adds the reason why the first waiting trial waits, the number of trials before it, and its
// estimated start.
static void add_wait_reason(struct cli *c, long long id, json_t *row)
{
    json_t *why = NULL;
    if (cli_call(c, "GET", NULL, &why, NULL, "/api/v1/experiments/%lld/why", id) == 0) {
        const char *reason = jget_string(why, "reason", NULL);
        const json_t *first = json_array_get(jget(why, "waiting"), 0);
        char until[WAITING_UNTIL_MAX];
        waiting_until(jget_string(first, "estimatedStart", NULL), clock_wall_us(), until);
        if (reason && *reason != '\0')
            json_object_set_new(row, "reason", json_string(reason));
        if (first) {
            json_object_set_new(row, "ahead", json_integer(jget_int(first, "ahead", 0)));
            json_object_set_new(row, "place", json_string(waiting_place(first, &c->arena)));
        }
        if (*until != '\0')
            json_object_set_new(row, "start", json_string(until));
    }
    json_decref(why);
}

static int add_trials(struct cli *c, long long id, const json_t *config, json_t *row,
                      json_t **trials, struct error *e)
{
    json_t *rows = json_array();
    int err = fetch_trials(c, id, trials, e);
    size_t i;
    json_t *trial;
    json_array_foreach(*trials, i, trial)
    {
        json_array_append_new(rows, row_trial(trial, config));
    }
    json_object_set_new(row, "trials", rows);
    return err;
}

// Prints the trials of a search best first, with the hyperparameters in which they differ.
static int print_trials(struct cli *c, json_t *trials, const json_t *experiment, struct error *e)
{
    const json_t *config = jget(experiment, "config");
    if (json_array_size(trials) < 2) {
        printf("\nTrials (latest and best: %s)\n", searcher_metric(config));
        return output_rows(
            c, trials,
            failure_columns(trials, "id,state,steps,latest,best,restarts,ran,waited", &c->arena),
            e);
    }
    printf("\nTrials, best first (%s)\n", searcher_metric(config));
    json_t *sorted = search_table(trials, config, jget_int(experiment, "bestTrialId", 0));
    const char *columns = search_columns(sorted, &c->arena);
    int err = output_rows(c, sorted, failure_columns(sorted, columns, &c->arena), e);
    json_decref(sorted);
    return err;
}

int run_experiment_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *experiment = NULL, *trials = NULL;
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : fetch_experiment(c, id, &experiment, e);
    if (err)
        return err;
    const json_t *config = jget(experiment, "config");
    json_t *row = row_experiment(experiment);
    json_object_set_new(row, "description",
                        json_string(jget_string(experiment, "description", "")));
    const char *notes = jget_string(experiment, "notes", "");
    if (*notes)
        json_object_set_new(row, "notes", json_string(notes));
    json_object_set_new(row, "metric", json_string(searcher_metric(config)));
    json_object_set(row, "best",
                    jget(experiment, "bestTrialSearcherMetric")); // stays unset if there is none
    json_object_set(row, "best_trial", jget(experiment, "bestTrialId"));
    const char *warning = jget_string(experiment, "metricWarning", NULL);
    if (warning)
        json_object_set_new(row, "warning", json_string(warning));
    add_wait_reason(c, id, row);
    err = add_trials(c, id, config, row, &trials, e);
    if (!err) {
        err =
            output_object(c, row,
                          "id,name,description,notes,state,reason,warning,place,start,percent,best,"
                          "best_trial,user,labels,started,ended,ran,waited,duration",
                          e);
    }
    if (!err && c->format == OUTPUT_TABLE && !c->options.columns) {
        err = print_trials(c, json_object_get(row, "trials"), experiment, e);
        failure_print(failure_newest(trials));
    }
    json_decref(trials);
    json_decref(row);
    json_decref(experiment);
    return err;
}

// Says on stderr that a continuation has changed hyperparameters of the submitted configuration.
static void note_changed_hyperparameters(long long id, const char *text, const json_t *config)
{
    struct yaml_doc doc = {0};
    const char *name;
    json_t *value;
    bool same = true;
    if (expconf_parse(text, strlen(text), "", &doc, NULL) == 0) {
        json_object_foreach(jget(doc.root, "hyperparameters"), name, value)
        {
            same &= json_equal(value, json_object_get(jget(config, "hyperparameters"), name)) != 0;
        }
    }
    if (!same)
        fprintf(stderr,
                "note: experiment %lld was continued with other hyperparameters than those of its "
                "submission; its present configuration: muster experiment config %lld -o yaml\n",
                id, id);
    yaml_doc_free(&doc);
}

int run_experiment_config(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    long long id;
    json_t *experiment = NULL;
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : fetch_experiment(c, id, &experiment, e);
    if (!err && c->format == OUTPUT_TABLE) {
        const char *text = jget_string(experiment, "originalConfig", "");
        printf("%s%s", text, *text != '\0' && text[strlen(text) - 1] == '\n' ? "" : "\n");
        note_changed_hyperparameters(id, text, jget(experiment, "config"));
    } else if (!err) {
        err = output_object(c, jget(experiment, "config"), "name", e);
    }
    json_decref(experiment);
    return err;
}

// Fetches the best trial by the searcher's metric, else the first; NULL: there is no trial yet.
static int fetch_best_trial(struct cli *c, const json_t *experiment, json_t **trial,
                            struct error *e)
{
    long long first = json_integer_value(json_array_get(jget(experiment, "trialIds"), 0));
    long long id = jget_int(experiment, "bestTrialId", first);
    return id > 0 ? fetch_trial(c, id, trial, e) : 0;
}

// Selects --trial; without it the best trial, else the first, and says so if there are several.
static int select_trial(struct cli *c, const char *verb, json_t **trial, struct error *e)
{
    long long id;
    json_t *experiment = NULL;
    *trial = NULL;
    int err = cli_id(c, 0, "experiment", &id, e);
    if (!err && c->options.trial > 0) {
        err = fetch_trial(c, c->options.trial, trial, e);
        if (!err && jget_int(*trial, "experimentId", 0) != id) {
            err = error_set(
                e, ERR_NOT_FOUND,
                "trial %lld does not belong to experiment %lld; see: muster trial list %lld",
                c->options.trial, id, id);
        }
    } else if (!err) {
        err = fetch_experiment(c, id, &experiment, e);
        err = err ? err : fetch_best_trial(c, experiment, trial, e);
    }
    if (!err && !*trial)
        err = error_set(e, ERR_NOT_FOUND, "experiment %lld has no trial yet", id);
    size_t count = json_array_size(jget(experiment, "trialIds"));
    if (!err && count > 1 && !c->options.quiet) {
        long long shown = jget_int(*trial, "id", 0);
        bool best = jget_int(experiment, "bestTrialId", 0) == shown;
        fprintf(stderr,
                "Experiment %lld has %zu trials; this is trial %lld, the %s one. For another one: "
                "muster experiment %s %lld --trial ID; for all: --all\n",
                id, count, shown, best ? "best" : "first", verb, id);
    }
    json_decref(experiment);
    return err;
}

static int print_all_logs(struct cli *c, struct error *e)
{
    long long id;
    json_t *trials = NULL;
    if (c->options.follow) {
        return error_set(e, ERR_INVALID,
                         "--follow shows one trial only: give --trial ID instead of --all");
    }
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : fetch_trials(c, id, &trials, e);
    err = err ? err : print_logs_of_trials(c, trials, e);
    json_decref(trials);
    return err;
}

int run_experiment_logs(struct cli *c, const struct command *self, struct error *e)
{
    json_t *trial = NULL;
    if (c->options.all)
        return print_all_logs(c, e);
    int err = select_trial(c, self->verb, &trial, e);
    err = err ? err : print_trial_logs(c, jget_int(trial, "id", 0), e);
    json_decref(trial);
    return err;
}

// Prints the reports of every trial, with the trial's id in each row.
static int print_all_metrics(struct cli *c, struct error *e)
{
    long long id;
    size_t i, n;
    json_t *trials = NULL, *trial, *row, *all = json_array(), *names = json_object();
    int err = cli_id(c, 0, "experiment", &id, e);
    err = err ? err : fetch_trials(c, id, &trials, e);
    json_array_foreach(trials, i, trial)
    {
        json_t *rows = NULL;
        err = err ? err : fetch_metrics(c, trial, &rows, names, e);
        json_array_foreach(rows, n, row)
        {
            json_object_set(row, "trial", jget(trial, "id"));
        }
        json_array_extend(all, rows);
        json_decref(rows);
    }
    json_array_foreach(trials, i, trial)
    {
        err = err ? err : check_metric(c, trial, names, e);
    }
    err = err ? err : print_metrics(c, all, e);
    json_decref(names);
    json_decref(all);
    json_decref(trials);
    return err;
}

int run_experiment_metrics(struct cli *c, const struct command *self, struct error *e)
{
    json_t *trial = NULL, *rows = NULL;
    if (c->options.all)
        return print_all_metrics(c, e);
    int err = select_trial(c, self->verb, &trial, e);
    json_t *names = json_object();
    err = err ? err : fetch_metrics(c, trial, &rows, names, e);
    err = err ? err : check_metric(c, trial, names, e);
    err = err ? err : print_metrics(c, rows, e);
    json_decref(names);
    json_decref(rows);
    json_decref(trial);
    return err;
}
