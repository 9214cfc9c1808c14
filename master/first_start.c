#include "master/first_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "master/http/auth/auth.h"

enum { PASSWORD_FILE_MAX = 4096, RANDOM_PASSWORD = 20 };

#define INITIAL_PASSWORD_ENV "MUSTER_INITIAL_PASSWORD"

static void make_password(char out[RANDOM_PASSWORD + 1])
{
    // No letters that are easily confused; 32 of them, so that every byte is used evenly.
    static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789";
    uint8_t bytes[RANDOM_PASSWORD];
    rng_secret(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        out[i] = letters[bytes[i] % 32];
    out[RANDOM_PASSWORD] = '\0';
}

static int read_password(const char *path, char **out, struct error *e)
{
    size_t len;
    int rc = file_read(path, PASSWORD_FILE_MAX, out, &len, e);
    if (!rc)
        (*out)[strcspn(*out, "\r\n")] = '\0';
    return rc;
}

// Writes a random password into a new file.
static int make_password_file(const char *path, char **out, struct error *e)
{
    char *line = xcalloc(1, RANDOM_PASSWORD + 2);
    make_password(line);
    *out = xstrdup(line);
    line[RANDOM_PASSWORD] = '\n';
    int rc = file_write_durable(path, line, RANDOM_PASSWORD + 1, 0600, e);
    explicit_bzero(line, RANDOM_PASSWORD);
    free(line);
    if (!rc)
        log_info("the file holds the password of the first users, admin and determined; sign in, "
                 "change it, and delete the file",
                 "file=%s", path);
    return rc;
}

// The password of the first users; *shown: the caller must print it, because nobody knows it yet.
static int initial_password(const struct first_start *o, char **out, bool *shown, struct error *e)
{
    const char *given = getenv(INITIAL_PASSWORD_ENV);
    *shown = false;
    if (o->password_file) {
        int rc = path_exists(o->password_file) ? read_password(o->password_file, out, e)
                                               : make_password_file(o->password_file, out, e);
        if (rc)
            return error_prefix(e, "--initial-password-file");
    } else if (given) {
        *out = xstrdup(given);
    } else {
        *out = xcalloc(1, RANDOM_PASSWORD + 1);
        make_password(*out);
        *shown = true;
    }
    if (**out)
        return 0;
    return error_set(e, ERR_INVALID,
                     "the initial password is blank; put one into the first line of the file given "
                     "with --initial-password-file, or leave that away to get a random one");
}

static int add_users(struct db_batch *b, const char *password, struct error *e)
{
    static const struct {
        const char *name;
        bool admin;
    } users[] = {{"admin", true}, {"determined", false}};
    char sent[SHA512_HEX], hash[PASSWORD_HASH_MAX];
    auth_password_sent(password, false, sent);
    int64_t now = clock_wall_us();
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof users / sizeof *users; i++) {
        rc = auth_password_hash(sent, hash, e);
        DB_ADD(b, USER_INSERT, users[i].name, "", (int64_t)users[i].admin, 1, hash, now);
    }
    explicit_bzero(sent, sizeof sent);
    // The users table was empty: admin has id 1.
    DB_ADD(b, WORKSPACE_INSERT, DB_NOT_NULL(1), "Uncategorized", 1, now);
    DB_ADD(b, PROJECT_INSERT, 1, "Uncategorized", 1, "", 1, now, "UNCAT");
    return rc;
}

static char *meta_of(struct db_reader *db, const char *key)
{
    struct db_rows *rows = DB_QUERY(db, META_GET, key);
    char *value = db_next(rows) == 1 ? xstrdup(DB_GET(rows, META_GET, value)) : NULL;
    db_rows_close(rows);
    return value;
}

