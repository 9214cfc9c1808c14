#include "cli/cluster/hosts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "base/text/schema.h"

enum { PORT_MAX = 65535, RANGE_MAX = 4 * LIMIT_NAME };

// --- keys ----------------------------------------------------------------------------------------

static const char *const slots_words[] = {"auto", NULL};
static const struct schema_field slots_types[] = {
    {.name = "auto",
     .type = SCHEMA_ENUM,
     .words = slots_words,
     .doc = "the GPUs, or one CPU slot per core"},
    {.name = "number",
     .type = SCHEMA_INT,
     .min = 1,
     .max = LIMIT_SLOTS_PER_AGENT,
     .doc = "CPU slots"},
    {0},
};

static const struct schema_field setting = {
    .name = "value", .type = SCHEMA_ANY, .doc = "value of a setting"};

static const struct schema_field master_fields[] = {
    {.name = "host",
     .type = SCHEMA_STRING,
     .required = true,
     .doc = "name or address to which SSH connects"},
    {.name = "address",
     .type = SCHEMA_STRING,
     .doc = "address of the master for agents and users (default: the host)"},
    {.name = "port",
     .type = SCHEMA_INT,
     .min = 1,
     .max = PORT_MAX,
     .fallback = "8080",
     .doc = "port of the master"},
    {.name = "cluster_name", .type = SCHEMA_STRING, .doc = "name of the cluster, for people"},
    {.name = "settings",
     .type = SCHEMA_MAP,
     .element = &setting,
     .fallback = "{}",
     .doc = "further settings of the master, as in /etc/muster/master.yaml"},
    {0},
};

static const struct schema_field agent_fields[] = {
    {.name = "host",
     .type = SCHEMA_STRING,
     .required = true,
     .doc = "name or address to which SSH connects; gpu[1-8] means eight machines"},
    {.name = "address",
     .type = SCHEMA_STRING,
     .doc = "address of the machine for the other machines (default: the host)"},
    {.name = "slots",
     .type = SCHEMA_ONE_OF,
     .fields = slots_types,
     .fallback = "\"auto\"",
     .doc = "auto, or the number of CPU slots"},
    {.name = "pool", .type = SCHEMA_STRING, .fallback = "\"default\"", .doc = "resource pool"},
    {.name = "rack",
     .type = SCHEMA_STRING,
     .doc = "rack or switch; a gang stays in one rack if it fits"},
    {0},
};

static const struct schema_field ssh_fields[] = {
    {.name = "user",
     .type = SCHEMA_STRING,
     .fallback = "\"root\"",
     .doc = "user to sign in as; any user but root needs sudo without a password"},
    {.name = "port",
     .type = SCHEMA_INT,
     .min = 1,
     .max = PORT_MAX,
     .fallback = "22",
     .doc = "port of the SSH servers"},
    {.name = "key",
     .type = SCHEMA_STRING,
     .doc = "private key (default: the keys of ssh-agent, ~/.ssh/id_ed25519, ~/.ssh/id_ecdsa)"},
    {0},
};

static const struct schema_field package_file = {
    .name = "file", .type = SCHEMA_STRING, .doc = "a Debian package"};
static const struct schema_field install_fields[] = {
    {.name = "tarball", .type = SCHEMA_STRING, .doc = "the tarball of a release"},
    {.name = "packages",
     .type = SCHEMA_LIST,
     .element = &package_file,
     .doc = "the Debian packages of a release, instead of a tarball"},
    {0},
};

static const struct schema_field an_agent = {
    .name = "agent", .type = SCHEMA_OBJECT, .fields = agent_fields, .doc = "an agent"};
static const struct schema_field hosts_fields[] = {
    {.name = "master",
     .type = SCHEMA_OBJECT,
     .fields = master_fields,
     .required = true,
     .doc = "the machine of the master"},
    {.name = "agents",
     .type = SCHEMA_LIST,
     .element = &an_agent,
     .required = true,
     .doc = "the machines that train; the master's machine may be one of them"},
    {.name = "ssh",
     .type = SCHEMA_OBJECT,
     .fields = ssh_fields,
     .fallback = "{}",
     .doc = "how to sign in on all machines"},
    {.name = "install",
     .type = SCHEMA_OBJECT,
     .fields = install_fields,
     .required = true,
     .doc = "the release to install"},
    {.name = "checkpoints",
     .type = SCHEMA_STRING,
     .doc = "folder of checkpoints, which all machines must see under the same path (default: "
            "/var/lib/muster-checkpoints, which is shared only on a single machine)"},
    {0},
};

// --- ranges --------------------------------------------------------------------------------------

