// The session: the master from --master or MUSTER_MASTER, else that of the last sign-in; the token
// from --token or MUSTER_TOKEN, else from the credentials file
// ($XDG_CONFIG_HOME/muster/credentials.json, 0600): {"last": URL, "tokens": {URL: token}}.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/http/plain.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/cli.h"
#include "cli/common/trust.h"

enum { CREDENTIALS_MAX = 1 << 20, AWAY_US = 500 * 1000 };

static const char default_master[] = "http://127.0.0.1:8080";

char *session_folder(void)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && *config != '\0')
        return path_join(config, "muster");
    return path_join(home ? home : "/", ".config/muster");
}

static json_t *read_credentials(void)
{
    char *dir = session_folder(), *path = path_join(dir, "credentials.json"), *text = NULL;
    json_t *value = NULL;
    size_t len = 0;
    if (file_read(path, CREDENTIALS_MAX, &text, &len, NULL) == 0)
        json_parse(text, len, path, &value, NULL);
    if (!json_is_object(value)) { // missing or damaged: not signed in
        json_decref(value);
        value = json_object();
    }
    if (!json_is_object(json_object_get(value, "tokens")))
        json_object_set_new(value, "tokens", json_object());
    free(text);
    free(path);
    free(dir);
    return value;
}

static int write_credentials(const json_t *value, struct error *e)
{
    char *dir = session_folder(), *path = path_join(dir, "credentials.json");
    char *text = json_dumps(value, JSON_INDENT(2));
    int err = dir_make(dir, 0700, e);
    if (!err)
        err = file_write_durable(path, text, strlen(text), 0600, e);
    free(text);
    free(path);
    free(dir);
    return err;
}

int session_save(struct cli *c, const char *token, struct error *e)
{
    json_t *value = read_credentials();
    json_object_set_new(json_object_get(value, "tokens"), c->master, json_string(token));
    json_object_set_new(value, "last", json_string(c->master));
    int err = write_credentials(value, e);
    json_decref(value);
    return err;
}

int session_forget(struct cli *c, struct error *e)
{
    json_t *value = read_credentials();
    json_object_del(json_object_get(value, "tokens"), c->master);
    int err = write_credentials(value, e);
    json_decref(value);
    return err;
}

// Whether the user trusts the authority of https://PLACE.
static bool is_known_by_https(struct cli *c, const char *place)
{
    const char *master = c->master;
    c->master = arena_printf(&c->arena, "https://%s", place);
    bool known = trust_file(c);
    c->master = master;
    return known;
}

// Normalizes "HOST:PORT" and "http://HOST:PORT/" to the same text. HOST:PORT is https if the user
// trusts the authority of that master: who answers there by http is somebody else.
static const char *normal_url(struct cli *c, const char *url)
{
    char *full = arena_strdup(&c->arena, url);
    size_t n = strlen(full);
    while (n > 0 && full[n - 1] == '/')
        full[--n] = '\0';
    if (strstr(full, "://"))
        return full;
    return arena_printf(&c->arena, "http%s://%s", is_known_by_https(c, full) ? "s" : "", full);
}

// A password or a token must not go by http to an address that is known by https.
static int refuse_downgrade(struct cli *c, struct error *e)
{
    if (strncmp(c->master, "http://", 7) != 0 || !is_known_by_https(c, c->master + 7))
        return 0;
    return error_set(e, ERR_PEER,
                     "%s: this master is known by https: write https://%s. If it has no https any "
                     "more, remove its file in ~/.config/muster/authorities",
                     c->master, c->master + 7);
}

// Returns ERR_AUTH if the master answers, else the error of the call: signing in would not help.
static int report_signed_out(struct cli *c, struct error *e)
{
    json_t *info = NULL;
    int err = client_call(c->client, "GET", "/info", NULL, &info, e);
    json_decref(info);
    return err ? trust_explain(c, err, e)
               : error_set(e, ERR_AUTH, "not signed in at %s; run: muster login USER", c->master);
}

int session_open(struct cli *c, bool need_token, struct error *e)
{
    json_t *saved = read_credentials();
    const char *last = jget_string(saved, "last", default_master);
    c->master = normal_url(c, c->options.master ? c->options.master : last);
    c->token = c->options.token;
    if (!c->token) {
        c->token = arena_strdup(&c->arena, json_string_value(json_object_get(
                                               json_object_get(saved, "tokens"), c->master)));
    }
    json_decref(saved);
    const char *authority = c->options.ca_file && !c->pinned ? NULL : trust_file(c);
    c->pinned = authority;
    c->options.ca_file = authority ? authority : c->options.ca_file;
    struct client_options options = {
        .url = c->master,
        .auth = c->token ? CLIENT_BEARER : CLIENT_NO_AUTH,
        .token = c->token,
        .ca_file = c->options.ca_file,
        .only_ca_file = c->pinned,
        .timeout_s = c->timeout_s,
        .connect_timeout_s = c->timeout_s,
        .plain = plain_exchange,
    };
    int err = refuse_downgrade(c, e);
    err = err ? err : client_open(&options, &c->client, e);
    return !err && need_token && !c->token ? report_signed_out(c, e) : err;
}

