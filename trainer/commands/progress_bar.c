#include "trainer/commands/progress_bar.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR_WIDTH = 24, WIDTH_DEFAULT = 80, LINE_MAX_BYTES = 256 };

void progress_bar_open(struct progress_bar *p, int64_t steps, bool larger_is_better)
{
    *p = (struct progress_bar){.terminal = isatty(STDOUT_FILENO),
                               .steps = steps,
                               .best = NAN,
                               .larger_is_better = larger_is_better};
}

void progress_bar_restart(struct progress_bar *p)
{
    p->first_seen = 0;
    p->samples_per_second = 0;
}

void progress_bar_best(struct progress_bar *p, double value)
{
    bool better = p->larger_is_better ? value > p->best : value < p->best;
    if (isnan(p->best) || better)
        p->best = value;
}

static void clear_bar(struct progress_bar *p)
{
    if (p->drawn)
        fputs("\r\033[K", stdout);
    p->drawn = false;
}

static int terminal_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : WIDTH_DEFAULT;
}

__attribute__((format(printf, 2, 3))) static void append_text(char line[LINE_MAX_BYTES],
                                                              const char *fmt, ...)
{
    size_t used = strlen(line);
    va_list args;
    va_start(args, fmt);
    vsnprintf(line + used, LINE_MAX_BYTES - used, fmt, args);
    va_end(args);
}

void progress_bar_step(struct progress_bar *p, int64_t step, double loss)
{
    int64_t now = clock_mono_us();
    if (!p->terminal || p->steps <= 0)
        return;
    if (!p->first_seen) {
        p->first_seen = now;
        p->first_step = step;
    }
    char line[LINE_MAX_BYTES] = "", left[64];
    int64_t full = step * BAR_WIDTH / p->steps, done = step - p->first_step;
    for (int i = 0; i < BAR_WIDTH; i++)
        append_text(line, i < full ? "#" : ".");
    append_text(line, " %lld/%lld  loss %.4f", (long long)step, (long long)p->steps, loss);
    if (done > 0)
        append_text(
            line, "  %s left",
            duration_format((now - p->first_seen) / done * (p->steps - step), left, sizeof left));
    if (!isnan(p->best))
        append_text(line, "  best %.4g", p->best);
    if (p->samples_per_second > 0)
        append_text(line, "  %.0f samples/s", p->samples_per_second);
    printf("\r\033[K%.*s", terminal_width() - 1, line);
    fflush(stdout);
    p->drawn = true;
}

void progress_bar_line(struct progress_bar *p, const char *fmt, ...)
{
    va_list args;
    clear_bar(p);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void progress_bar_close(struct progress_bar *p)
{
    clear_bar(p);
    fflush(stdout);
}
