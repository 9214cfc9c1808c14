#include "master/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "base/text/yaml.h"
#include "master/http/limits/connections.h"

enum { PREEMPTION_MOST_S = 604800 };

static const struct master_options defaults = {
    .data_dir = "/var/lib/muster",
    .api_version = "0.38.1",
    .log_level = "info",
    .scheduler = "fair_share",
    .port = 8080,
    .agent_silence = 10,
    .agent_reconnect = 30,
    .kill_grace = 10,
    .preemption_timeout = 600,
    .preempt_after = -1,
    .restart_backoff = 1,
    .max_user_priority = SCHED_PRIORITY_DEFAULT,
    .grow_after = -1,
    .backup_keep = 7,
    .connections = LIMIT_CONNECTIONS,
    .metrics = "loopback",
    .slow_request = 1000,
    .store_slow = 2000,
    .alert_calm = 300,
    .smtp_from = "muster@localhost",
};

enum { CONFIG_FILE_MAX = 1 << 20 }; // bytes

// The flags; each holds the offset of its value in struct master_options instead of an address.
static const struct {
    const char *name;
    char letter;
    enum flag_kind kind;
    size_t place;
    const char *value_name, *help;
    long long min, max;
    const char *env;
} flag_table[] = {
    {"data-dir", 'd', FLAG_STRING, offsetof(struct master_options, data_dir), "DIR",
     "store, agent token and checkpoints (/var/lib/muster)", 0, 0, "MUSTER_DATA_DIR"},
    {"port", 'p', FLAG_INT, offsetof(struct master_options, port), "N",
     "port of the API (8080; 0: any free one)", 0, 65535, NULL},
    {"bind", 0, FLAG_STRING, offsetof(struct master_options, bind), "ADDRESS",
     "address to listen on (0.0.0.0, all of them, with https or --insecure; otherwise 127.0.0.1, "
     "this machine alone)",
     0, 0, NULL},
    {"insecure", 0, FLAG_BOOL, offsetof(struct master_options, insecure), NULL,
     "allow http beyond this machine: everybody on the network can then read passwords and tokens",
     0, 0, NULL},
    {"init", 0, FLAG_BOOL, offsetof(struct master_options, init), NULL,
     "make an authority and a certificate for https in DATA_DIR/tls, and end; a master with that "
     "folder serves https",
     0, 0, NULL},
    {"host-name", 0, FLAG_LIST, offsetof(struct master_options, host_names), "NAME",
     "with --init: a further name or address of the master for its certificate, such as that of a "
     "load balancer; may be given several times",
     0, 0, NULL},
    {"connections", 0, FLAG_INT, offsetof(struct master_options, connections), "N",
     "open at once: half for users, a quarter for agents, a quarter for callers without a token "
     "(8192)",
     CONNECTIONS_LEAST, 1 << 20, NULL},
    {"connections-per-address", 0, FLAG_INT,
     offsetof(struct master_options, connections_per_address), "N",
     "of callers without a token; raise it behind a proxy, whose address all share (a sixteenth of "
     "--connections)",
     1, 1 << 20, NULL},
    {"master-url", 0, FLAG_STRING, offsetof(struct master_options, master_url), "URL",
     "as tasks reach this master, when agents reach it by another name", 0, 0, NULL},
    {"external-url", 0, FLAG_STRING, offsetof(struct master_options, external_url), "URL",
     "as browsers reach this master; messages to Slack then have links (none)", 0, 0, NULL},
    {"cluster-name", 0, FLAG_STRING, offsetof(struct master_options, cluster_name), "NAME",
     "shown to users; kept in the store", 0, 0, NULL},
    {"api-version", 0, FLAG_STRING, offsetof(struct master_options, api_version), "VERSION",
     "the release of Determined whose API clients may expect; theirs warn about an older one "
     "(0.38.1)",
     0, 0, NULL},
    {"checkpoint-dir", 0, FLAG_STRING, offsetof(struct master_options, checkpoint_dir), "DIR",
     "for experiments that name no storage; every agent must see it (DATA_DIR/checkpoints)", 0, 0,
     NULL},
    {"storage-allow", 0, FLAG_LIST, offsetof(struct master_options, storage_allow), "DIR",
     "experiments may name a checkpoint_storage in here too; may be given several times (the "
     "checkpoint directory only)",
     0, 0, NULL},
    {"disk-floor", 0, FLAG_STRING, offsetof(struct master_options, disk_floor), "SIZE",
     "below this free space on the disk of DATA_DIR, refuse new work; below it in the "
     "checkpoint directory no trial starts: 2GiB, 5%, 0 for never (1GiB or 5%, the smaller)",
     0, 0, NULL},
    {"initial-password-file", 0, FLAG_STRING, offsetof(struct master_options, password_file),
     "FILE",
     "password of the first users, at the first start only; a random one is written there if there "
     "is no such file (without the flag, a random one is shown)",
     0, 0, NULL},
    {"webhook-key-file", 0, FLAG_STRING, offsetof(struct master_options, webhook_key_file), "FILE",
     "key that webhooks are signed with; made when there is none (DATA_DIR/webhook.key)", 0, 0,
     NULL},
    {"tls-cert", 0, FLAG_STRING, offsetof(struct master_options, tls_cert), "FILE",
     "serve https with this certificate (PEM) instead of the one in DATA_DIR/tls; a changed file "
     "takes effect at once",
     0, 0, NULL},
    {"tls-key", 0, FLAG_STRING, offsetof(struct master_options, tls_key), "FILE",
     "key of the certificate (PEM)", 0, 0, NULL},
    {"no-shared-agent-token", 0, FLAG_BOOL, offsetof(struct master_options, no_shared_agent_token),
     NULL, "refuse the token of DATA_DIR/agent.token: only enrolled agents may connect", 0, 0,
     NULL},
    {"agent-silence", 0, FLAG_INT, offsetof(struct master_options, agent_silence), "SECONDS",
     "an agent that is silent for this long is lost (10)", 1, 3600, NULL},
    {"agent-reconnect", 0, FLAG_INT, offsetof(struct master_options, agent_reconnect), "SECONDS",
     "then its tasks are given up after this time (30)", 1, 86400, NULL},
    {"kill-grace", 0, FLAG_INT, offsetof(struct master_options, kill_grace), "SECONDS",
     "from asking a task to end to killing it (10)", 0, 3600, NULL},
    {"preemption-timeout", 0, FLAG_INT, offsetof(struct master_options, preemption_timeout),
     "SECONDS",
     "for a task that polls to checkpoint and leave, unless its experiment or its pool says "
     "otherwise (600)",
     1, PREEMPTION_MOST_S, NULL},
    {"restart-backoff", 0, FLAG_INT, offsetof(struct master_options, restart_backoff), "SECONDS",
     "the wait after a trial's first failure; it doubles with each further one, up to 300 "
     "(1; 0: no wait)",
     0, 300, NULL},
    {"scheduler", 0, FLAG_STRING, offsetof(struct master_options, scheduler), "TYPE",
     "fair_share, priority or fifo: the policy of pools that resource_pools does not name "
     "(fair_share)",
     0, 0, NULL},
    {"preempt-after", 0, FLAG_INT, offsetof(struct master_options, preempt_after), "SECONDS",
     "a job runs this long before others preempt it, except a higher priority of its team (300)", 0,
     604800, NULL},
    {"max-user-priority", 0, FLAG_INT, offsetof(struct master_options, max_user_priority), "N",
     "the highest priority that users may set; only an administrator of the cluster may set a "
     "smaller number or pass another team's job (42; 1: every user may do both)",
     SCHED_PRIORITY_MIN, SCHED_PRIORITY_MAX, NULL},
    {"grow-after", 0, FLAG_INT, offsetof(struct master_options, grow_after), "SECONDS",
     "an elastic trial runs this long before it gets more slots (600)", 0, 604800, NULL},
    {"backup-every", 0, FLAG_INT, offsetof(struct master_options, backup_every), "HOURS",
     "copy the store to DATA_DIR/backups every N hours (0: never)", 0, 8760, NULL},
    {"backup-keep", 0, FLAG_INT, offsetof(struct master_options, backup_keep), "N",
     "the number of copies to keep (7)", 1, 10000, NULL},
    {"metrics", 0, FLAG_STRING, offsetof(struct master_options, metrics), "WHO",
     "who reads /metrics: loopback (this machine, and who has the token of DATA_DIR/metrics.token "
     "or of an administrator), token (only with a token), or all (loopback)",
     0, 0, NULL},
    {"slow-request", 0, FLAG_INT, offsetof(struct master_options, slow_request), "MILLISECONDS",
     "log requests that take so long (1000; 0: none)", 0, 3600000, NULL},
    {"store-slow", 0, FLAG_INT, offsetof(struct master_options, store_slow), "MILLISECONDS",
     "alert when commits of the store take so long on average (2000; 0: never)", 0, 3600000, NULL},
    {"alert-calm", 0, FLAG_INT, offsetof(struct master_options, alert_calm), "SECONDS",
     "an alert ends when its trouble has been over for so long (300)", 1, 86400, NULL},
    {"alert-mail", 0, FLAG_LIST, offsetof(struct master_options, alert_mail), "ADDRESS",
     "send alerts of the cluster there by e-mail; needs --smtp-url; may be given several times", 0,
     0, NULL},
    {"smtp-url", 0, FLAG_STRING, offsetof(struct master_options, smtp_url), "URL",
     "server for e-mails: smtp://HOST:PORT (with STARTTLS if it is offered) or smtps://HOST:PORT",
     0, 0, NULL},
    {"smtp-from", 0, FLAG_STRING, offsetof(struct master_options, smtp_from), "ADDRESS",
     "sender of e-mails (muster@localhost)", 0, 0, NULL},
    {"smtp-user", 0, FLAG_STRING, offsetof(struct master_options, smtp_user), "NAME",
     "user name at the server for e-mails (none)", 0, 0, NULL},
    {"smtp-password-file", 0, FLAG_STRING, offsetof(struct master_options, smtp_password_file),
     "FILE", "password of that user", 0, 0, NULL},
    {"log-retention-days", 0, FLAG_INT, offsetof(struct master_options, log_retention_days), "DAYS",
     "keep logs this long after the end of their task, unless its experiment says otherwise "
     "(0: forever)",
     0, 32767, NULL},
    {"webui-dir", 0, FLAG_STRING, offsetof(struct master_options, webui_dir), "DIR",
     "serve the web page from this folder, for its development (the built-in page)", 0, 0, NULL},
    {"log-level", 0, FLAG_STRING, offsetof(struct master_options, log_level), "LEVEL",
     "debug, info, warn or error (info)", 0, 0, NULL},
    {"config", 'c', FLAG_STRING, offsetof(struct master_options, config_file), "FILE",
     "YAML with any of these names, and resource_pools; flags win over it", 0, 0, NULL},
    {"help", 'h', FLAG_BOOL, offsetof(struct master_options, help), NULL, "show this", 0, 0, NULL},
    {"version", 'V', FLAG_BOOL, offsetof(struct master_options, version), NULL, "show the version",
     0, 0, NULL},
};

