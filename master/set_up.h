// Where the master listens and with which certificate, by its settings and by the folder
// DATA_DIR/tls, which --init makes. Main thread, before other threads start.
#ifndef MUSTER_MASTER_SET_UP_H
#define MUSTER_MASTER_SET_UP_H

#include "master/options.h"

// Does --init: makes what is missing in DATA_DIR/tls, and prints what is there and what to do next.
// A second call changes nothing and says so.
int set_up_tls(const struct master_options *o, struct error *e);

struct listening {
    const char *bind;
    const char *cert_file, *key_file;   // NULL: http
    const char *own_certificate_of;     // data folder, if the files are in its tls; else NULL
    char *own_cert_file, *own_key_file; // owned
};

// Decides; listening_free() frees.
void listening_choose(const struct master_options *o, struct listening *out);
void listening_free(struct listening *l);

#endif
