// Creates what a master needs before it can serve: users, the first workspace and project, the
// names of the cluster, the token of the agents. Main thread, before the server starts.
#ifndef MUSTER_MASTER_FIRST_START_H
#define MUSTER_MASTER_FIRST_START_H

#include <stdbool.h>

#include "db/db.h"

struct first_start {
    const char *data_dir;
    // Of the first users; a missing file is made, with a random password. NULL:
    // MUSTER_INITIAL_PASSWORD, else a random one, shown once.
    const char *password_file;
    const char *cluster_name; // NULL: keep the one in the store
    bool refuse_token;        // agents cannot use the token that they share, DATA_DIR/agent.token
    bool make_no_token;       // if that file is missing, none is made
};

struct cluster_identity { // heap strings
    char *id, *name;
};

// Creates what is missing in one commit; a store with users keeps them. Without a shared token of
// the agents, the former one ends. ERR_INVALID: a blank password.
int first_start(struct db *db, const struct first_start *options, struct cluster_identity *out,
                struct error *e);

#endif
