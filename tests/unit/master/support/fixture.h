// A master without a core, on a port of its own, with a store in the current folder: experiment 1
// of user 2 (determined), its trial 1, task "1.task", the running allocation "1.task.1", and a
// token for each kind of caller. One for each test program.
#ifndef TESTS_MASTER_FIXTURE_H
#define TESTS_MASTER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "master/first_start.h"
#include "master/http/auth/auth.h"
#include "master/http/server.h"
#include "master/notify/log_followers.h"
#include "tests/unit/master/support/client.h"
#include "tests/unit/master/support/core_stub.h"

#define PASSWORD "correct horse battery staple" // of the users admin and determined

enum { OTHERS_MAX = 16 };

struct http_fixture {
    struct db *db;
    struct core *core;
    struct log_followers *log_followers;
    struct hub *hub;
    struct storage *storage; // the folder "checkpoints" here
    struct server *server;
    struct cluster_identity cluster;
    int port;
    char user[TOKEN_TEXT], admin[TOKEN_TEXT], agent[TOKEN_TEXT], task[TOKEN_TEXT];
    char others[OTHERS_MAX][TOKEN_TEXT]; // of users that a test adds
};

extern struct http_fixture fx;

// Commits one statement.
#define STORE(name, ...)                                                                           \
    do {                                                                                           \
        struct db_batch *batch_ = db_batch_new();                                                  \
        struct error error_ = {0};                                                                 \
        DB_ADD(batch_, name, __VA_ARGS__);                                                         \
        if (db_commit_wait(fx.db, batch_, &error_))                                                \
            fail_msg("%s", error_.text);                                                           \
    } while (0)

#define I(value) ((int64_t)(value))
#define AT       I(1700000000000000) // 2023-11-14T22:13:20Z

int fixture_start(void **state);
int fixture_stop(void **state);
extern int64_t fixture_log_search_us; // for the next server; 0: the default
void start_server(void);
void stop_server(void);

void grant(char token[TOKEN_TEXT], const char *kind, int64_t user, const char *allocation,
           int64_t expires); // a token of that kind
void store_experiment(int64_t id, const char *state, const char *name);
void store_trial(int64_t id, int64_t experiment, const char *task);
void store_log(const char *task, int64_t rank, const char *level, const char *text);

bool reaches(atomic_int *counter, int value); // waits up to five seconds

#endif