enum { FLAGS = sizeof flag_table / sizeof *flag_table + 1 };

static void describe_flags(struct master_options *o, struct flag out[FLAGS])
{
    memset(out, 0, FLAGS * sizeof *out);
    for (int i = 0; i < FLAGS - 1; i++)
        out[i] = (struct flag){.name = flag_table[i].name,
                               .letter = flag_table[i].letter,
                               .kind = flag_table[i].kind,
                               .target = (char *)o + flag_table[i].place,
                               .value_name = flag_table[i].value_name,
                               .help = flag_table[i].help,
                               .min = flag_table[i].min,
                               .max = flag_table[i].max,
                               .env = flag_table[i].env};
}

void options_help(void)
{
    struct master_options unused = defaults;
    struct flag flags[FLAGS];
    describe_flags(&unused, flags);
    printf(
        "muster-master: the daemon that runs a cluster\n\n"
        "  muster-master --init --data-dir ~/muster       makes its certificates for https, once;\n"
        "                                                 without them it serves this machine "
        "only\n"
        "  muster-master --data-dir ~/muster              starts it; the first start shows the\n"
        "                                                 password of its users\n"
        "  muster --master https://HOST:8080 login admin  signs in; asks for the fingerprint\n"
        "  muster agent enroll                            prints the line for muster-agent "
        "--enroll,\n"
        "                                                 which brings a machine into it\n\n"
        "Flags:\n");
    flags_help(flags, stdout);
    printf("\nThe configuration file has the names of flags as keys, and pools with their "
           "schedulers:\n\n"
           "  port: 8080\n"
           "  resource_pools:\n"
           "    - pool_name: default\n"
           "    - pool_name: interactive\n"
           "      scheduler: {type: priority}    # fair_share, priority or fifo\n"
           "      max_user_priority: 30          # as --max-user-priority, for this pool\n"
           "      preemption_timeout: 60         # as --preemption-timeout, for this pool\n\n"
           "An agent joins a pool with its --pool, an experiment with resources.resource_pool.\n");
    printf("\nThe address in use is written to DATA_DIR/master.url. SIGTERM stops the master;\n"
           "running trainers go on meanwhile, and are taken up again at the next start.\n");
}

