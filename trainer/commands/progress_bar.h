// The progress of a local training: a bar if stdout is a terminal, otherwise plain lines. Parent
// process of `muster-trainer run`; one thread.
#ifndef MUSTER_TRAINER_COMMANDS_PROGRESS_BAR_H
#define MUSTER_TRAINER_COMMANDS_PROGRESS_BAR_H

#include <stdbool.h>
#include <stdint.h>

struct progress_bar {
    bool terminal;
    int64_t steps; // of the whole training
    // the first step that was seen since the (re)start, and when (microseconds); 0: none
    int64_t first_step, first_seen;
    double samples_per_second; // of the last report; 0: none
    double best;               // of the metric that ranks checkpoints; NaN: none
    bool larger_is_better;
    bool drawn; // the bar is on the screen
};

void progress_bar_open(struct progress_bar *p, int64_t steps, bool larger_is_better);
void progress_bar_restart(struct progress_bar *p); // the gang restarts: measure speeds again
void progress_bar_step(struct progress_bar *p, int64_t step, double loss);
void progress_bar_best(struct progress_bar *p, double value); // the result of a validation
void progress_bar_line(struct progress_bar *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void progress_bar_close(struct progress_bar *p);

#endif
