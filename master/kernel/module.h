// A module of the core: a folder of the master (teams, lifecycle, ingest, ...) as the kernel
// sees it.
// The kernel calls the functions of all modules in the order of core_options.modules; NULL: the
// module has none. Core thread alone.
//
// A folder calls functions of the folders below it directly (master/modules.c lists them from the
// bottom up). Where something happens below that a folder above must act upon, the lower folder
// dispatches an event with CORE_DISPATCH(); the events are the last part of struct core_module. An
// event is handled at once, inside the call that dispatches it, and its rows join the same batch.
#ifndef MUSTER_MASTER_KERNEL_MODULE_H
#define MUSTER_MASTER_KERNEL_MODULE_H

#include <jansson.h>

#include "base/arena.h"
#include "master/kernel/core.h"

struct active_experiment;
struct experiment;
struct log_pattern_list;
struct project;
struct series_block;
struct trial;
struct workspace;

// The metrics of a trial that the store holds in addition to its reports, as texts of the store.
struct stored_metrics {
    const char *training, *validation, *best, *summary; // NULL: none
    int64_t known;                                      // the newest report that the row covers
};

struct core_module {
    const char *name;

    // --- the life of the core
    void (*init)(struct core *c);                 // makes the module's own state
    int (*load)(struct core *c, struct error *e); // reads the module's rows
    void (*resume)(struct core *c); // every module has loaded; continues what was under way
    void (*start)(struct core *c);  // before the first turn
    void (*free)(struct core *c);

    // --- the end of a turn, in this order; the first four before its batch is committed
    void (*decide)(struct core *c); // lets the scheduler decide and answers the agents
    void (*flush)(struct core *c);  // adds the rows that were put off to the end of the turn
    void (*reap)(struct core *c);   // frees the objects that have ended
    void (*describe)(struct core *c, struct changes *changes); // adds live values to change notes
    void (*after_turn)(struct core *c); // begins work that waited for a commit

    // --- events of teams
    // Whether the experiments of a project may move to another workspace. ERR_INVALID,
    // ERR_CONFLICT.
    int (*project_move_check)(struct core *c, const struct project *p, const struct workspace *to,
                              struct error *e);
    void (*experiment_moved)(struct core *c, struct active_experiment *l); // with its project
    void (*workspace_removed)(struct core *c, const struct workspace *ws);
    // The workspace or project is to be deleted with all that is in it; it accepts no new
    // experiments.
    void (*workspace_deleting)(struct core *c, const struct workspace *ws);
    void (*project_deleting)(struct core *c, const struct project *p);

    // --- events of lifecycle
    void (*experiment_opened)(struct core *c, struct active_experiment *l); // it is active now
    void (*experiment_closed)(struct core *c, struct active_experiment *l); // it will be freed
    void (*experiment_state_changed)(struct core *c, const struct experiment *x);
    void (*experiment_ended)(struct core *c, struct experiment *x);
    int (*trial_loaded)(struct core *c, struct trial *t, const struct stored_metrics *stored,
                        struct error *e);
    void (*trial_reopened)(struct core *c, struct trial *t);  // its experiment had ended
    void (*trial_continued)(struct core *c, struct trial *t); // it had ended, and runs again
    void (*trial_cloned)(struct core *c, struct trial *t); // another will start from its checkpoint
    // A later run of the trial starts at step `from`; -1: at the beginning.
    void (*run_restarted)(struct core *c, struct trial *t, int64_t from);
    void (*trial_failed)(struct core *c, struct trial *t); // it will be started again
    void (*trial_ended)(struct core *c, struct trial *t);
    void (*search_continued)(struct core *c, struct active_experiment *l); // after a trial's end
    void (*trial_closed)(struct core *c, struct trial *t);                 // it will be freed
    // The master writes a line into the trial's log. `allocation`: "" or the one it is about.
    void (*trial_message)(struct core *c, const struct trial *t, const char *allocation,
                          const char *level, const char *text);
    // An agent has measured its machine for a trial: a report without a step; values live in arena.
    void (*machine_measured)(struct core *c, struct trial *t, const char *group,
                             const json_t *values, int64_t time, struct arena *arena);

    // --- events of calls
    // It was deleted and is freed next; `failure` is the reason why it was not, or NULL.
    void (*experiment_removed)(struct core *c, const struct experiment *x, const char *failure);

    // --- events of ingest
    // Adds patterns that the new lines of the trial's log must be matched with.
    void (*log_patterns_wanted)(struct core *c, const struct trial *t, struct log_pattern_list *w);
    void (*log_line_matched)(struct core *c, const struct trial *t, const char *agent,
                             int64_t trigger, const char *line);
    // Report `at` of the block is a validation.
    void (*validation_reported)(struct core *c, const struct trial *t, const struct series_block *b,
                                size_t at);
};

#define CORE_DISPATCH(c, event, ...)                                                               \
    do {                                                                                           \
        for (const struct core_module *const *m_ = (c)->options.modules; *m_; m_++)                \
            if ((*m_)->event)                                                                      \
                (*m_)->event(__VA_ARGS__);                                                         \
    } while (0)

// The same for an event that returns an error: stops at the first module that does.
#define CORE_DISPATCH_CHECKED(err, c, event, ...)                                                  \
    do {                                                                                           \
        for (const struct core_module *const *m_ = (c)->options.modules; *m_ && !(err); m_++)      \
            if ((*m_)->event)                                                                      \
                (err) = (*m_)->event(__VA_ARGS__);                                                 \
    } while (0)

#endif
