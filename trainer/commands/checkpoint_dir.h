// The folder of checkpoints of `muster-trainer run`: step-00000100, step-00000200, .. and a link
// `best` to one of them. One training at a time: what another left there is gone on from or removed
// when asked, and never mixed with. Parent process; one thread.
#ifndef MUSTER_TRAINER_COMMANDS_CHECKPOINT_DIR_H
#define MUSTER_TRAINER_COMMANDS_CHECKPOINT_DIR_H

#include <stdbool.h>

#include "base/error.h"

struct checkpoint_dir {
    const char *path;   // borrowed
    char **checkpoints; // folders to go on from, the best last
    int count;
    bool best;   // there is a link
    char *spare; // kept only for being the best so far; NULL
};

// What to do with checkpoints that are there.
struct checkpoint_dir_options {
    const char *from; // a checkpoint elsewhere to go on from; NULL
    bool resume, overwrite;
};

// Makes the folder. ERR_CONFLICT: it holds checkpoints, and nothing was chosen. ERR_INVALID: the
// choices contradict each other. Close it after an error too.
int checkpoint_dir_open(const char *path, const struct checkpoint_dir_options *choice,
                        struct checkpoint_dir *out, struct error *e);
void checkpoint_dir_close(struct checkpoint_dir *f);

// A new checkpoint. The best gets the link, and takes the place of one that was only the best.
int checkpoint_dir_add(struct checkpoint_dir *f, const char *checkpoint, bool best, bool only_best,
                       struct error *e);
const char *checkpoint_dir_last(const struct checkpoint_dir *f); // NULL: none

#endif