struct names {
    char **list;
    size_t count;
};

static int names_add(struct names *n, const char *whole, char *name, struct error *e)
{
    if (n->count == LIMIT_AGENTS) {
        free(name);
        return error_set(e, ERR_INVALID, "\"%s\" is more than %d machines", whole, LIMIT_AGENTS);
    }
    n->list = xrealloc(n->list, (n->count + 1) * sizeof(*n->list));
    n->list[n->count++] = name;
    return 0;
}

static int report_range(const char *whole, struct error *e)
{
    return error_set(e, ERR_INVALID,
                     "\"%s\" is no name; write ranges like gpu[1-8] or gpu[01-04,07]", whole);
}

// Reads the number at *at, of at most 6 digits. -1: there is none.
static long read_number(const char **at, int *width)
{
    const char *begin = *at;
    while (isdigit((unsigned char)**at))
        (*at)++;
    *width = (int)(*at - begin);
    return *width > 0 && *width <= 6 ? strtol(begin, NULL, 10) : -1;
}

static int expand_into(struct names *n, const char *whole, const char *name, struct error *e);

// Expands the numbers low..high between `prefix` and `rest`, which may have ranges itself.
static int expand_numbers(struct names *n, const char *whole, const char *prefix, int prefix_len,
                          long low, long high, int width, const char *rest, struct error *e)
{
    int err = 0;
    for (long i = low; i <= high && !err; i++) {
        char *name = xasprintf("%.*s%0*ld%s", prefix_len, prefix, width, i, rest);
        err = expand_into(n, whole, name, e);
        free(name);
    }
    return err;
}

static int expand_into(struct names *n, const char *whole, const char *name, struct error *e)
{
    const char *open = strchr(name, '['), *close = open ? strchr(open, ']') : NULL;
    if (!open && !strchr(name, ']'))
        return names_add(n, whole, xstrdup(name), e);
    int err = close ? 0 : report_range(whole, e);
    for (const char *at = open; !err && at && at < close;) {
        int width, high_width;
        at++; // '[' or ','
        long low = read_number(&at, &width), high = low;
        if (*at == '-') {
            at++;
            high = read_number(&at, &high_width);
        }
        if (low < 0 || high < low || (*at != ',' && at != close))
            return report_range(whole, e);
        err = expand_numbers(n, whole, name, (int)(open - name), low, high, width, close + 1, e);
    }
    return err;
}

int hosts_expand(const char *name, char ***names, size_t *count, struct error *e)
{
    struct names n = {0};
    // Each range is a call within that of the former one, and each name has the whole text.
    int err = strlen(name) > RANGE_MAX ? report_range(name, e) : expand_into(&n, name, name, e);
    if (err) {
        for (size_t i = 0; i < n.count; i++)
            free(n.list[i]);
        free(n.list);
        n = (struct names){0};
    }
    *names = n.list;
    *count = n.count;
    return err;
}

// --- the file ------------------------------------------------------------------------------------

// Reports a fault at the position of the value.
static int fault(const struct hosts_file *f, const char *path, struct error *e, const char *text)
{
    char where[512];
    return error_set(e, ERR_INVALID, "%s: %s: %s", yaml_where(&f->doc, path, where, sizeof(where)),
                     path, text);
}

// A host name, or an address: it becomes a word of command lines and an id of an agent.
static bool is_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_:";
    return *text && *text != '-' && strspn(text, letters) == strlen(text) &&
           strlen(text) <= LIMIT_NAME;
}

static struct host *find_host(const struct hosts_file *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->hosts[i].name, name) == 0)
            return &f->hosts[i];
    return NULL;
}

static struct host *add_host(struct hosts_file *f, const char *name, const char *address)
{
    f->hosts = xrealloc(f->hosts, (f->count + 1) * sizeof(*f->hosts));
    f->hosts[f->count] =
        (struct host){.name = xstrdup(name), .address = xstrdup(address ? address : name)};
    return &f->hosts[f->count++];
}

static int add_agent(struct hosts_file *f, const json_t *entry, const char *name, const char *path,
                     struct error *e)
{
    const char *address = jget_string(entry, "address", NULL);
    struct host *host = find_host(f, name);
    if (!is_name(name))
        return fault(f, path, e, "a name consists of letters, digits, '.', '-' and '_'");
    if (!is_name(jget_string(entry, "pool", "default")) ||
        !is_name(jget_string(entry, "rack", "x")))
        return fault(f, path, e,
                     "the names of pool and rack consist of letters, digits, '.', '-' and '_'");
    if (host && host->is_master && address && strcmp(address, host->address) != 0)
        return fault(f, path, e,
                     "this is the master's machine; write its address to master.address");
    if (host && host->is_agent)
        return error_set(e, ERR_INVALID, "%s: %s is listed twice", f->doc.file, name);
    if (!host)
        host = add_host(f, name, address);
    host->is_agent = true;
    host->slots = (int)jget_int(entry, "slots", 0);
    host->pool = jget_string(entry, "pool", "default");
    host->rack = jget_string(entry, "rack", NULL);
    return 0;
}

