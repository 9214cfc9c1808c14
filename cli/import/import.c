// muster import determined FILE|URL
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/import/dump_source.h"
#include "cli/import/remote_source.h"

int run_import_determined(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    const char *from = c->args[0];
    return strstr(from, "://") ? import_remote(c, from, e) : import_dump(c, from, e);
}
