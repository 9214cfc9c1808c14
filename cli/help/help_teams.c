// muster help teams: what a team is, and who may do what in it.
#include "cli/help/help.h"

// clang-format off
static const char teams[] =
    "Teams\n"
    "\n"
    "A team is a workspace (Determined's word, which is understood too): it has projects, which\n"
    "hold experiments, and it has members. The slots of the cluster are shared among teams by their\n"
    "weights and guarantees, and within a team among its users (muster help scheduling). What names\n"
    "no team is in \"Uncategorized\", which everybody may use.\n"
    "\n"
    "Roles\n"
    "\n"
    "Each may do what those before it may:\n"
    "\n"
    "  may                                         none  viewer  editor  admin  administrator\n"
    "  see the team, its experiments and models     -      x       x       x         x\n"
    "  submit experiments, add models, templates    -      -       x       x         x\n"
    "  change what is one's own                     -      -       x       x         x\n"
    "  change what belongs to others                -      -       -       x         x\n"
    "  put a job ahead of those of others           -      -       -       x         x\n"
    "  name, default role, members, projects,\n"
    "  webhooks, deleting an empty team             -      -       -       x         x\n"
    "  weight, guaranteed slots, most slots         -      -       -       -         x\n"
    "  users, agents, backups, the audit trail      -      -       -       -         x\n"
    "\n"
    "\"admin\" is a role in one team; an administrator is one of the cluster (muster user set NAME\n"
    "--admin) and has all rights in every team. Who makes a team is its admin. A member has the\n"
    "role that was given to him, everybody else the team's default role: so a team that all may see\n"
    "and only members use has the default role viewer, a private one none. A team with guaranteed\n"
    "slots is deleted by an administrator alone.\n"
    "\n";

static const char commands_of_teams[] =
    "Commands\n"
    "\n"
    "  muster team create vision --default-role viewer      a team, with a project \"default\"\n"
    "  muster team set vision --user ann --role editor      Ann is a member\n"
    "  muster team set vision --user ann --role default     .. and no longer\n"
    "  muster team set vision --weight 2 --guaranteed 8     its part of the slots (administrators)\n"
    "  muster team describe vision                          all of that\n"
    "  muster team shares                                   what teams may have, have and are owed\n"
    "\n"
    "An experiment file says where it belongs:\n"
    "\n"
    "  workspace: vision\n"
    "  project: default\n";
// clang-format on

void help_teams(FILE *out)
{
    fputs(teams, out);
    fputs(commands_of_teams, out);
}
