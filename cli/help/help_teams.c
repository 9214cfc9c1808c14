// muster help teams: teams, roles, and the rights of each role.
#include "cli/help/help.h"

// clang-format off
static const char teams[] =
    "Teams\n"
    "\n"
    "A team is a workspace (Determined's word, which the commands accept too). It has members, and\n"
    "projects that hold experiments. The slots of the cluster are divided among teams by their weights\n"
    "and guarantees, and within a team among its users (muster help scheduling). An experiment that\n"
    "names no team belongs to \"Uncategorized\", which everybody may use.\n"
    "\n"
    "Roles\n"
    "\n"
    "Each role has the rights of the roles before it:\n"
    "\n"
    "  right                                       none  viewer  editor  admin  administrator\n"
    "  see the team, its experiments and models     -      x       x       x         x\n"
    "  submit experiments, add models, templates    -      -       x       x         x\n"
    "  change one's own objects                     -      -       x       x         x\n"
    "  change objects of others                     -      -       -       x         x\n"
    "  put a job ahead of jobs of others            -      -       -       x         x\n"
    "  change name, default role, members, projects,\n"
    "  webhooks; delete an empty team               -      -       -       x         x\n"
    "  change weight, guaranteed slots, max. slots  -      -       -       -         x\n"
    "  users, agents, backups, the audit trail      -      -       -       -         x\n"
    "\n"
    "\"admin\" is a role in one team. An administrator (muster user set NAME --admin) has all rights in\n"
    "every team of the cluster. The user who creates a team becomes its admin. A member has the role\n"
    "given to the member; every other user has the team's default role. For example, a team that\n"
    "everybody may see but only members may use has the default role viewer, and a private team has\n"
    "none. Only an administrator can delete a team with guaranteed slots.\n"
    "\n";

static const char commands_of_teams[] =
    "Commands\n"
    "\n"
    "  muster team create vision --default-role viewer      create a team with a project \"default\"\n"
    "  muster team set vision --user ann --role editor      make Ann a member\n"
    "  muster team set vision --user ann --role default     end her membership\n"
    "  muster team set vision --weight 2 --guaranteed 8     change its share (administrators)\n"
    "  muster team describe vision                          show members, projects and settings\n"
    "  muster team shares                                   show entitlement, use and debt of teams\n"
    "\n"
    "An experiment file names its team and project:\n"
    "\n"
    "  workspace: vision\n"
    "  project: default\n";
// clang-format on

void help_teams(FILE *out)
{
    fputs(teams, out);
    fputs(commands_of_teams, out);
}
