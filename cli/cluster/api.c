#include "cli/cluster/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/enrolment.h"
#include "base/arena.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/common/trust.h"
#include "cli/output/rows.h"

int api_open(struct cluster_work *x, struct error *e)
{
    pthread_mutex_lock(&x->api_lock);
    client_close(x->c->client);
    x->c->client = NULL;
    x->c->options.master = x->url;
    int err = session_open(x->c, false, e);
    pthread_mutex_unlock(&x->api_lock);
    return err;
}

int api_trust(struct cluster_work *x, struct error *e)
{
    int err = trust_pin(x->c, x->fingerprint, e);
    return err ? err : api_open(x, e);
}

int api_call(struct cluster_work *x, const char *method, const char *path, const json_t *body,
             json_t **answer, struct error *e)
{
    pthread_mutex_lock(&x->api_lock);
    int err = client_call(x->c->client, method, path, body, answer, e);
    pthread_mutex_unlock(&x->api_lock);
    return err;
}

// ERR_AUTH: the master answers, and there is no session, or it is over.
static int check_session(struct cluster_work *x, struct error *e)
{
    json_t *answer = NULL;
    int err = api_call(x, "GET", x->c->token ? "/api/v1/me" : "/info", NULL, &answer, e);
    if (!err && !x->c->token)
        err = ERR_AUTH;
    const json_t *user = jget(answer, "user");
    if (!err && !jget_bool(user, "admin", false))
        err = error_set(e, ERR_FORBIDDEN,
                        "you are signed in as %s, who is no administrator; run: muster login admin "
                        "--master %s",
                        jget_string(user, "username", "?"), x->url);
    json_decref(answer);
    return err;
}

int api_sign_in(struct cluster_work *x, const char *password, struct error *e)
{
    int err = check_session(x, e);
    if (err != ERR_AUTH)
        return err;
    if (password) {
        pthread_mutex_lock(&x->api_lock);
        err = sign_in(x->c, "admin", password, e);
        pthread_mutex_unlock(&x->api_lock);
        x->signed_in_by_file = err == 0;
    }
    if (err == ERR_AUTH || err == ERR_FORBIDDEN)
        err =
            error_set(e, ERR_AUTH,
                      "the master runs, and you are not signed in as an administrator; run: muster "
                      "login admin --master %s, then this command again",
                      x->url);
    return err;
}

bool api_has_credential(struct cluster_work *x, const char *id)
{
    json_t *answer = NULL, *one;
    size_t i;
    bool found = false;
    if (api_call(x, "GET", "/api/v1/agent-credentials", NULL, &answer, NULL) == 0)
        json_array_foreach(jget(answer, "credentials"), i, one) found |=
            strcmp(jget_string(one, "agentId", ""), id) == 0;
    json_decref(answer);
    return found;
}

int api_enrol(struct cluster_work *x, const char *id, char **line, struct error *e)
{
    struct enrolment s = {0};
    json_t *answer = NULL;
    json_t *body = json_pack("{s:s, s:s, s:i}", "agentId", id, "lifespan", "1h", "uses", 1);
    *line = NULL;
    int err = api_call(x, "POST", "/api/v1/agent-enrolments", body, &answer, e);
    err = err ? err : enrolment_set_url(&s, x->url, jget_string(answer, "fingerprint", ""), e);
    if (!err) {
        snprintf(s.token, sizeof(s.token), "%s", jget_string(answer, "token", ""));
        *line = enrolment_format(&s);
    }
    explicit_bzero(&s, sizeof(s));
    json_decref(answer);
    json_decref(body);
    return err;
}

json_t *api_agent(struct cluster_work *x, const char *id, struct error *e)
{
    json_t *answer = NULL, *row = NULL;
    char *escaped = client_escape(id), *path = xasprintf("/api/v1/agents/%s", escaped);
    if (api_call(x, "GET", path, NULL, &answer, e) == 0)
        row = row_agent(jget(answer, "agent"));
    json_decref(answer);
    free(path);
    free(escaped);
    return row;
}
