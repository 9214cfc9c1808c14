// muster import determined FILE|URL
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/import/dump_source.h"
#include "cli/import/remote_source.h"

// "old-master:8080", "10.0.0.7:8080/": an address whose scheme is missing.
static bool is_host_and_port(const char *from)
{
    const char *colon = strrchr(from, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    return colon && colon > from && digits &&
           strspn(colon + 1 + digits, "/") == strlen(colon + 1 + digits);
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

static int refuse_scheme(const char *from, struct error *e)
{
    if (begins_with(from, "postgres://") || begins_with(from, "postgresql://"))
        return error_set(
            e, ERR_INVALID,
            "a database is imported from a dump: pg_dump --format=plain --file=dump.sql "
            "--dbname=URL, then muster import determined dump.sql");
    return error_set(e, ERR_INVALID,
                     "%s: the address of a Determined master begins with http:// or https://; the "
                     "file of a dump is given by its path",
                     from);
}

int run_import_determined(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *from = c->args[0];
    if (begins_with(from, "http://") || begins_with(from, "https://"))
        return import_remote(c, from, e);
    if (strstr(from, "://"))
        return refuse_scheme(from, e);
    if (access(from, F_OK) && is_host_and_port(from))
        return error_set(
            e, ERR_INVALID,
            "there is no file %s; if it is the address of a running Determined master, "
            "write http://%s or https://%s",
            from, from, from);
    return import_dump(c, from, e);
}
