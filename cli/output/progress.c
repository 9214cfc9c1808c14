#include "cli/output/progress.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { BAR_CELLS = 24, PART_MAX = 64 };

static void draw_bar(double fraction, char *out)
{
    int full = (int)(fraction * BAR_CELLS + 0.5);
    full = full < 0 ? 0 : full > BAR_CELLS ? BAR_CELLS : full;
    memset(out, '#', (size_t)full);
    memset(out + full, '.', (size_t)(BAR_CELLS - full));
    out[BAR_CELLS] = '\0';
}

// Appends a part if the line stays within `width`.
static void append_part(char *out, size_t cap, int width, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void append_part(char *out, size_t cap, int width, const char *fmt, ...)
{
    char part[PART_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(part, sizeof(part), fmt, args);
    va_end(args);
    size_t used = strlen(out), more = strlen(part) + 2;
    if (used + more < cap && (int)(used + more) <= width)
        snprintf(out + used, cap - used, "  %s", part);
}

static void state_text(char *out, size_t cap, const char *word)
{
    size_t i = 0;
    for (; word[i] != '\0' && i + 1 < cap; i++)
        out[i] = (char)(word[i] == '_' ? ' ' : tolower((unsigned char)word[i]));
    out[i] = '\0';
}

static void append_search(const struct progress *p, int width, char *out, size_t cap)
{
    if (p->trials_total > 0)
        append_part(out, cap, width, "%lld of %lld trials", p->trials_ended, p->trials_total);
    else
        append_part(out, cap, width, "%lld trials ended", p->trials_ended);
    if (p->trials_failed > 0)
        append_part(out, cap, width, "%lld failed", p->trials_failed);
    if (p->trials_running > 0)
        append_part(out, cap, width, "%lld running", p->trials_running);
    if (p->trials_waiting > 0)
        append_part(out, cap, width, "%lld waiting", p->trials_waiting);
    if (!isnan(p->best))
        append_part(out, cap, width, "best %.6g", p->best);
}

const char *progress_line(const struct progress *p, int width, char *out, size_t cap)
{
    char state[32], bar[BAR_CELLS + 1], eta[32];
    state_text(state, sizeof(state), p->state);
    if (p->reason && *p->reason != '\0') {
        snprintf(out, cap < (size_t)width + 1 ? cap : (size_t)width + 1, "%s: %s", state,
                 p->reason);
        return out;
    }
    draw_bar(p->fraction, bar);
    snprintf(out, cap, "%s [%s] %3.0f%%", state, bar, p->fraction * 100);
    if (p->search) {
        append_search(p, width, out, cap);
        return out;
    }
    if (p->total > 0)
        append_part(out, cap, width, "step %lld/%lld", p->steps, p->total);
    else if (p->steps > 0)
        append_part(out, cap, width, "step %lld", p->steps);
    if (!isnan(p->loss))
        append_part(out, cap, width, "loss %.4f", p->loss);
    if (!isnan(p->validation))
        append_part(out, cap, width, "validation %.4f", p->validation);
    if (!isnan(p->samples_per_second))
        append_part(out, cap, width, "%.0f samples/s", p->samples_per_second);
    if (!isnan(p->step_ms) && p->total > p->steps) {
        double us = p->step_ms * 1000 * (double)(p->total - p->steps);
        append_part(out, cap, width, "ETA %s", duration_format((int64_t)us, eta, sizeof(eta)));
    }
    if (p->restarts > 0)
        append_part(out, cap, width, "restarts %d", p->restarts);
    return out;
}
