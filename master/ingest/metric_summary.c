#include "master/ingest/metric_summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"

struct summary_metric {
    char *name;
    int64_t count, steps; // steps: of the last report; -1: none given
    double sum, low, high, last;
};

struct metric_group {
    char *name, *key; // key: the name in JSON
    bool changed;
    struct summary_metric *metrics;
    size_t count, cap;
    uint32_t *slots; // by hash of the name: index + 1; 0: free
    size_t slot_count;
};

struct summary {
    struct metric_group *groups;
    size_t group_count, metric_count;
};

// --- groups and names ----------------------------------------------------------------------------

static const struct {
    const char *group, *key;
} keys[] = {{"training", "avg_metrics"}, {"validation", "validation_metrics"}};

static const char *key_of(const char *group)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(keys[i].group, group))
            return keys[i].key;
    return group;
}

static const char *group_of(const char *key)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(keys[i].key, key))
            return keys[i].group;
    return key;
}

static struct metric_group *summary_group(struct summary *s, const char *name)
{
    for (size_t i = 0; i < s->group_count; i++)
        if (!strcmp(s->groups[i].key, key_of(name)))
            return &s->groups[i];
    s->groups = xrealloc(s->groups, (s->group_count + 1) * sizeof *s->groups);
    struct metric_group *g = &s->groups[s->group_count++];
    *g = (struct metric_group){.name = xstrdup(name), .key = xstrdup(key_of(name))};
    return g;
}

static uint32_t *find_slot(const struct metric_group *g, const char *name)
{
    size_t at = hash64(name, strlen(name)) & (g->slot_count - 1);
    while (g->slots[at] && strcmp(g->metrics[g->slots[at] - 1].name, name))
        at = (at + 1) & (g->slot_count - 1);
    return &g->slots[at];
}

static void group_grow(struct metric_group *g)
{
    g->cap = g->cap ? 2 * g->cap : 32;
    g->metrics = xrealloc(g->metrics, g->cap * sizeof *g->metrics);
    free(g->slots);
    g->slot_count = 2 * g->cap;
    g->slots = xcalloc(g->slot_count, sizeof *g->slots);
    for (size_t i = 0; i < g->count; i++)
        *find_slot(g, g->metrics[i].name) = (uint32_t)i + 1;
}

// NULL: there are too many metrics. `guess`: the index if this report looks like the last one.
static struct summary_metric *summary_metric_find(struct summary *s, struct metric_group *g,
                                                  const char *name, size_t guess)
{
    if (guess < g->count && !strcmp(g->metrics[guess].name, name))
        return &g->metrics[guess];
    if (g->count == g->cap)
        group_grow(g);
    uint32_t *slot = find_slot(g, name);
    if (*slot)
        return &g->metrics[*slot - 1];
    if (s->metric_count == LIMIT_METRIC_NAMES)
        return NULL;
    s->metric_count++;
    g->metrics[g->count] = (struct summary_metric){.name = xstrdup(name), .steps = -1};
    *slot = (uint32_t)++g->count;
    return &g->metrics[g->count - 1];
}

// --- adding reports ------------------------------------------------------------------------------

static void metric_add(struct summary_metric *m, double value, int64_t steps)
{
    if (m->count && steps >= 0 && steps <= m->steps)
        return;
    m->low = m->count && m->low < value ? m->low : value;
    m->high = m->count && m->high > value ? m->high : value;
    m->sum += value;
    m->last = value;
    m->steps = steps;
    m->count++;
}

void summary_add(struct summary *s, const char *group, const struct series_block *b)
{
    struct metric_group *g = summary_group(s, group);
    g->changed = true;
    for (size_t i = 0; i < b->column_count; i++) {
        const struct series_column *c = &b->columns[i];
        struct summary_metric *m = NULL;
        double value;
        for (size_t at = c->first; at < c->end; at++) {
            if (!series_number_at(c, at, &value) || !isfinite(value))
                continue;
            if (!m && !(m = summary_metric_find(s, g, c->name, i)))
                break;
            metric_add(m, value, b->steps[at]);
        }
    }
}

size_t summary_each(const struct summary *s, const char *group,
                    void (*each)(void *ctx, const struct summary_value *v), void *ctx)
{
    for (size_t i = 0; s && i < s->group_count; i++) {
        const struct metric_group *g = &s->groups[i];
        if (strcmp(g->name, group))
            continue;
        for (size_t k = 0; k < g->count; k++) {
            const struct summary_metric *m = &g->metrics[k];
            each(ctx, &(struct summary_value){m->name, m->last, m->low, m->high});
        }
        return g->count;
    }
    return 0;
}

void summary_each_changed(struct summary *s, void (*each)(void *ctx, const char *group), void *ctx)
{
    for (size_t i = 0; i < s->group_count; i++)
        if (s->groups[i].changed) {
            s->groups[i].changed = false;
            each(ctx, s->groups[i].name);
        }
}

// --- JSON ----------------------------------------------------------------------------------------

static void write_metric(struct json_writer *w, const struct summary_metric *m)
{
    jw_key(w, m->name);
    jw_object(w);
    jw_kv_int(w, "count", m->count);
    jw_kv_double(w, "last", m->last);
    jw_kv_double(w, "max", m->high);
    jw_kv_double(w, "mean", m->sum / (double)m->count);
    jw_kv_double(w, "min", m->low);
    jw_kv_int(w, "steps", m->steps);
    jw_kv_double(w, "sum", m->sum);
    jw_kv_string(w, "type", "number");
    jw_object_end(w);
}

char *summary_text(const struct summary *s)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, LIMIT_BODY);
    jw_init(&w, &out);
    jw_object(&w);
    for (size_t i = 0; i < s->group_count; i++) {
        const struct metric_group *g = &s->groups[i];
        if (!g->count) // none of its values was a number
            continue;
        jw_key(&w, g->key);
        jw_object(&w);
        for (size_t k = 0; k < g->count; k++)
            write_metric(&w, &g->metrics[k]);
        jw_object_end(&w);
    }
    jw_object_end(&w);
    must(!out.err);
    return buf_take(&out);
}

static void read_metric(struct summary *s, struct metric_group *g, const char *name,
                        const json_t *from)
{
    struct summary_metric *m = summary_metric_find(s, g, name, SIZE_MAX);
    if (!m)
        return;
    m->count = jget_int(from, "count", 0);
    m->steps = jget_int(from, "steps", -1);
    m->sum = jget_double(from, "sum", 0);
    m->last = jget_double(from, "last", 0);
    m->low = jget_double(from, "min", 0);
    m->high = jget_double(from, "max", 0);
}

struct summary *summary_new(const char *text)
{
    struct summary *s = xcalloc(1, sizeof *s);
    json_t *parsed = NULL, *group, *metric;
    const char *key, *name;
    if (!text || json_parse(text, strlen(text), "summary_metrics", &parsed, NULL))
        return s;
    json_object_foreach(parsed, key, group)
    {
        json_object_foreach(group, name, metric)
        {
            read_metric(s, summary_group(s, group_of(key)), name, metric);
        }
    }
    json_decref(parsed);
    return s;
}

void summary_free(struct summary *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->group_count; i++) {
        struct metric_group *g = &s->groups[i];
        for (size_t k = 0; k < g->count; k++)
            free(g->metrics[k].name);
        free(g->metrics);
        free(g->slots);
        free(g->name);
        free(g->key);
    }
    free(s->groups);
    free(s);
}
