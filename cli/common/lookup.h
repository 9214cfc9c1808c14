// Finds the ids of objects by name; a number may also be the id. ERR_NOT_FOUND suggests the nearest
// name. `flag` names the flag in errors; NULL: a positional argument.
#ifndef MUSTER_CLI_LOOKUP_H
#define MUSTER_CLI_LOOKUP_H

#include "cli/cli.h"

int lookup_team(struct cli *c, const char *flag, const char *name, long long *id, struct error *e);
int lookup_project(struct cli *c, long long team, const char *name, long long *id, struct error *e);
int lookup_user(struct cli *c, const char *flag, const char *name, long long *id, struct error *e);
int lookup_webhook(struct cli *c, const char *name, long long *id, struct error *e);
int lookup_pool(struct cli *c, const char *flag, const char *name, struct error *e);

// ERR_CONFLICT if a `what` of that name exists at `path`. Call it before the POST that creates the
// object, because a repeated POST returns the existing object.
int lookup_none(struct cli *c, const char *what, const char *path, const char *name,
                struct error *e);

// The name of a team or user, in the arena; its id if the name cannot be fetched.
const char *lookup_team_name(struct cli *c, long long id);
const char *lookup_user_name(struct cli *c, long long id);

#endif
