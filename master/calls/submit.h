// A submission on its way: read and packed on a worker, made an experiment, or one task of another
// kind, on the core thread. submit.c owns it and knows experiments; task_submit.c, what is
// different of commands and generic tasks.
#ifndef MUSTER_MASTER_CALLS_SUBMIT_H
#define MUSTER_MASTER_CALLS_SUBMIT_H

#include "base/text/yaml.h"
#include "master/calls/code_archives.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"
#include "master/search/search.h"
#include "master/teams/authz.h"

struct submission_fields { // of the body
    const char *files, *template, *external;
};

struct submission {
    struct work work; // first
    struct request *rq;
    enum kind kind;
    const struct submission_fields *fields;
    const struct storage *storage;
    bool unmanaged;
    const char *external_id; // its submitter's name for it, by which it is made once; NULL: none
    char *text;              // the configuration to read and to keep; NULL: as it is in the body
    json_t *config;          // complete
    char *ancestors;         // of a generic task; NULL: none
    bool no_pause;
    struct db *db;
    int64_t archive; // number of the parts of its files
    struct files files;
    int64_t files_of; // the experiment whose files it has, files.hash; 0: it brought its own
    bool no_files;
    int64_t project, seed;
    int64_t parent; // of a fork: the experiment it came from; 0: it is none
    struct search *search;
    int err;
    struct error e;
};

// submit.c, on the worker.
bool submission_sees(struct submission *s, struct db_reader *db, enum thing what, int64_t id);
void submission_take_files(struct submission *s, int64_t experiment, const char *hash);

// task_submit.c, on the worker: the text of its configuration and what it has of other tasks; the
// document made that of its experiment; a project of a workspace.
int task_read(struct submission *s, struct db_reader *db);
int task_finish(struct submission *s, struct yaml_doc *doc);
int task_find_project(struct submission *s, struct db_reader *db, int64_t workspace);
// .. on the core thread: that a child may be made below its parent.
int task_check_parent(struct core *c, struct submission *s);

#endif
