// Bodies of webhooks: Determined's payloads as compact JSON, which is what the signature covers.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text/json.h"
#include "master/common/failure_summary.h"
#include "master/notify/webhook_internal.h"
#include "master/teams/teams.h"

enum {
    PAYLOAD_MAX = 1 << 20,
    LINE_SHOWN = 4096,
    SUMMARY_TRIALS = 2000, // that a summary of failures looks at
};

static int64_t seconds_of(const struct core *c, const struct experiment *x)
{
    return (c->wall - x->active->submitted_at) / 1000000;
}

// --- failures ------------------------------------------------------------------------------------

static size_t count_trials(const struct active_experiment *active)
{
    size_t count = 0;
    for (const struct trial *t = active->trials; t; t = t->next)
        count++;
    return count;
}

// Appends the failed trials, or the others, up to SUMMARY_TRIALS; returns the new count.
static size_t add_outcomes(const struct active_experiment *active, bool failed, size_t count,
                           struct trial_outcome *out)
{
    for (const struct trial *t = active->trials; t && count < SUMMARY_TRIALS; t = t->next)
        if ((t->state == TRIAL_ERROR) == failed)
            out[count++] = (struct trial_outcome){
                .id = t->id,
                .reason = !failed          ? NULL
                          : t->exit_reason ? t->exit_reason
                                           : "it failed",
                .hparams = t->hparams,
            };
    return count;
}

static char *summarize_failures(const struct active_experiment *active, size_t total)
{
    struct trial_outcome *list =
        xcalloc(total < SUMMARY_TRIALS ? total : SUMMARY_TRIALS, sizeof *list);
    size_t count = add_outcomes(active, false, add_outcomes(active, true, 0, list), list);
    char *summary = failure_summary(list, count, total);
    free(list);
    return summary;
}

// Returns why the trial of a failed experiment failed, or the summary of a search. Heap; NULL: the
// experiment has not failed. Every event has a payload, so only a failed search is summarized.
static char *describe_failure(const struct experiment *x)
{
    const struct active_experiment *active = x->active;
    if (x->state != EXPERIMENT_ERROR)
        return NULL;
    size_t count = count_trials(active);
    if (count > 1)
        return summarize_failures(active, count);
    if (count == 0 || active->trials->state != TRIAL_ERROR || !active->trials->exit_reason)
        return NULL;
    return xstrdup(active->trials->exit_reason);
}

// --- for programs --------------------------------------------------------------------------------

static void write_experiment(struct core *c, struct json_writer *w, const struct webhook_subject *s)
{
    const struct active_experiment *active = s->x->active;
    const struct project *p = core_project(c, s->x->project_id);
    jw_key(w, "experiment");
    jw_object(w);
    jw_kv_int(w, "id", s->x->id);
    jw_kv_string(w, "state", experiment_state_word(s->x->state));
    jw_kv_string(w, "name", jget_string(active->config, "name", ""));
    jw_kv_int(w, "duration", seconds_of(c, s->x));
    jw_kv_string(w, "resource_pool", active->pool ? active->pool->name : "");
    jw_kv_int(w, "slots_per_trial", active->slots_per_trial);
    jw_kv_string(w, "workspace", p->workspace->name);
    jw_kv_string(w, "project", p->name);
    if (s->trial)
        jw_kv_int(w, "trial_id", s->trial);
    char *failure = describe_failure(s->x);
    if (failure)
        jw_kv_string(w, "failure", failure);
    free(failure);
    jw_object_end(w);
}

// Whether its messages describe the experiment: a log line stands alone, and an alert of the
// cluster belongs to none.
static bool has_experiment(const struct webhook_trigger *t)
{
    return t->kind != TRIGGER_LINE && t->kind != TRIGGER_ALERT;
}

// Here a state is a bare word such as COMPLETED, whatever form the webhook was configured with.
static void write_condition(struct json_writer *w, const struct webhook_trigger *t,
                            const struct webhook_subject *s)
{
    jw_key(w, "condition");
    if (t->kind == TRIGGER_LINE || t->kind == TRIGGER_METRIC || t->kind == TRIGGER_ALERT) {
        jw_json(w, t->condition);
        return;
    }
    jw_object(w);
    jw_kv_string(w, "state", experiment_state_word(s->x->state));
    jw_object_end(w);
}

static void write_alert(const struct core *c, struct json_writer *w,
                        const struct cluster_alert *alert)
{
    char began[CLOCK_RFC3339_MAX];
    jw_key(w, "alert");
    jw_object(w);
    jw_kv_int(w, "id", alert->id);
    jw_kv_string(w, "cluster", c->options.cluster_name);
    jw_kv_string(w, "kind", alert->kind);
    jw_kv_string(w, "subject", alert->subject);
    jw_kv_string(w, "state", alert->ended ? "ENDED" : "BEGAN");
    jw_kv_string(w, "text", alert->text);
    jw_kv_string(w, "began_at", clock_format(alert->began_at, began));
    jw_object_end(w);
}