static int name_cluster(struct db_reader *db, const struct first_start *o, struct db_batch *b,
                        struct cluster_identity *out, struct error *e)
{
    if (o->cluster_name && (!*o->cluster_name || strlen(o->cluster_name) > LIMIT_NAME))
        return error_set(e, ERR_INVALID, "--cluster-name: give 1 to %d bytes", LIMIT_NAME);
    out->id = meta_of(db, "cluster_id");
    if (!out->id) {
        out->id = xcalloc(1, UUID_TEXT);
        uuid_make(out->id);
        DB_ADD(b, META_SET, "cluster_id", out->id);
    }
    out->name = meta_of(db, "cluster_name");
    if (o->cluster_name || !out->name) {
        free(out->name);
        out->name = xstrdup(o->cluster_name ? o->cluster_name : "muster");
        DB_ADD(b, META_SET, "cluster_name", out->name);
    }
    return 0;
}

// Reads the shared token from its file, or makes both; *hash "": there is none.
static int shared_token(const char *path, bool make, char hash[SHA256_HEX], struct error *e)
{
    char token[TOKEN_TEXT], *text = NULL;
    int rc = 0;
    *hash = '\0';
    if (path_exists(path)) {
        rc = read_password(path, &text, e);
        if (!rc && strlen(text) < 16)
            rc = error_set(e, ERR_INVALID, "%s holds no token; remove the file to get a new one",
                           path);
        if (!rc)
            sha256_hex(text, strlen(text), hash);
    } else if (make) {
        auth_token_make(token, hash);
        text = xasprintf("%s\n", token);
        rc = file_write_durable(path, text, strlen(text), 0600, e);
    }
    free(text);
    return rc;
}

// The token that agents without a credential of their own share. The file decides, so replacing the
// file and restarting the master replaces the token.
static int grant_agents(const char *path, const struct first_start *o, struct db_batch *b,
                        struct db_reader *db, struct error *e)
{
    char hash[SHA256_HEX] = "";
    int rc = o->refuse_token ? 0 : shared_token(path, !o->make_no_token, hash, e);
    if (rc)
        return rc;
    struct db_rows *rows = DB_QUERY(db, TOKEN_PRINCIPAL, hash);
    bool known = db_next(rows) == 1;
    db_rows_close(rows);
    if (known)
        return 0;
    DB_ADD(b, TOKENS_DELETE_AGENTS, hash);
    if (*hash)
        DB_ADD(b, TOKEN_INSERT, hash, "agent", NULL, NULL, clock_wall_us(), 0);
    return 0;
}

static bool has_users(struct db_reader *db)
{
    struct db_rows *rows = DB_QUERY(db, USERS);
    bool some = db_next(rows) == 1;
    db_rows_close(rows);
    return some;
}

// Printed on the terminal only: never in a log, and stored only as a hash.
static void show_password(const char *password)
{
    fprintf(stderr,
            "\n  The first users of this cluster are \"admin\" and \"determined\".\n"
            "  Their password, shown this once:  %s\n"
            "  Sign in with:  muster login admin --master URL, with the url of the lines below\n\n",
            password);
}

int first_start(struct db *db, const struct first_start *o, struct cluster_identity *out,
                struct error *e)
{
    struct db_reader *reader = NULL;
    struct db_batch *b = db_batch_new();
    char *password = NULL, *token_path = path_join(o->data_dir, "agent.token");
    bool shown = false;
    *out = (struct cluster_identity){0};
    int rc = db_reader_open(db, &reader, e);
    if (!rc)
        rc = name_cluster(reader, o, b, out, e);
    if (!rc && !has_users(reader)) {
        rc = initial_password(o, &password, &shown, e);
        if (!rc)
            rc = add_users(b, password, e);
    }
    if (!rc)
        rc = grant_agents(token_path, o, b, reader, e);
    if (!rc && shown) // before it takes effect: an unknown password would lock everybody out
        show_password(password);
    if (!rc && !db_batch_empty(b)) {
        rc = db_commit_wait(db, b, e);
        b = NULL;
    }
    if (password)
        explicit_bzero(password, strlen(password));
    free(password);
    free(token_path);
    if (b)
        db_batch_free(b);
    if (reader)
        db_reader_close(reader);
    if (rc) {
        free(out->id);
        free(out->name);
        *out = (struct cluster_identity){0};
    }
    return rc;
}
