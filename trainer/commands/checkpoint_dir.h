// The checkpoint folder of `muster-trainer run`: step-00000100, step-00000200, ... and a link
// `best` to one of them. It belongs to one training at a time; checkpoints of an earlier run are
// continued or removed if the user asks for that, and otherwise refused. Parent process; one
// thread.
#ifndef MUSTER_TRAINER_COMMANDS_CHECKPOINT_DIR_H
#define MUSTER_TRAINER_COMMANDS_CHECKPOINT_DIR_H

#include <stdbool.h>

#include "base/error.h"

struct checkpoint_dir {
    const char *path;   // borrowed
    char **checkpoints; // folders to resume from, the most preferred last
    int count;
    bool has_best;   // the link `best` exists
    char *only_best; // the checkpoint that was saved only because it was the best; NULL: none
};

// The treatment of checkpoints that exist already.
struct checkpoint_dir_options {
    const char *from; // a checkpoint elsewhere to resume from; NULL
    bool resume, overwrite;
};

// Makes the folder. ERR_CONFLICT: it holds checkpoints, and no option says what to do with them.
// ERR_INVALID: the options contradict each other. Close it after an error, too.
int checkpoint_dir_open(const char *path, const struct checkpoint_dir_options *options,
                        struct checkpoint_dir *out, struct error *e);
void checkpoint_dir_close(struct checkpoint_dir *d);

// Adds a new checkpoint. If it is the best, the link is moved to it, and an older one that was
// saved only because it was the best is removed.
int checkpoint_dir_add(struct checkpoint_dir *d, const char *checkpoint, bool best, bool only_best,
                       struct error *e);
const char *checkpoint_dir_last(const struct checkpoint_dir *d); // NULL: none

#endif
