#include "master/watch/alerts.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

const char *const alert_words[ALERT_KINDS] = {
    [ALERT_AGENT_LOST] = "AGENT_LOST",
    [ALERT_STORE_SLOW] = "STORE_SLOW",
    [ALERT_DISK_FILLING] = "DISK_FILLING",
    [ALERT_BACKUP_OVERDUE] = "BACKUP_OVERDUE",
};

bool alert_kind_of(const char *word, enum alert_kind *out)
{
    for (int i = 0; i < ALERT_KINDS; i++)
        if (!strcmp(alert_words[i], word)) {
            *out = (enum alert_kind)i;
            return true;
        }
    return false;
}

struct alerts *alerts_new(int64_t next_id)
{
    struct alerts *all = xcalloc(1, sizeof *all);
    all->next_id = next_id;
    return all;
}

static void alert_free(struct alert *a)
{
    free(a->subject);
    free(a->text);
    free(a);
}

void alerts_free(struct alerts *all)
{
    for (struct alert *a = all ? all->open : NULL, *next; a; a = next) {
        next = a->next;
        alert_free(a);
    }
    free(all);
}

static struct alert *alert_add(struct alerts *all, const struct trouble *t)
{
    struct alert **link = &all->open, *a = xcalloc(1, sizeof *a);
    while (*link)
        link = &(*link)->next;
    a->kind = t->kind;
    a->subject = xstrdup(t->subject);
    a->text = xstrdup(t->text);
    *link = a;
    return a;
}

void alerts_load(struct alerts *all, int64_t id, enum alert_kind kind, const char *subject,
                 const char *text, int64_t began_at, int64_t now)
{
    struct alert *a = alert_add(all, &(struct trouble){kind, subject, text});
    a->id = id;
    a->began_at = began_at;
    a->seen_at = now;
}

static struct alert *alert_of(const struct alerts *all, const struct trouble *t)
{
    struct alert *a = all->open;
    while (a && (a->kind != t->kind || strcmp(a->subject, t->subject)))
        a = a->next;
    return a;
}

void alerts_step(struct alerts *all, const struct trouble *list, size_t count, int64_t now,
                 int64_t wall, int64_t calm, alert_hearer *hear, void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        struct alert *a = alert_of(all, &list[i]);
        if (!a) {
            a = alert_add(all, &list[i]);
            a->id = all->next_id++;
            a->began_at = wall;
            hear(ctx, a, false);
        }
        a->seen_at = now;
    }
    for (struct alert **link = &all->open, *a; (a = *link);) {
        if (now - a->seen_at < calm) {
            link = &a->next;
            continue;
        }
        hear(ctx, a, true);
        *link = a->next;
        alert_free(a);
    }
}

int64_t alerts_open(const struct alerts *all, enum alert_kind kind)
{
    int64_t count = 0;
    for (const struct alert *a = all->open; a; a = a->next)
        count += a->kind == kind;
    return count;
}
