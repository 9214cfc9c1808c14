// Whether the program of a trial shall save a checkpoint and end now.
#include <stdio.h>
#include <stdlib.h>

#include "api/http/client.h"
#include "api/http/plain.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/task/own_task.h"

enum { CONNECT_S = 2, CALL_S = 10, GO_ON = 1 };

// The file with the authority of the master's certificate. Determined's library reads the first
// variable, too.
static const char *find_authority(void)
{
    const char *file = getenv("DET_MASTER_CERT_FILE");
    return file && *file ? file : getenv("MUSTER_CA_FILE");
}

// ERR_PEER with a status of 500 or more comes from a proxy in front of an absent master. Other
// cases of ERR_PEER, such as a certificate that is not trusted, do not pass by themselves.
static bool is_away(const struct client *client, int err)
{
    return err == ERR_UNAVAILABLE || err == ERR_TIMEOUT || err == ERR_BUSY ||
           (err == ERR_PEER && client_status(client) >= 500);
}

// *away: the master cannot be reached now.
static int ask_master(const char *url, const char *token, const char *allocation, bool *stop,
                      bool *away, struct error *e)
{
    const struct client_options options = {.url = url,
                                           .auth = CLIENT_TASK,
                                           .token = token,
                                           .ca_file = find_authority(),
                                           .connect_timeout_s = CONNECT_S,
                                           .timeout_s = CALL_S,
                                           .plain = plain_exchange};
    struct client *client = NULL;
    json_t *answer = NULL;
    char *id = client_escape(allocation);
    char *ask = xasprintf("/api/v1/allocations/%s/signals/preemption?timeout_seconds=0", id);
    char *hear = xasprintf("/api/v1/allocations/%s/signals/ack_preemption", id);
    int err = client_open(&options, &client, e);
    if (!err)
        err = client_call(client, "GET", ask, NULL, &answer, e);
    *stop = jget_bool(answer, "preempt", false);
    if (!err && *stop)
        err = client_call(client, "POST", hear, NULL, NULL, e);
    *away = client && is_away(client, err);
    client_close(client);
    json_decref(answer);
    free(hear);
    free(ask);
    free(id);
    return err;
}

// While the master is away, nobody asks the program to stop.
int run_should_stop(struct cli *c, const struct command *self, struct error *e)
{
    const char *url, *token, *allocation;
    bool stop = false, away = false;
    (void)self;
    int err = own_task_variable("DET_ALLOCATION_ID", &allocation, e);
    err = err ? err : own_task_variable("DET_MASTER", &url, e);
    err = err ? err : own_task_variable("DET_SESSION_TOKEN", &token, e);
    err = err ? err : ask_master(url, token, allocation, &stop, &away, e);
    if (away) {
        if (!c->options.quiet)
            fprintf(stderr, "muster: %s; the program goes on\n", e->text);
        *e = (struct error){0};
        err = 0;
        stop = false;
    }
    c->exit_code = stop ? 0 : GO_ON;
    return err;
}
