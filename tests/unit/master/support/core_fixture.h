// The core without HTTP: a store in a folder of its own, requests made by hand, agents played by
// the test, and a clock that the test moves. One for each test program.
#ifndef TESTS_MASTER_CORE_FIXTURE_H
#define TESTS_MASTER_CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "base/text/json.h"
#include "db/db.h"
#include "master/calls/module.h"
#include "master/ingest/module.h"
#include "master/lifecycle/module.h"
#include "master/notify/module.h"
#include "master/retention/module.h"
#include "master/teams/module.h"
#include "tests/unit/master/support/full_ids.h"

enum { SECOND = 1000 * 1000, OWNER = 1, OTHER = 2 }; // users

struct cluster {
    struct db *db;
    struct db_reader *reader;
    struct core *core;
    char folder[32], storage[256], checkpoints[200];
    struct storage *places;   // with one allowed folder
    atomic_int log_notices;   // number of notices about new log lines
    struct core_options more; // for the next start_core(): scheduler, pools, schedule_gap_us, ..
};
extern struct cluster cl;

// Start and stop of the core; setup and teardown for cmocka.
int cluster_setup(void **state);
int cluster_teardown(void **state);
void start_core(void);
void stop_core(void);
void restart_core(void);

void advance(int64_t us); // moves the core's clock, and waits until everything due is done
void settle(void);        // waits until the core has made a turn

// --- requests ------------------------------------------------------------------------------------

struct core_call {
    struct request rq;
    core_handler *handler;
    json_t *body;
    const char *query_value; // value of every parameter; NULL: none
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

// Allocations, params[0], bodies and SQL may hold short ids of tasks and allocations (full_ids.h).
struct principal as_user(int64_t id, bool admin);
struct principal as_task(const char *allocation);
struct principal as_agent(void);

extern const char *next_query_value; // for the next call

// Sends a request; body: JSON text or NULL; params: NULL or parts of the path.
struct core_call *call_start(core_handler *handler, struct principal who, const char *p0,
                             const char *p1, const char *body);
bool call_is_done(struct core_call *call);

// Waits for the answer, returns it as JSON ({} if it is empty), and frees the call.
json_t *call_end(struct core_call *call);
extern int last_status;
extern char last_error[ERROR_TEXT_MAX];
extern int64_t last_id;

json_t *ask(core_handler *handler, struct principal who, const char *p0, const char *p1,
            const char *body);
int call_status(core_handler *handler, struct principal who, const char *p0,
                const char *body); // returns the status
int call_code(core_handler *handler, struct principal who, const char *p0,
              const char *body); // returns 0 or the enum err of the answer
void call_ok(core_handler *handler, struct principal who, const char *p0, const char *body);

// --- the store -----------------------------------------------------------------------------------

const char *stored(const char *sql); // first column of the first row as text, or "(none)"; static
#define assert_stored(sql, expected)                                                               \
    do {                                                                                           \
        const char *stored_ = stored(sql);                                                         \
        if (strcmp(stored_, expected))                                                             \
            fail_msg("%s: \"%s\", not \"%s\"", sql, stored_, expected);                            \
    } while (0)

// The log of a task as "SOURCE LEVEL RANK TIME: TEXT\n" for each line; static.
const char *logged(const char *task);

// The visible reports of a group as "run:step run:step"; static.
const char *reports_seen(int64_t trial, const char *group);

json_t *parse_json(const char *text);
const char *decimal(int64_t value); // valid for four calls

// --- experiments and agents ----------------------------------------------------------------------

// Submits YAML with a file; returns the id, or 0 with last_status and last_error.
int64_t submit(const char *yaml, bool activate);
int64_t submit_slots(int slots, const char *more); // a plain active experiment; `more`: YAML lines

extern const char *next_agent_pool, *next_agent_rack; // for the next polls; "default", ""
extern const char *next_slot_0;   // more members of slot 0 in the next polls; ""
extern const char *next_use;      // utilization of the slots in the next polls; "null"
extern const char *next_instance; // instance of the agent in the next polls; ""

// One poll that reports these tasks; the answer comes at once when `seen` is not the newest
// version.
struct core_call *sync_start(const char *agent, const char *session, int slots, int64_t seen,
                             const char *tasks);
json_t *sync_agent(const char *agent, const char *session, int slots, const char *tasks);
void report(const char *agent, int slots, const char *tasks); // in the session "session"

// The entry of an allocation in the agent's desired tasks, borrowed; NULL: none.
json_t *desired_task(const json_t *answer, const char *allocation);
const char *desired_action(const json_t *answer, const char *allocation);
// The program asks whether it should leave, and so gets time to save its work when it should.
void poll_once(const char *allocation);
bool forgotten(const json_t *answer, const char *allocation);

// The JSON of a task in a report; valid for two calls. `ranks`: a list of the entries below.
const char *task_in(const char *allocation, const char *state, const char *ranks);
#define EXIT_0   "{\"rank\":0,\"exitCode\":0,\"signal\":null}"
#define EXIT_3   "{\"rank\":0,\"exitCode\":3,\"signal\":null}"
#define EXIT_80  "{\"rank\":0,\"exitCode\":80,\"signal\":null}"
#define KILLED_9 "{\"rank\":0,\"exitCode\":null,\"signal\":9}"

#endif