static void write_data(struct core *c, struct json_writer *w, const struct webhook_trigger *t,
                       const struct webhook_subject *s)
{
    jw_key(w, "event_data");
    jw_object(w);
    if (has_experiment(t))
        write_experiment(c, w, s);
    if (t->kind == TRIGGER_ALERT) {
        write_alert(c, w, s->alert);
    } else if (t->kind == TRIGGER_LINE) {
        jw_key(w, "task_log");
        jw_object(w);
        jw_kv_string(w, "task_id", s->task);
        jw_kv_string(w, "node_name", s->agent);
        jw_key(w, "triggering_log");
        jw_stringn(w, s->line, strnlen(s->line, LINE_SHOWN));
        jw_object_end(w);
    } else if (t->kind == TRIGGER_METRIC) {
        jw_key(w, "metric");
        jw_object(w);
        jw_kv_string(w, "name", t->metric);
        jw_kv_double(w, "value", s->value);
        jw_kv_int(w, "steps_completed", s->steps);
        jw_object_end(w);
    } else if (t->kind == TRIGGER_CUSTOM) {
        jw_key(w, "custom_data");
        jw_object(w);
        jw_kv_string(w, "title", s->title);
        jw_kv_string(w, "description", s->description);
        jw_kv_string(w, "level", s->level);
        jw_object_end(w);
    }
    jw_object_end(w);
}

static void write_event(struct core *c, struct json_writer *w, const struct webhook_trigger *t,
                        const struct webhook_subject *s, const char *event)
{
    jw_object(w);
    jw_kv_string(w, "event_id", event);
    jw_kv_string(w, "event_type", trigger_words[t->kind]);
    jw_kv_int(w, "timestamp", c->wall / 1000000);
    write_condition(w, t, s);
    write_data(c, w, t, s);
    jw_object_end(w);
}

// --- for Slack -----------------------------------------------------------------------------------

// Escapes text for a Slack block, where & < > have a meaning.
static void escape_slack(struct buf *out, const char *text)
{
    size_t len = strnlen(text, LINE_SHOWN);
    for (const char *c = text; c < text + len; c++)
        if (*c == '&')
            buf_puts(out, "&amp;");
        else if (*c == '<')
            buf_puts(out, "&lt;");
        else if (*c == '>')
            buf_puts(out, "&gt;");
        else
            buf_append(out, c, 1);
}

// A section opens with its text, and with `markup` after it as it is; the caller closes it. Only
// "mrkdwn" gives & < > a meaning.
static void open_section(struct json_writer *w, const char *type, const char *text,
                         const char *markup)
{
    struct buf safe;
    buf_init(&safe, 8 * LINE_SHOWN);
    if (!strcmp(type, "mrkdwn"))
        escape_slack(&safe, text);
    else
        buf_puts(&safe, text);
    buf_puts(&safe, markup);
    jw_object(w);
    jw_kv_string(w, "type", "section");
    jw_key(w, "text");
    jw_object(w);
    jw_kv_string(w, "type", type);
    jw_kv_string(w, "text", buf_str(&safe));
    jw_object_end(w);
    buf_free(&safe);
}

// Returns the label as a link to a page, or alone if the master's address is unknown. The paths are
// those of Determined's web client, and the page of this master knows them. Heap.
static char *make_link(const struct core *c, const char *label, const char *path)
{
    const char *base = c->options.external_url;
    size_t len = strlen(base);
    struct buf out;
    buf_init(&out, 16 * LINE_SHOWN);
    while (len && base[len - 1] == '/')
        len--;
    if (len)
        buf_printf(&out, "<%.*s%s | ", (int)len, base, path);
    escape_slack(&out, label);
    if (len)
        buf_puts(&out, ">");
    return buf_take(&out);
}

static void write_field(struct json_writer *w, const char *name, const char *value)
{
    struct buf text;
    buf_init(&text, 8 * LINE_SHOWN);
    buf_printf(&text, "*%s*: ", name);
    escape_slack(&text, value);
    jw_object(w);
    jw_kv_string(w, "type", "mrkdwn");
    jw_kv_string(w, "text", buf_str(&text));
    jw_object_end(w);
    buf_free(&text);
}