static const struct flag *find_flag(const struct flag *flags, const char *name)
{
    for (; flags->name; flags++) {
        const char *a = flags->name, *b = name;
        while (*a && (*a == *b || (*a == '-' && *b == '_')))
            a++, b++;
        if (!*a && !*b)
            return flags;
    }
    return NULL;
}

// Settings that may be repeated on the command line are lists in the file.
static bool is_list(const struct flag *flags, const char *key, const json_t *value)
{
    const struct flag *f = find_flag(flags, key);
    return json_is_array(value) && f && f->kind == FLAG_LIST;
}

// Flags that say what a start is to do, and are no settings.
static bool is_command(const struct flag *f)
{
    static const char *const names[] = {"config", "help", "version", "init", "host-name"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(f->name, names[i]))
            return true;
    return false;
}

// Turns "name: value" of the configuration file into a flag, so that one parser checks both.
static int flag_of_entry(const struct flag *flags, const struct yaml_doc *doc, const char *key,
                         const json_t *value, char **out, struct error *e)
{
    char where[512];
    const struct flag *f = find_flag(flags, key);
    yaml_where(doc, key, where, sizeof where);
    *out = NULL;
    if (!f || is_command(f)) {
        const char *names[FLAGS] = {0};
        for (int i = 0; flags[i].name; i++)
            names[i] = flags[i].name;
        const char *near = nearest_word(key, names);
        return error_set(e, ERR_INVALID, "%s: \"%s\" is no setting of the master%s%s%s", where, key,
                         near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    if (f->kind == FLAG_BOOL) {
        *out = json_is_true(value) ? xasprintf("--%s", f->name) : NULL;
        return json_is_boolean(value)
                   ? 0
                   : error_set(e, ERR_INVALID, "%s: %s: give true or false", where, key);
    }
    if (json_is_string(value))
        *out = xasprintf("--%s=%s", f->name, json_string_value(value));
    else if (json_is_integer(value))
        *out = xasprintf("--%s=%lld", f->name, (long long)json_integer_value(value));
    else if (!json_is_null(value))
        return error_set(e, ERR_INVALID, "%s: %s: give a text or a number", where, key);
    return 0;
}

void options_free(struct master_arguments *a)
{
    for (int i = 1; i <= a->owned; i++)
        free(a->list[i]);
    free(a->list);
    for (size_t i = 0; i < a->pool_count; i++)
        free((char *)a->pools[i].name);
    free(a->pools);
}

// A space, a control character and the marks of Slack's links (<URL|text>) would break a link.
int options_check_url(const char *url, struct error *e)
{
    const char *host = !strncasecmp(url, "http://", 7)    ? url + 7
                       : !strncasecmp(url, "https://", 8) ? url + 8
                                                          : NULL;
    if (!host || !*host || strchr("/?#:", *host))
        return error_set(e, ERR_INVALID,
                         "\"%.128s\" does not begin with http://HOST or https://HOST", url);
    for (const char *at = host; *at; at++)
        if ((unsigned char)*at <= ' ' || strchr("<>|\x7f", *at))
            return error_set(
                e, ERR_INVALID,
                "\"%.128s\" has a character at place %d that no URL may have: write it "
                "as %%%02X",
                url, (int)(at - url) + 1, (unsigned char)*at);
    return 0;
}

// --- resource_pools of the configuration file ----------------------------------------------------

// The policies that a user may choose; easy exists for simulations.
int options_policy(const char *word, enum sched_policy *out, struct error *e)
{
    const char *words[] = {sched_policy_names[SCHED_POLICY_FAIR_SHARE],
                           sched_policy_names[SCHED_POLICY_PRIORITY],
                           sched_policy_names[SCHED_POLICY_FIFO], NULL};
    const enum sched_policy policies[] = {SCHED_POLICY_FAIR_SHARE, SCHED_POLICY_PRIORITY,
                                          SCHED_POLICY_FIFO};
    for (int i = 0; words[i]; i++)
        if (!strcmp(word, words[i])) {
            *out = policies[i];
            return 0;
        }
    const char *near = nearest_word(word, words);
    return error_set(e, ERR_INVALID, "\"%.32s\" is none of fair_share, priority, fifo%s%s%s", word,
                     near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

// Checks that each key of `object`, which is at `path`, is one of these words.
static int check_keys(const struct yaml_doc *doc, const json_t *object, const char *path,
                      const char *const *keys, struct error *e)
{
    const char *key;
    json_t *value;
    char where[512], inner[320];
    if (!json_is_object(object))
        return error_set(e, ERR_INVALID, "%s: %s: expected \"%s: ..\"",
                         yaml_where(doc, path, where, sizeof where), path, keys[0]);
    json_object_foreach((json_t *)object, key, value)
    {
        int i = 0;
        while (keys[i] && strcmp(key, keys[i]))
            i++;
        if (keys[i])
            continue;
        snprintf(inner, sizeof inner, "%s.%.64s", path, key);
        const char *near = nearest_word(key, keys);
        return error_set(e, ERR_INVALID, "%s: %s: unknown key%s%s%s",
                         yaml_where_key(doc, inner, where, sizeof where), inner,
                         near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    return 0;
}

// Reads a number of a pool; 0: the entry does not have it.
static int read_number(const struct yaml_doc *doc, const json_t *entry, const char *path,
                       const char *key, int64_t most, int64_t *out, struct error *e)
{
    char where[512];
    *out = jget_int(entry, key, 0);
    if (jget(entry, key) && (*out < 1 || *out > most))
        return error_set(e, ERR_INVALID, "%s: %s.%s: 1 to %lld",
                         yaml_where(doc, path, where, sizeof where), path, key, (long long)most);
    return 0;
}

static int read_limits(const struct yaml_doc *doc, const json_t *entry, const char *path,
                       struct core_pool_option *out, struct error *e)
{
    int64_t priority = 0, seconds = 0;
    int rc = read_number(doc, entry, path, "max_user_priority", SCHED_PRIORITY_MAX, &priority, e);
    if (!rc)
        rc = read_number(doc, entry, path, "preemption_timeout", PREEMPTION_MOST_S, &seconds, e);
    out->max_user_priority = (int)priority;
    out->preemption_timeout_us = seconds * 1000000;
    return rc;
}

static int read_pool(const struct yaml_doc *doc, const json_t *entry, size_t index,
                     struct core_pool_option *out, struct error *e)
{
    static const char *const keys[] = {"pool_name", "scheduler", "max_user_priority",
                                       "preemption_timeout", NULL};
    static const char *const scheduler_keys[] = {"type", NULL};
    char path[64], where[512];
    snprintf(path, sizeof path, "resource_pools.%zu", index);
    int rc = check_keys(doc, entry, path, keys, e);
    const char *name = jget_string(entry, "pool_name", "");
    if (!rc && (!*name || strlen(name) > LIMIT_NAME))
        return error_set(e, ERR_INVALID, "%s: %s.pool_name: 1 to %d letters",
                         yaml_where(doc, path, where, sizeof where), path, LIMIT_NAME);
    if (!rc)
        rc = read_limits(doc, entry, path, out, e);
    const json_t *scheduler = jget(entry, "scheduler");
    snprintf(path, sizeof path, "resource_pools.%zu.scheduler", index);
    if (!rc && scheduler)
        rc = check_keys(doc, scheduler, path, scheduler_keys, e);
    if (rc)
        return rc;
    const char *type = jget_string(scheduler, "type", NULL);
    if (type && (rc = options_policy(type, &out->policy, e)))
        return error_prefix(e, "%s: %s.type", yaml_where(doc, path, where, sizeof where), path);
    out->as_default = !type;
    out->name = xstrdup(name);
    return 0;
}

static int read_pools(const struct yaml_doc *doc, const json_t *list, struct master_arguments *out,
                      struct error *e)
{
    size_t i;
    json_t *entry;
    char where[512];
    if (!json_is_array(list))
        return error_set(e, ERR_INVALID, "%s: resource_pools: not a list of pools",
                         yaml_where(doc, "resource_pools", where, sizeof where));
    out->pools = xcalloc(json_array_size(list) + 1, sizeof *out->pools);
    json_array_foreach(list, i, entry)
    {
        int rc = read_pool(doc, entry, i, &out->pools[i], e);
        if (rc)
            return rc;
        out->pool_count++;
    }
    return 0;
}

// --- options -------------------------------------------------------------------------------------

static int add_entry(const struct flag *flags, const struct yaml_doc *doc, const char *key,
                     const json_t *value, struct master_arguments *out, struct error *e)
{
    char *flag;
    int rc = flag_of_entry(flags, doc, key, value, &flag, e);
    if (flag) {
        out->list[out->count++] = flag;
        out->owned++;
    }
    return rc;
}

static int add_entries(const struct flag *flags, const struct yaml_doc *doc, const char *key,
                       const json_t *value, struct master_arguments *out, struct error *e)
{
    size_t i;
    json_t *one;
    int rc = 0;
    if (!is_list(flags, key, value))
        return add_entry(flags, doc, key, value, out, e);
    if (json_array_size(value) > FLAG_LIST_MAX) {
        char where[512];
        return error_set(e, ERR_TOO_LARGE, "%s: %s: %zu entries, at most %d are allowed",
                         yaml_where(doc, key, where, sizeof where), key, json_array_size(value),
                         FLAG_LIST_MAX);
    }
    json_array_foreach(value, i, one)
    {
        if (!rc)
            rc = add_entry(flags, doc, key, one, out, e);
    }
    return rc;
}

static int read_config(const char *path, const struct flag *flags, int argc, char **argv,
                       struct master_arguments *out, struct error *e)
{
    struct yaml_doc doc = {0};
    char *text = NULL;
    const char *key;
    json_t *value;
    size_t len;
    int rc = file_read(path, CONFIG_FILE_MAX, &text, &len, e);
    if (!rc)
        rc = yaml_parse(text, len, path, &doc, e);
    if (!rc && !json_is_object(doc.root))
        rc = error_set(e, ERR_INVALID, "%s: expected \"name: value\" lines", path);
    if (!rc) {
        size_t most = json_object_size(doc.root) * FLAG_LIST_MAX + (size_t)argc + 1;
        out->list = xcalloc(most, sizeof *out->list);
        out->list[out->count++] = argv[0];
        json_object_foreach(doc.root, key, value)
        {
            if (!rc && !strcmp(key, "resource_pools"))
                rc = read_pools(&doc, value, out, e);
            else if (!rc)
                rc = add_entries(flags, &doc, key, value, out, e);
        }
        for (int i = 1; i < argc; i++)
            out->list[out->count++] = argv[i];
    }
    yaml_doc_free(&doc);
    free(text);
    return rc;
}

static int parse_once(struct master_options *o, int argc, char **argv, struct error *e)
{
    struct flag flags[FLAGS];
    const char **rest = xcalloc((size_t)argc + 1, sizeof *rest);
    int rest_count = 0;
    *o = defaults;
    describe_flags(o, flags);
    int rc = flags_parse(flags, argc, argv, rest, &rest_count, e);
    if (!rc && rest_count)
        rc = error_set(e, ERR_INVALID, "\"%s\" is not a flag; muster-master --help lists them",
                       rest[0]);
    free(rest);
    return rc;
}

int options_parse(struct master_options *o, int argc, char **argv, struct master_arguments *all,
                  struct error *e)
{
    struct flag flags[FLAGS];
    int rc = parse_once(o, argc, argv, e);
    if (rc || o->help || o->version || !o->config_file)
        return rc;
    describe_flags(o, flags);
    rc = read_config(o->config_file, flags, argc, argv, all, e);
    return rc ? rc : parse_once(o, all->count, all->list, e);
}
