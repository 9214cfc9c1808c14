// muster-master: starts the store, the core and the server, waits for a signal, and stops them.

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/flags.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "base/text/yaml.h"
#include "base/version.h"
#include "master/backups.h"
#include "master/common/free_space.h"
#include "master/common/storage.h"
#include "master/first_start.h"
#include "master/http/limits/connections.h"
#include "master/http/memory.h"
#include "master/http/server.h"
#include "master/kernel/core.h"
#include "master/modules.h"
#include "master/notify/log_followers.h"
#include "master/notify/webhook_delivery.h"
#include "master/relocate.h"
#include "master/sched/rules.h"

struct options {
    const char *config_file, *data_dir, *bind, *cluster_name, *checkpoint_dir, *master_url;
    const char *webhook_key_file, *webui_dir, *disk_floor;
    const char *password_file, *tls_cert, *tls_key, *log_level, *scheduler;
    long long port, agent_silence, agent_reconnect, kill_grace, preemption_timeout, preempt_after,
        restart_backoff, log_retention_days, grow_after, backup_every, backup_keep, connections,
        connections_per_address, max_user_priority;
    struct flag_list storage_allow;
    bool help, version;
};

static const struct options defaults = {
    .data_dir = "/var/lib/muster",
    .bind = "0.0.0.0",
    .log_level = "info",
    .scheduler = "fair_share",
    .port = 8080,
    .agent_silence = 10,
    .agent_reconnect = 30,
    .kill_grace = 10,
    .preemption_timeout = 3600,
    .preempt_after = -1,
    .restart_backoff = 1,
    .max_user_priority = SCHED_PRIORITY_DEFAULT,
    .grow_after = -1,
    .backup_keep = 7,
    .connections = LIMIT_CONNECTIONS,
};

