#include "trainer/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR_WIDTH = 24 };

void progress_open(struct progress *p, int64_t steps)
{
    *p = (struct progress){.terminal = isatty(STDOUT_FILENO), .steps = steps};
}

void progress_restart(struct progress *p)
{
    p->first_seen = 0;
    p->samples_per_second = 0;
}

static void clear(struct progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", stdout);
    p->drawn = false;
}

void progress_step(struct progress *p, int64_t step, double loss)
{
    int64_t now = clock_mono_us();
    if (!p->terminal || p->steps <= 0)
        return;
    if (!p->first_seen) {
        p->first_seen = now;
        p->first_step = step;
    }
    char bar[BAR_WIDTH + 1] = {0}, left[64] = "";
    int64_t full = step * BAR_WIDTH / p->steps, done = step - p->first_step;
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    if (done > 0)
        clock_duration((now - p->first_seen) / done * (p->steps - step), left, sizeof left);
    printf("\r\033[K[%s] %lld/%lld  loss %.4f", bar, (long long)step, (long long)p->steps, loss);
    if (p->samples_per_second > 0)
        printf("  %.0f samples/s", p->samples_per_second);
    if (left[0])
        printf("  %s left", left);
    fflush(stdout);
    p->drawn = true;
}

void progress_line(struct progress *p, const char *fmt, ...)
{
    va_list args;
    clear(p);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void progress_close(struct progress *p)
{
    clear(p);
    fflush(stdout);
}