static int call_path(struct cli *c, const char *method, const json_t *body, json_t **answer,
                     const char *path, struct error *e)
{
    int err = client_call(c->client, method, path, body, answer, e);
    if (err == ERR_AUTH && c->token) {
        return error_set(e, err, "the token for %s is wrong or has expired; run: muster login USER",
                         c->master);
    }
    return trust_explain(c, err, e);
}

int cli_call(struct cli *c, const char *method, const json_t *body, json_t **answer,
             struct error *e, const char *path, ...)
{
    va_list args;
    va_start(args, path);
    char *full = NULL;
    int n = vasprintf(&full, path, args);
    va_end(args);
    int err = n < 0 ? ERR_NO_MEMORY : call_path(c, method, body, answer, full, e);
    free(full);
    return err;
}

void cli_note_away(bool gone, bool *away)
{
    if (gone && !*away)
        fputs("muster: the master does not answer; waiting until it is back (Ctrl-C ends this "
              "command)\n",
              stderr);
    *away = gone;
}

bool cli_await_master(int err, bool *away)
{
    bool gone = err == ERR_UNAVAILABLE || err == ERR_TIMEOUT || err == ERR_PEER || err == ERR_BUSY;
    cli_note_away(gone, away);
    if (gone)
        clock_sleep_us(AWAY_US);
    return gone;
}

const char *cli_query(struct cli *c, const char *name, const char *value)
{
    if (!value)
        return "";
    char *escaped = client_escape(value);
    const char *query = arena_printf(&c->arena, "&%s=%s", name, escaped);
    free(escaped);
    return query;
}

// The path of the next page: by the cursor if the list has one, else by the offset.
static char *page_path(const char *path, const char *cursor, long long offset, long long limit)
{
    char mark = strchr(path, '?') ? '&' : '?';
    if (cursor)
        return xasprintf("%s%ccursor=%s&limit=%lld", path, mark, cursor, limit);
    return xasprintf("%s%coffset=%lld&limit=%lld", path, mark, offset, limit);
}

int cli_list(struct cli *c, const char *key, long long limit, json_t **rows, struct error *e,
             const char *path, ...)
{
    va_list args;
    va_start(args, path);
    char *full = NULL;
    int err = vasprintf(&full, path, args) < 0 ? ERR_NO_MEMORY : 0;
    va_end(args);
    *rows = json_array();
    char *cursor = NULL;
    for (bool more = true; more && !err;) {
        long long have = (long long)json_array_size(*rows);
        long long page = limit > 0 && limit - have < LIMIT_PAGE ? limit - have : LIMIT_PAGE;
        char *paged = page_path(full, cursor, have, page);
        json_t *answer = NULL;
        err = call_path(c, "GET", NULL, &answer, paged, e);
        free(paged);
        json_t *got = jget(answer, key);
        for (size_t i = 0; i < json_array_size(jget(answer, "values")); i++) {
            json_object_set(json_array_get(got, i), CLI_LIST_VALUES,
                            json_array_get(jget(answer, "values"), i));
        }
        json_array_extend(*rows, got);
        long long total = jget_int(jget(answer, "pagination"), "total", 0);
        have = (long long)json_array_size(*rows);
        free(cursor);
        cursor = xstrdup(jget_string(answer, "nextCursor", NULL));
        more = json_array_size(got) > 0 && (cursor || have < total) && (limit <= 0 || have < limit);
        json_decref(answer);
    }
    free(cursor);
    free(full);
    if (err) {
        json_decref(*rows);
        *rows = NULL;
    }
    return err;
}

int cli_confirm(struct cli *c, struct error *e, const char *question, ...)
{
    char answer[16];
    va_list args;
    if (c->options.yes)
        return 0;
    if (!isatty(STDIN_FILENO))
        return error_set(e, ERR_INVALID, "deleting needs confirmation; give --yes to confirm");
    va_start(args, question);
    vprintf(question, args);
    va_end(args);
    fputs(" [y/N] ", stdout);
    fflush(stdout);
    if (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y'))
        return error_set(e, ERR_CONFLICT, "nothing was deleted");
    return 0;
}