static int add_agents(struct hosts_file *f, struct error *e)
{
    const json_t *list = jget(f->doc.root, "agents");
    int err = json_array_size(list) ? 0 : fault(f, "agents", e, "the list is empty");
    for (size_t i = 0; i < json_array_size(list) && !err; i++) {
        const json_t *entry = json_array_get(list, i);
        char path[64], **names = NULL;
        size_t count = 0;
        struct error range = {0};
        snprintf(path, sizeof(path), "agents.%zu.host", i);
        if (hosts_expand(jget_string(entry, "host", ""), &names, &count, &range) != 0)
            err = fault(f, path, e, range.text);
        else if (count > 1 && jget(entry, "address"))
            err = fault(f, path, e, "several machines cannot have one address; give each its line");
        for (size_t k = 0; k < count; k++) {
            err = err ? err : add_agent(f, entry, names[k], path, e);
            free(names[k]);
        }
        free(names);
    }
    return err;
}

// Keys of the master's configuration that this program writes itself.
static int check_settings(struct hosts_file *f, struct error *e)
{
    static const struct {
        const char *name, *instead;
    } own[] = {{"data_dir", "it is always /var/lib/muster"},
               {"port", "write it to master.port"},
               {"bind", "the agents must reach the master; a firewall can restrict others"},
               {"cluster_name", "write it to master.cluster_name"},
               {"checkpoint_dir", "write it to checkpoints"},
               {"insecure", "agents and users reach the master by https"},
               {"tls_cert", "muster cluster makes the certificate, and vouches for it by SSH"},
               {"tls_key", "muster cluster makes the certificate, and vouches for it by SSH"},
               {"initial_password_file", "it is always /var/lib/muster/initial-password"}};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (json_object_get(f->settings, own[i].name)) {
            char path[80];
            snprintf(path, sizeof(path), "master.settings.%s", own[i].name);
            return fault(f, path, e, own[i].instead);
        }
    }
    // A key is written as it is; with a line break or "-" for "_" it would be another one.
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)f->settings, key, value)
    {
        if (!*key || key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_")])
            return fault(f, "master.settings", e,
                         "the name of a setting consists of small letters, digits and '_'");
    }
    return 0;
}

// "~/x" is below the home folder, a relative path below the folder of the hosts file.
static char *full_path(const char *hosts_path, const char *path)
{
    const char *home = getenv("HOME"), *slash = strrchr(hosts_path, '/');
    if (path[0] == '~' && path[1] == '/')
        return path_join(home ? home : "/", path + 2);
    if (path[0] == '/' || !slash)
        return xstrdup(path);
    return xasprintf("%.*s%s", (int)(slash - hosts_path + 1), hosts_path, path);
}

static int read_install(struct hosts_file *f, const char *path, struct error *e)
{
    const json_t *install = jget(f->doc.root, "install"), *packages = jget(install, "packages");
    const char *tarball = jget_string(install, "tarball", NULL);
    f->is_tarball = tarball != NULL;
    if (!tarball == !json_array_size(packages))
        return fault(f, "install", e, "give either a tarball or packages");
    f->file_count = tarball ? 1 : json_array_size(packages);
    f->files = xcalloc(f->file_count, sizeof(*f->files));
    for (size_t i = 0; i < f->file_count; i++) {
        const char *file = tarball ? tarball : json_string_value(json_array_get(packages, i));
        f->files[i] = full_path(path, file);
    }
    return 0;
}

int hosts_check_files(const struct hosts_file *f, struct error *e)
{
    for (size_t i = 0; i < f->file_count; i++)
        if (!path_exists(f->files[i]))
            return error_set(e, ERR_NOT_FOUND,
                             "%s: install: there is no file %s; packaging/build-packages builds a "
                             "release",
                             f->doc.file, f->files[i]);
    return 0;
}

static const char *file_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *hosts_arch(const struct hosts_file *f)
{
    for (size_t i = 0; i < f->file_count; i++) {
        const char *name = file_part(f->files[i]);
        if (strstr(name, "aarch64") || strstr(name, "_arm64"))
            return "aarch64";
    }
    return "x86_64";
}