// The words of Determined for what it sends: bots look for them. Heap.
static char *describe_event(const struct webhook_trigger *t, const struct webhook_subject *s)
{
    long long id = s->x->id, trial = s->trial;
    switch (t->kind) {
    case TRIGGER_LINE:
        return xasprintf("Experiment ID `%lld`, Trial ID `%lld`, running on node `%s`, reported a "
                         "log\n```%.*s```\nThis log matched the regex\n```%s```\n",
                         id, trial, s->agent, LINE_SHOWN / 2, s->line,
                         jget_string(t->condition, "regex", ""));
    case TRIGGER_METRIC:
        return xasprintf("Trial %lld of experiment #%lld: %s is %g after %lld steps, %s %g", trial,
                         id, t->metric, s->value, (long long)s->steps, t->above ? "above" : "below",
                         t->limit);
    case TRIGGER_CUSTOM:
        return xasprintf("%s: %s\n%s", s->level, s->title, s->description);
    default:
        break;
    }
    if (s->x->state == EXPERIMENT_COMPLETED)
        return xstrdup("Your experiment completed successfully 🎉");
    if (s->x->state == EXPERIMENT_ERROR)
        return xstrdup("Your experiment has stopped with errors");
    return xasprintf("Your experiment is now %s", experiment_state_word(s->x->state));
}

// Heap.
static char *describe_alert(const struct core *c, const struct cluster_alert *alert)
{
    return xasprintf("%s: %s%s", c->options.cluster_name, alert->ended ? "it is over: " : "",
                     alert->text);
}

// The end of a message about a log line. Heap.
static char *link_logs(const struct core *c, const struct webhook_subject *s)
{
    char path[128];
    snprintf(path, sizeof path, "/det/experiments/%lld/trials/%lld/logs", (long long)s->x->id,
             (long long)s->trial);
    return *c->options.external_url ? make_link(c, "View full logs here", path)
                                    : xasprintf("View full logs at %s", path);
}

static const char *status_word(const struct experiment *x)
{
    return x->state == EXPERIMENT_COMPLETED ? "Completed"
           : x->state == EXPERIMENT_ERROR   ? "Errored"
                                            : experiment_state_word(x->state);
}

static void write_fields(struct core *c, struct json_writer *w, const struct webhook_subject *s)
{
    const struct project *p = core_project(c, s->x->project_id);
    int64_t seconds = seconds_of(c, s->x);
    char *duration =
        xasprintf("%lldh %lldmin", (long long)(seconds / 3600), (long long)(seconds / 60 % 60));
    jw_key(w, "fields");
    jw_array(w);
    write_field(w, "Status", status_word(s->x));
    write_field(w, "Duration", duration);
    write_field(w, "Workspace", p->workspace->name);
    write_field(w, "Project", p->name);
    char *failure = describe_failure(s->x);
    if (failure)
        write_field(w, "Reason", failure);
    jw_array_end(w);
    free(failure);
    free(duration);
}

static void write_attachment(struct core *c, struct json_writer *w, const struct webhook_subject *s)
{
    bool failed = s->x->state == EXPERIMENT_ERROR;
    const char *mark = failed ? "❌ " : s->x->state == EXPERIMENT_COMPLETED ? "✅ " : "";
    char *name =
        xasprintf("%s (#%lld)", jget_string(s->x->active->config, "name", ""), (long long)s->x->id);
    char path[64];
    snprintf(path, sizeof path, "/det/experiments/%lld/overview", (long long)s->x->id);
    char *link = make_link(c, name, path);
    jw_object(w);
    jw_kv_string(w, "color", failed ? "#DD5040" : "#13B670");
    jw_key(w, "blocks");
    jw_array(w);
    open_section(w, "mrkdwn", mark, link);
    write_fields(c, w, s);
    jw_object_end(w);
    jw_array_end(w);
    jw_object_end(w);
    free(link);
    free(name);
}

// The experiment is an attachment.
static void write_slack(struct core *c, struct json_writer *w, const struct webhook_trigger *t,
                        const struct webhook_subject *s)
{
    char *what = t->kind == TRIGGER_ALERT ? describe_alert(c, s->alert) : describe_event(t, s);
    char *logs = t->kind == TRIGGER_LINE ? link_logs(c, s) : NULL;
    jw_object(w);
    jw_key(w, "blocks");
    jw_array(w);
    open_section(w, t->kind == TRIGGER_STATE ? "plain_text" : "mrkdwn", what, logs ? logs : "");
    jw_object_end(w);
    jw_array_end(w);
    if (has_experiment(t)) {
        jw_key(w, "attachments");
        jw_array(w);
        write_attachment(c, w, s);
        jw_array_end(w);
    }
    jw_object_end(w);
    free(logs);
    free(what);
}

char *webhook_payload(struct core *c, const struct webhook_trigger *t,
                      const struct webhook_subject *s, char *event)
{
    struct buf out;
    struct json_writer w;
    uuid_make(event);
    buf_init(&out, PAYLOAD_MAX);
    jw_init(&w, &out);
    if (t->hook->slack)
        write_slack(c, &w, t, s);
    else
        write_event(c, &w, t, s, event);
    must(!out.err);
    return buf_take(&out);
}
