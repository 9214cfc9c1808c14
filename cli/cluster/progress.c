#include "cli/cluster/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/output/terminal.h"

enum { GAP_US = 100000, LINES_MAX = 40, NAME_WIDTH = 20, WIDTH_MAX = 200 };

void progress_begin(struct cluster_progress *p, struct cluster_work *x)
{
    *p = (struct cluster_progress){.x = x, .shown = !x->c->options.quiet && isatty(STDERR_FILENO)};
}

static void erase(struct cluster_progress *p)
{
    for (; p->drawn > 0; p->drawn--)
        terminal_control(stderr, "\033[A\r\033[K");
}

// *lines: how many the table may have, because the cursor does not go back above the terminal.
static int terminal_width(size_t *lines)
{
    struct winsize size = {0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
    int width = known ? size.ws_col : 0;
    *lines = known && size.ws_row > 1 && size.ws_row <= LINES_MAX ? size.ws_row - 1U : LINES_MAX;
    return width < 40 ? 80 : width > WIDTH_MAX ? WIDTH_MAX : width;
}

static const char *state_of(const struct cluster_work *x, size_t i)
{
    switch (x->plan.machines[i].state) {
    case PLAN_DONE:
        return "done";
    case PLAN_BARRED:
        return "not reached";
    case PLAN_IDLE:
        return "waiting";
    case PLAN_BUSY:
    case PLAN_FAILED:
        break;
    }
    return x->machines[i].note;
}

// Machines that are done come last, so that the table of a large cluster shows the others.
static void draw_lines(struct cluster_progress *p, bool done, int width, size_t *left)
{
    const struct cluster_work *x = p->x;
    for (size_t i = 0; i < x->file.count; i++) {
        char line[WIDTH_MAX + 1];
        if (*left == 0)
            return;
        if ((x->plan.machines[i].state == PLAN_DONE) != done)
            continue;
        snprintf(line, sizeof(line), "%-*.*s  %s", NAME_WIDTH, NAME_WIDTH, x->file.hosts[i].name,
                 state_of(x, i));
        fprintf(stderr, "%.*s\n", width - 1, line);
        p->drawn++;
        (*left)--;
    }
}

void progress_draw(struct cluster_progress *p)
{
    int64_t now = clock_mono_us();
    if (!p->shown || now - p->last_us < GAP_US)
        return;
    size_t left;
    int width = terminal_width(&left);
    erase(p);
    draw_lines(p, false, width, &left);
    draw_lines(p, true, width, &left);
    fflush(stderr);
    p->last_us = now;
}

void progress_end(struct cluster_progress *p)
{
    erase(p);
    fflush(stderr);
}
