// A submission on its way: read and packed by a worker, then made an experiment on the core thread.
// submit.c owns it and handles experiments; task_submit.c handles the differences of commands and
// generic tasks.
#ifndef MUSTER_MASTER_CALLS_SUBMIT_H
#define MUSTER_MASTER_CALLS_SUBMIT_H

#include "base/text/yaml.h"
#include "master/calls/code_archives.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"
#include "master/search/search.h"
#include "master/teams/authz.h"

struct submission_fields { // names of keys in the body
    const char *files, *template, *external;
    bool previews; // not a key: the call shows what would run, and creates nothing
};

struct submission {
    struct work work; // first
    struct request *rq;
    enum kind kind;
    const struct submission_fields *fields;
    const struct storage *storage;
    bool unmanaged;
    const char *external_id; // by which the submitter makes it once; NULL: none
    char *text;              // the configuration to parse and store; NULL: as in the body
    json_t *config;          // complete
    json_t *command;         // the complete configuration of a command; NULL: another kind
    bool names_pool;         // resources.resource_pool was given
    bool names_launch;       // launch was given
    bool workspace_pool;     // its pool is the default of its workspace
    struct buf ignored;      // the keys that the user has set and that have no effect
    char *ancestors;         // of a generic task; NULL: none
    bool no_pause;
    struct db *db;
    int64_t archive_id; // the number of the parts of its files
    struct code_archive code_archive;
    int64_t files_from; // the experiment that owns its files; 0: it brought its own
    bool no_files;
    int64_t project, seed;
    int64_t parent; // of a fork: the original experiment; 0: no fork
    struct search *search;
    bool seed_given; // the configuration has a seed
    json_t *preview; // the answer of preview.c
    int err;
    struct error e;
};

// feasibility.c, on the core thread: whether a submission could ever run. ERR_INVALID: it never
// could with the present settings, because the pool does not exist or a trial needs more slots than
// the maximum of the workspace or of the user in it.
int feasibility_check(struct core *c, const json_t *config, const struct workspace *ws,
                      int64_t user, struct error *e);
// Whether a program can have its storage of type shared_fs. ERR_INVALID: no agent of its pool that
// is connected can make mounts; the text says what to write instead.
int feasibility_check_storage(struct core *c, const json_t *config, struct error *e);
// Whether bind_mounts have no effect, for the same reason.
bool feasibility_ignores_mounts(struct core *c, const json_t *config);
// A sentence if the present agents are too few or too small, or the searcher's settings are
// probably a mistake. Heap; NULL: no warning.
char *feasibility_warning(struct core *c, const json_t *config);
// The same if a trial has several slots and its entrypoint is one Python program without a
// launcher, for a configuration that does not name `launch`.
char *feasibility_launch_warning(const json_t *config);

// submit.c, on the core thread: sets the warnings of the answer, which also mention log ranges
// whose bounds look like values.
void submission_warn(struct core *c, struct request *rq, const json_t *config);

// submit.c, on the worker. submission_copy_files() uses the files of another experiment.
bool submission_sees(struct submission *s, struct db_reader *db, enum authz_object what,
                     int64_t id);
void submission_copy_files(struct submission *s, int64_t experiment, const char *hash);

// preview.c, on the worker: simulates the search of the completed configuration.
int submission_preview(struct submission *s);

// task_submit.c, on the worker: reads the text of the configuration and the related tasks;
// completes the document as that of an experiment; sets the pool and the text that a command shows;
// finds a project of a workspace.
int task_submission_read(struct submission *s, struct db_reader *db);
int task_submission_finish(struct submission *s, struct yaml_doc *doc);
void task_submission_show(struct submission *s);
int task_submission_find_project(struct submission *s, struct db_reader *db, int64_t workspace);
// task_submit.c, on the core thread: whether a task may be made below its parent.
int task_submission_check_parent(struct core *c, struct submission *s);

#endif
