#include "cli/output/meter.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/output/terminal.h"

enum { CELLS = 24, LINE = 120, GAP_US = 100000 };

const char *meter_bytes(int64_t bytes, char *out, size_t cap)
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 999.95 && unit < 4; unit++)
        value /= 1000;
    snprintf(out, cap, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return out;
}

const char *meter_line(const char *what, int64_t done, int64_t total, char *out, size_t cap)
{
    char bar[CELLS + 1], have[24], all[24];
    if (total <= 0) {
        snprintf(out, cap, "%s  %s", what, meter_bytes(done, have, sizeof(have)));
        return out;
    }
    double part = (double)done / (double)total;
    part = part > 1 ? 1 : part < 0 ? 0 : part;
    for (int i = 0; i < CELLS; i++)
        bar[i] = i < (int)(part * CELLS + 0.5) ? '#' : '.';
    bar[CELLS] = '\0';
    snprintf(out, cap, "%s [%s] %3.0f %%  %s of %s", what, bar, part * 100,
             meter_bytes(done, have, sizeof(have)), meter_bytes(total, all, sizeof(all)));
    return out;
}

void meter_begin(struct progress_meter *m, bool quiet)
{
    *m = (struct progress_meter){.shown = !quiet && isatty(STDERR_FILENO)};
}

static bool is_due(const struct progress_meter *m)
{
    return m->shown && !(m->drawn && clock_mono_us() - m->last_us < GAP_US);
}

void meter_say(struct progress_meter *m, const char *line)
{
    if (!is_due(m))
        return;
    terminal_control(stderr, "\r\033[K");
    fprintf(stderr, "%s", line);
    fflush(stderr);
    m->drawn = true;
    m->last_us = clock_mono_us();
}

void meter_show(struct progress_meter *m, const char *what, int64_t done, int64_t total)
{
    char line[LINE];
    if (is_due(m))
        meter_say(m, meter_line(what, done, total, line, sizeof(line)));
}

void meter_end(struct progress_meter *m)
{
    if (m->drawn)
        terminal_control(stderr, "\r\033[K");
    m->drawn = false;
}