enum {
    CONFIG_FILE_MAX = 1 << 20,
    FILES_OF_MASTER = 512,  // open files besides connections
    SCHEDULE_GAP_US = 5000, // events within this time are decided in one scheduling pass
};

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
    {"data-dir", 'd', FLAG_STRING, offsetof(struct options, data_dir), "DIR",
     "store, agent token and checkpoints (/var/lib/muster)", 0, 0, "MUSTER_DATA_DIR"},
    {"port", 'p', FLAG_INT, offsetof(struct options, port), "N",
     "port of the API (8080; 0: any free one)", 0, 65535, NULL},
    {"bind", 0, FLAG_STRING, offsetof(struct options, bind), "ADDRESS",
     "address to listen on (0.0.0.0: all)", 0, 0, NULL},
    {"connections", 0, FLAG_INT, offsetof(struct options, connections), "N",
     "open at once: half for users, a quarter for agents, a quarter for callers without a token "
     "(8192)",
     CONNECTIONS_LEAST, 1 << 20, NULL},
    {"connections-per-address", 0, FLAG_INT, offsetof(struct options, connections_per_address), "N",
     "of callers without a token; raise it behind a proxy, whose address all share (a sixteenth of "
     "--connections)",
     1, 1 << 20, NULL},
    {"master-url", 0, FLAG_STRING, offsetof(struct options, master_url), "URL",
     "as tasks reach this master, when agents reach it by another name", 0, 0, NULL},
    {"cluster-name", 0, FLAG_STRING, offsetof(struct options, cluster_name), "NAME",
     "shown to users; kept in the store", 0, 0, NULL},
    {"checkpoint-dir", 0, FLAG_STRING, offsetof(struct options, checkpoint_dir), "DIR",
     "for experiments that name no storage; every agent must see it (DATA_DIR/checkpoints)", 0, 0,
     NULL},
    {"storage-allow", 0, FLAG_LIST, offsetof(struct options, storage_allow), "DIR",
     "experiments may name a checkpoint_storage in here too; may be given several times (the "
     "checkpoint directory only)",
     0, 0, NULL},
    {"disk-floor", 0, FLAG_STRING, offsetof(struct options, disk_floor), "SIZE",
     "with less room than this on the disk of DATA_DIR nothing new is taken, and with less in the "
     "checkpoint directory no trial starts: 2GiB, 5%, 0 for never (1GiB or 5%, the smaller)",
     0, 0, NULL},
    {"initial-password-file", 0, FLAG_STRING, offsetof(struct options, password_file), "FILE",
     "password of the first users, read at the first start only (else random)", 0, 0, NULL},
    {"webhook-key-file", 0, FLAG_STRING, offsetof(struct options, webhook_key_file), "FILE",
     "key that webhooks are signed with; made when there is none (DATA_DIR/webhook.key)", 0, 0,
     NULL},
    {"tls-cert", 0, FLAG_STRING, offsetof(struct options, tls_cert), "FILE",
     "serve https with this certificate (PEM)", 0, 0, NULL},
    {"tls-key", 0, FLAG_STRING, offsetof(struct options, tls_key), "FILE",
     "key of the certificate (PEM)", 0, 0, NULL},
    {"agent-silence", 0, FLAG_INT, offsetof(struct options, agent_silence), "SECONDS",
     "an agent that says nothing for so long is lost (10)", 1, 3600, NULL},
    {"agent-reconnect", 0, FLAG_INT, offsetof(struct options, agent_reconnect), "SECONDS",
     "and its tasks are given up after so long (30)", 1, 86400, NULL},
    {"kill-grace", 0, FLAG_INT, offsetof(struct options, kill_grace), "SECONDS",
     "from asking a task to end to killing it (10)", 0, 3600, NULL},
    {"preemption-timeout", 0, FLAG_INT, offsetof(struct options, preemption_timeout), "SECONDS",
     "for a task to checkpoint and leave (3600)", 1, 604800, NULL},
    {"restart-backoff", 0, FLAG_INT, offsetof(struct options, restart_backoff), "SECONDS",
     "from a trial's first failure to its restart; twice as long after each further one, at most "
     "300 (1; 0: at once)",
     0, 300, NULL},
    {"scheduler", 0, FLAG_STRING, offsetof(struct options, scheduler), "TYPE",
     "fair_share, priority or fifo: who comes first in pools that resource_pools does not name "
     "(fair_share)",
     0, 0, NULL},
    {"preempt-after", 0, FLAG_INT, offsetof(struct options, preempt_after), "SECONDS",
     "what runs is left alone for so long, but by a higher priority of its team (300)", 0, 604800,
     NULL},
    {"max-user-priority", 0, FLAG_INT, offsetof(struct options, max_user_priority), "N",
     "the highest priority that users may give; a smaller number takes an administrator of the "
     "cluster, as does going before another team's job (42; 1: everybody may do both)",
     SCHED_PRIORITY_MIN, SCHED_PRIORITY_MAX, NULL},
    {"grow-after", 0, FLAG_INT, offsetof(struct options, grow_after), "SECONDS",
     "an elastic trial runs for so long before it is given more slots (600)", 0, 604800, NULL},
    {"backup-every", 0, FLAG_INT, offsetof(struct options, backup_every), "HOURS",
     "copy the store to DATA_DIR/backups every so many hours (0: never)", 0, 8760, NULL},
    {"backup-keep", 0, FLAG_INT, offsetof(struct options, backup_keep), "N",
     "and keep the newest so many (7)", 1, 10000, NULL},
    {"log-retention-days", 0, FLAG_INT, offsetof(struct options, log_retention_days), "DAYS",
     "logs are kept so long after their task has ended, where its experiment does not say (0: for "
     "ever)",
     0, 32767, NULL},
    {"webui-dir", 0, FLAG_STRING, offsetof(struct options, webui_dir), "DIR",
     "serve the web page from there, for those who work on it (the one that is built in)", 0, 0,
     NULL},
    {"log-level", 0, FLAG_STRING, offsetof(struct options, log_level), "LEVEL",
     "debug, info, warn or error (info)", 0, 0, NULL},
    {"config", 'c', FLAG_STRING, offsetof(struct options, config_file), "FILE",
     "YAML with any of these names, and resource_pools; flags win over it", 0, 0, NULL},
    {"help", 'h', FLAG_BOOL, offsetof(struct options, help), NULL, "show this", 0, 0, NULL},
    {"version", 'V', FLAG_BOOL, offsetof(struct options, version), NULL, "show the version", 0, 0,
     NULL},
};