static int check_texts(struct hosts_file *f, struct error *e)
{
    const struct host *master = &f->hosts[0];
    const char *checkpoints = f->checkpoints;
    if (!is_name(master->name))
        return fault(f, "master.host", e, "a name consists of letters, digits, '.', '-' and '_'");
    for (size_t i = 0; i < f->count; i++)
        if (!is_name(f->hosts[i].address))
            return error_set(e, ERR_INVALID, "%s: \"%s\" is no address of %s", f->doc.file,
                             f->hosts[i].address, f->hosts[i].name);
    if (checkpoints && (checkpoints[0] != '/' || strpbrk(checkpoints, " \t\n'\"\\")))
        return fault(f, "checkpoints", e, "expected an absolute path without blanks and quotes");
    return 0;
}

int hosts_parse(const char *text, size_t len, const char *path, struct hosts_file *f,
                struct error *e)
{
    *f = (struct hosts_file){0};
    int err = yaml_parse(text, len, path, &f->doc, e);
    err = err ? err : schema_apply(hosts_fields, &f->doc, e);
    if (err)
        return err;
    const json_t *master = jget(f->doc.root, "master"), *ssh = jget(f->doc.root, "ssh");
    add_host(f, jget_string(master, "host", ""), jget_string(master, "address", NULL))->is_master =
        true;
    f->port = (int)jget_int(master, "port", 0);
    f->cluster_name = jget_string(master, "cluster_name", NULL);
    f->settings = jget(master, "settings");
    f->checkpoints = jget_string(f->doc.root, "checkpoints", NULL);
    f->ssh_user = jget_string(ssh, "user", "root");
    f->ssh_port = (int)jget_int(ssh, "port", 0);
    const char *key = jget_string(ssh, "key", NULL);
    f->ssh_key = key ? full_path(path, key) : NULL;
    err = check_settings(f, e);
    err = err ? err : add_agents(f, e);
    err = err ? err : check_texts(f, e);
    return err ? err : read_install(f, path, e);
}

int hosts_read(const char *path, struct hosts_file *out, struct error *e)
{
    char *text = NULL;
    size_t len = 0;
    *out = (struct hosts_file){0};
    int err = file_read(path, LIMIT_CONFIG, &text, &len, e);
    err = err ? err : hosts_parse(text, len, path, out, e);
    free(text);
    return err;
}

void hosts_free(struct hosts_file *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->hosts[i].name);
        free(f->hosts[i].address);
    }
    for (size_t i = 0; i < f->file_count; i++)
        free(f->files[i]);
    free(f->files);
    free(f->hosts);
    free(f->ssh_key);
    yaml_doc_free(&f->doc);
}

// --- files on the machines -----------------------------------------------------------------------

bool hosts_needs_package(const struct host *host, const char *file)
{
    const char *name = file_part(file);
    if (strncmp(name, "muster-master_", 14) == 0)
        return host->is_master;
    if (strncmp(name, "muster-client_", 14) == 0)
        return true;
    return host->is_agent;
}

// JSON is YAML, so every value is written as JSON.
static void write_setting(struct buf *out, const char *key, const json_t *value)
{
    char *text = json_text(value);
    buf_printf(out, "%s: %s\n", key, text);
    free(text);
}

static void write_text(struct buf *out, const char *key, const char *text)
{
    json_t *value = json_string(text);
    write_setting(out, key, value);
    json_decref(value);
}

void hosts_write_master_yaml(const struct hosts_file *f, struct buf *out)
{
    const char *key;
    const json_t *value;
    buf_puts(out, "# Written by \"muster cluster up\", which replaces changes that are made here.\n"
                  "# Further settings belong to master.settings in the hosts file.\n");
    write_text(out, "data_dir", "/var/lib/muster");
    write_text(out, "initial_password_file", "/var/lib/muster/initial-password");
    write_text(out, "checkpoint_dir",
               f->checkpoints ? f->checkpoints : "/var/lib/muster-checkpoints");
    buf_printf(out, "port: %d\n", f->port);
    if (strchr(f->hosts[0].address, ':')) // by default the master listens on IPv4 alone
        write_text(out, "bind", "::");
    if (f->cluster_name)
        write_text(out, "cluster_name", f->cluster_name);
    json_object_foreach((json_t *)f->settings, key, value) // NOLINT: only reads
        write_setting(out, key, value);
}

void hosts_write_agent_flags(const struct host *host, struct buf *out)
{
    buf_printf(out, "--id %s --pool %s --address %s", host->name, host->pool, host->address);
    if (host->rack)
        buf_printf(out, " --rack %s", host->rack);
    if (host->slots)
        buf_printf(out, " --slots %d", host->slots);
}
