// Things by the names that people give them. A number is also taken as the id. One that is not
// there is ERR_NOT_FOUND with the nearest name; `flag` NULL: a word of the command.
#ifndef MUSTER_CLI_LOOKUP_H
#define MUSTER_CLI_LOOKUP_H

#include "cli/cli.h"

int lookup_team(struct cli *c, const char *flag, const char *name, long long *id, struct error *e);
int lookup_project(struct cli *c, long long team, const char *name, long long *id, struct error *e);
int lookup_user(struct cli *c, const char *flag, const char *name, long long *id, struct error *e);
int lookup_webhook(struct cli *c, const char *name, long long *id, struct error *e);
int lookup_pool(struct cli *c, const char *flag, const char *name, struct error *e);

// ERR_CONFLICT when there is a `what` of that name at `path`. To be asked before a POST that makes
// it: repeated, the POST finds what it has made itself.
int lookup_none(struct cli *c, const char *what, const char *path, const char *name,
                struct error *e);

// The name of a team or user in the arena; its number where it cannot be had.
const char *lookup_team_name(struct cli *c, long long id);
const char *lookup_user_name(struct cli *c, long long id);

#endif