enum { FLAGS = sizeof flag_table / sizeof *flag_table + 1 };

static void describe_flags(struct options *o, struct flag out[FLAGS])
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

static void show_help(const struct flag *flags)
{
    printf(
        "muster-master: the daemon that runs a cluster\n\n"
        "  muster-master --data-dir ~/muster              starts one; the first start shows the\n"
        "                                                 password of its users\n"
        "  muster-agent --master http://HOST:8080 --token-file ~/muster/agent.token\n"
        "                                                 brings a machine into it\n"
        "  muster --master http://HOST:8080 login admin   signs in\n\n"
        "Flags:\n");
    flags_help(flags, stdout);
    printf("\nThe configuration file has the names of flags as keys, and pools with their "
           "schedulers:\n\n"
           "  port: 8080\n"
           "  resource_pools:\n"
           "    - pool_name: default\n"
           "    - pool_name: interactive\n"
           "      scheduler: {type: priority}    # fair_share, priority or fifo\n"
           "      max_user_priority: 30          # as --max-user-priority, for this pool\n\n"
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

// Turns "name: value" of the configuration file into a flag, so that one parser checks both.
static int flag_of_entry(const struct flag *flags, const struct yaml_doc *doc, const char *key,
                         const json_t *value, char **out, struct error *e)
{
    char where[512];
    const struct flag *f = find_flag(flags, key);
    yaml_where(doc, key, where, sizeof where);
    *out = NULL;
    if (!f || f->kind == FLAG_BOOL || !strcmp(f->name, "config")) {
        const char *names[FLAGS] = {0};
        for (int i = 0; flags[i].name; i++)
            names[i] = flags[i].name;
        const char *near = nearest_word(key, names);
        return error_set(e, ERR_INVALID, "%s: \"%s\" is no setting of the master%s%s%s", where, key,
                         near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    if (json_is_string(value))
        *out = xasprintf("--%s=%s", f->name, json_string_value(value));
    else if (json_is_integer(value))
        *out = xasprintf("--%s=%lld", f->name, (long long)json_integer_value(value));
    else if (!json_is_null(value))
        return error_set(e, ERR_INVALID, "%s: %s: give a text or a number", where, key);
    return 0;
}

struct arguments { // of the command line, preceded by those of the configuration file
    char **list;   // owned, like the first `owned` arguments after the program's name
    int count, owned;
    struct core_pool_option *pools; // from the file; owned with their names
    size_t pool_count;
};

static void free_arguments(struct arguments *a)
{
    for (int i = 1; i <= a->owned; i++)
        free(a->list[i]);
    free(a->list);
    for (size_t i = 0; i < a->pool_count; i++)
        free((char *)a->pools[i].name);
    free(a->pools);
}

// --- resource_pools of the configuration file ----------------------------------------------------

// The policies that a user may choose; easy exists for simulations.
static int policy_of(const char *word, enum sched_policy *out, struct error *e)
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

static int read_user_priority(const struct yaml_doc *doc, const json_t *entry, const char *path,
                              int *out, struct error *e)
{
    char where[512];
    const json_t *value = jget(entry, "max_user_priority");
    int64_t most = jget_int(entry, "max_user_priority", 0);
    if (value && (most < SCHED_PRIORITY_MIN || most > SCHED_PRIORITY_MAX))
        return error_set(e, ERR_INVALID, "%s: %s.max_user_priority: %d to %d",
                         yaml_where(doc, path, where, sizeof where), path, SCHED_PRIORITY_MIN,
                         SCHED_PRIORITY_MAX);
    *out = (int)most;
    return 0;
}

static int read_pool(const struct yaml_doc *doc, const json_t *entry, size_t index,
                     struct core_pool_option *out, struct error *e)
{
    static const char *const keys[] = {"pool_name", "scheduler", "max_user_priority", NULL};
    static const char *const scheduler_keys[] = {"type", NULL};
    char path[64], where[512];
    snprintf(path, sizeof path, "resource_pools.%zu", index);
    int rc = check_keys(doc, entry, path, keys, e);
    const char *name = jget_string(entry, "pool_name", "");
    if (!rc && (!*name || strlen(name) > LIMIT_NAME))
        return error_set(e, ERR_INVALID, "%s: %s.pool_name: 1 to %d letters",
                         yaml_where(doc, path, where, sizeof where), path, LIMIT_NAME);
    if (!rc)
        rc = read_user_priority(doc, entry, path, &out->max_user_priority, e);
    const json_t *scheduler = jget(entry, "scheduler");
    snprintf(path, sizeof path, "resource_pools.%zu.scheduler", index);
    if (!rc && scheduler)
        rc = check_keys(doc, scheduler, path, scheduler_keys, e);
    if (rc)
        return rc;
    const char *type = jget_string(scheduler, "type", NULL);
    if (type && (rc = policy_of(type, &out->policy, e)))
        return error_prefix(e, "%s: %s.type", yaml_where(doc, path, where, sizeof where), path);
    out->as_default = !type;
    out->name = xstrdup(name);
    return 0;
}

static int read_pools(const struct yaml_doc *doc, const json_t *list, struct arguments *out,
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
                     const json_t *value, struct arguments *out, struct error *e)
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
                       const json_t *value, struct arguments *out, struct error *e)
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
                       struct arguments *out, struct error *e)
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

static int parse_once(struct options *o, int argc, char **argv, struct error *e)
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

static int parse_options(struct options *o, int argc, char **argv, struct arguments *all,
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

struct master {
    struct options options;
    struct arguments arguments;
    enum sched_policy scheduler;
    struct db *db;
    struct log_followers *log_followers;
    struct hub *hub;
    struct core *core;
    struct server *server;
    struct backups *backups;
    struct delivery *delivery;
    struct master_log *master_log;
    struct cluster_identity cluster;
    struct storage *storage;
    struct free_space_floor floor;
    struct free_space *free_space;
    struct db_reader *room_reader;
    char *config, *url_file;
};

// The default checkpoint_storage: an existing folder, by its full path.
static int make_storage(struct master *m, struct error *e)
{
    const struct options *o = &m->options;
    char *dir =
        o->checkpoint_dir ? xstrdup(o->checkpoint_dir) : path_join(o->data_dir, "checkpoints");
    char full[4096];
    int rc = dir_make(dir, 0755, e);
    if (!rc && !realpath(dir, full))
        rc = error_set_errno(e, ERR_IO, errno, "%s", dir);
    if (!rc) {
        json_t *storage = json_pack("{s:s, s:s}", "type", "directory", "container_path", full);
        char *text = storage ? json_text(storage) : NULL;
        json_decref(storage);
        if (text)
            rc = storage_new(text, o->storage_allow.items, (size_t)o->storage_allow.count,
                             &m->storage, e);
        else
            rc = error_set(e, ERR_INVALID, "%s: the name of the folder is not UTF-8", dir);
        free(text);
    }
    free(dir);
    return rc;
}

static void describe_pools(const struct master *m, struct json_writer *w)
{
    jw_key(w, "resource_pools");
    jw_array(w);
    for (size_t i = 0; i < m->arguments.pool_count; i++) {
        const struct core_pool_option *pool = &m->arguments.pools[i];
        jw_object(w);
        jw_kv_string(w, "pool_name", pool->name);
        jw_key(w, "scheduler");
        jw_object(w);
        jw_kv_string(w, "type", sched_policy_names[pool->as_default ? m->scheduler : pool->policy]);
        jw_object_end(w);
        jw_kv_int(w, "max_user_priority",
                  pool->max_user_priority ? pool->max_user_priority : m->options.max_user_priority);
        jw_object_end(w);
    }
    jw_array_end(w);
}

// The configuration for GET /api/v1/master/config, without secrets.
static void describe_config(struct master *m)
{
    const struct options *o = &m->options;
    struct buf out;
    struct json_writer w;
    buf_init(&out, 64 * 1024);
    jw_init(&w, &out);
    jw_object(&w);
    jw_kv_string(&w, "cluster_name", m->cluster.name);
    jw_kv_string(&w, "bind", o->bind);
    jw_kv_int(&w, "port", o->port);
    jw_kv_string(&w, "master_url", o->master_url);
    jw_kv_string(&w, "data_dir", o->data_dir);
    jw_kv_raw(&w, "checkpoint_storage", storage_default(m->storage));
    jw_kv_string(&w, "disk_floor", o->disk_floor ? o->disk_floor : "1GiB or 5%");
    jw_key(&w, "storage_allow");
    jw_array(&w);
    for (int i = 0; i < o->storage_allow.count; i++)
        jw_string(&w, o->storage_allow.items[i]);
    jw_array_end(&w);
    jw_kv_bool(&w, "tls", o->tls_cert);
    jw_kv_int(&w, "agent_silence", o->agent_silence);
    jw_kv_int(&w, "agent_reconnect", o->agent_reconnect);
    jw_kv_int(&w, "kill_grace", o->kill_grace);
    jw_kv_int(&w, "preemption_timeout", o->preemption_timeout);
    jw_kv_int(&w, "restart_backoff", o->restart_backoff);
    jw_kv_int(&w, "log_retention_days", o->log_retention_days);
    jw_kv_string(&w, "webhook_key_file", o->webhook_key_file);
    jw_kv_string(&w, "scheduler", o->scheduler);
    jw_kv_int(&w, "max_user_priority", o->max_user_priority);
    describe_pools(m, &w);
    jw_object_end(&w);
    m->config = buf_take(&out);
}

static int open_store(struct master *m, struct error *e)
{
    const struct options *o = &m->options;
    int rc = db_open(o->data_dir, &m->db, e);
    if (rc)
        return rc;
    const struct first_start first = {.data_dir = o->data_dir,
                                      .password_file = o->password_file,
                                      .cluster_name = o->cluster_name};
    rc = first_start(m->db, &first, &m->cluster, e);
    rc = rc ? rc : make_storage(m, e);
    return rc || o->checkpoint_dir ? rc : moved_adjust(m->db, m->storage, e);
}

// Makes pages read the notice to all users again.
static void room_changed(void *hub)
{
    hub_add_audit_change(hub, "/api/v1/master/cluster_message");
}

// Free pages inside the store count as free space, because new rows fill them first.
static uint64_t spare_of_store(void *reader)
{
    return (uint64_t)db_spare_bytes(reader);
}

static int watch_room(struct master *m, struct error *e)
{
    int rc = db_reader_open(m->db, &m->room_reader, e);
    if (rc)
        return rc;
    const struct free_space_options options = {
        .paths = {[FREE_SPACE_DATA] = m->options.data_dir,
                  [FREE_SPACE_CHECKPOINTS] = storage_own(m->storage)},
        .floor = m->floor,
        .spare = spare_of_store,
        .spare_ctx = m->room_reader,
        .changed = room_changed,
        .ctx = m->hub};
    m->free_space = free_space_new(&options);
    return free_space_start(m->free_space, e);
}

// Starts the delivery of webhooks and loads the key that signs them.
static int start_delivery(struct master *m, struct error *e)
{
    const struct options *o = &m->options;
    char *key = NULL, *path = o->webhook_key_file ? xstrdup(o->webhook_key_file)
                                                  : path_join(o->data_dir, "webhook.key");
    int rc = delivery_key(path, &key, e);
    if (!rc)
        rc = delivery_start(m->db, key, &m->delivery, e);
    if (key)
        explicit_bzero(key, strlen(key));
    free(key);
    free(path);
    return rc;
}

static int start_services(struct master *m, struct error *e)
{
    const struct options *o = &m->options;
    m->log_followers = log_followers_new();
    describe_config(m);
    struct sched_rules rules = sched_default_rules;
    if (o->preempt_after >= 0)
        rules.min_runtime = o->preempt_after * 1000000;
    if (o->grow_after >= 0)
        rules.grow_after = o->grow_after * 1000000;
    int rc = hub_start(m->db, &m->hub, e);
    if (!rc)
        rc = watch_room(m, e);
    if (!rc)
        rc = start_delivery(m, e);
    if (rc)
        return rc;
    const struct core_options core = {
        .modules = master_modules,
        .cluster_id = m->cluster.id,
        .cluster_name = m->cluster.name,
        .master_url = o->master_url ? o->master_url : "",
        .storage = m->storage,
        .free_space = m->free_space,
        .agent_silence_us = o->agent_silence * 1000000,
        .agent_reconnect_us = o->agent_reconnect * 1000000,
        .kill_grace_us = o->kill_grace * 1000000,
        .preemption_timeout_us = o->preemption_timeout * 1000000,
        .restart_backoff_us = o->restart_backoff * 1000000,
        .log_days = o->log_retention_days,
        .schedule_gap_us = SCHEDULE_GAP_US,
        .scheduler = m->scheduler,
        .max_user_priority = (int)o->max_user_priority,
        .pools = m->arguments.pools,
        .pool_count = m->arguments.pool_count,
        .rules = &rules,
        .logs_committed = log_followers_notify,
        .logs_ctx = m->log_followers,
        .events_committed = hub_notify,
        .events_ctx = m->hub,
    };
    rc = core_new(m->db, &core, &m->core, e);
    if (rc)
        return rc;
    const struct server_options server = {
        .db = m->db,
        .core = m->core,
        .log_followers = m->log_followers,
        .hub = m->hub,
        .delivery = m->delivery,
        .master_log = m->master_log,
        .storage = m->storage,
        .free_space = m->free_space,
        .cluster_id = m->cluster.id,
        .cluster_name = m->cluster.name,
        .config = m->config,
        .page = {page_files, o->webui_dir},
        .bind = o->bind,
        .port = (int)o->port,
        .cert_file = o->tls_cert,
        .key_file = o->tls_key,
        .connections = (int)o->connections,
        .connections_per_address = (int)o->connections_per_address,
    };
    rc = server_start(&server, &m->server,
                      e); // before the core starts: a port in use causes no harm yet
    if (!rc)
        rc = core_start(m->core, e);
    return rc;
}

static int start_backups(struct master *m, struct error *e)
{
    const struct options *o = &m->options;
    if (!o->backup_every)
        return 0;
    char *folder = path_join(o->data_dir, "backups");
    int rc = backups_start(db_path(m->db), folder, m->free_space, o->backup_every * 3600 * 1000000,
                           (int)o->backup_keep, &m->backups, e);
    free(folder);
    return rc;
}

static int announce(struct master *m, struct error *e)
{
    char quoted[1024];
    char *line = xasprintf("%s\n", server_url(m->server));
    m->url_file = path_join(m->options.data_dir, "master.url");
    int rc = file_write_durable(m->url_file, line, strlen(line), 0644, e);
    free(line);
    log_info("master is up", "version=%s url=%s data=%s", MUSTER_VERSION, server_url(m->server),
             log_quote(quoted, sizeof quoted, m->options.data_dir));
    return rc;
}

static void stop_master(struct master *m, bool core_runs)
{
    if (m->url_file)
        unlink(m->url_file);
    backups_stop(m->backups);
    if (m->server)
        server_drain(m->server);
    if (core_runs)
        core_stop(m->core);
    if (m->server)
        server_stop(m->server);
    delivery_stop(m->delivery);
    if (m->core)
        core_free(m->core);
    free_space_free(m->free_space);
    db_reader_close(m->room_reader);
    log_followers_free(m->log_followers);
    hub_free(m->hub);
    if (m->db)
        db_close(m->db);
    free(m->cluster.id);
    free(m->cluster.name);
    storage_free(m->storage);
    free(m->config);
    free(m->url_file);
}

// One file per connection, and an eighth more for connections that are being closed.
static rlim_t files_for(long long connections)
{
    return (rlim_t)(connections + connections / 8 + FILES_OF_MASTER);
}

// Raises the limit of open files for the connections, or else lowers the number of connections.
static void fit_connections(struct options *o)
{
    struct rlimit limit;
    rlim_t want = files_for(o->connections);
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= want)
        return;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        limit.rlim_cur = before;
    if (limit.rlim_cur >= want)
        return;
    long long asked = o->connections;
    while (o->connections > CONNECTIONS_LEAST && files_for(o->connections) > limit.rlim_cur)
        o->connections--;
    log_warn("fewer connections than asked for: raise the limit on open files (ulimit -n, or "
             "LimitNOFILE= of the unit)",
             "connections=%lld asked=%lld files=%llu needed=%llu", o->connections, asked,
             (unsigned long long)limit.rlim_cur, (unsigned long long)want);
}

static int run_master(struct master *m, const sigset_t *stop, struct error *e)
{
    int rc = open_store(m, e);
    if (!rc)
        rc = start_services(m, e);
    bool core_runs = !rc;
    if (!rc)
        rc = start_backups(m, e);
    if (!rc)
        rc = announce(m, e);
    if (!rc) {
        int signal_number = 0;
        sigwait(stop, &signal_number);
        log_info("master is stopping", "signal=%s", signal_number == SIGINT ? "INT" : "TERM");
        pthread_sigmask(SIG_UNBLOCK, stop, NULL); // a second signal ends the process at once
    }
    stop_master(m, core_runs);
    return rc;
}

int main(int argc, char **argv)
{
    struct master m = {0};
    struct error e = {0};
    enum log_level level;
    sigset_t stop;

    memory_set_up();
    int rc = parse_options(&m.options, argc, argv, &m.arguments, &e);
    if (!rc && m.options.help) {
        struct flag flags[FLAGS];
        describe_flags(&m.options, flags);
        show_help(flags);
    } else if (!rc && m.options.version) {
        printf("muster-master %s\n", muster_version);
    } else {
        if (!rc && (rc = log_parse_level(m.options.log_level, &level)))
            error_set(&e, rc, "--log-level: \"%s\" is none of debug, info, warn, error",
                      m.options.log_level);
        m.floor = free_space_floor_default;
        if (!rc && m.options.disk_floor &&
            (rc = free_space_floor_parse(m.options.disk_floor, &m.floor, &e)))
            error_prefix(&e, "--disk-floor");
        if (!rc && (rc = policy_of(m.options.scheduler, &m.scheduler, &e)))
            error_prefix(&e, "--scheduler");
        if (!rc) {
            log_set_level(level);
            umask(077);
            fit_connections(&m.options);
            delivery_forget_proxies();
            signal(SIGPIPE, SIG_IGN);
            signal(SIGXFSZ, SIG_IGN); // a file at its size limit is an error like a full disk
            sigemptyset(&stop);
            sigaddset(&stop, SIGTERM);
            sigaddset(&stop, SIGINT);
            pthread_sigmask(SIG_BLOCK, &stop,
                            NULL); // in every thread; this one waits for the signals
            m.master_log = master_log_new();
            rc = run_master(&m, &stop, &e);
            master_log_free(m.master_log);
        }
    }
    if (rc)
        fprintf(stderr, "muster-master: %s\n", e.text);
    free_arguments(&m.arguments);
    return err_exit_code(rc);
}
