#include "master/teams/precedence.h"

enum precedence precedence_judge(const struct precedence_claim *claim)
{
    if (!role_may(claim->role, claim->own ? ACT_CHANGE_OWN : ACT_CHANGE_OTHERS))
        return PRECEDENCE_NO_CHANGE;
    if (claim->role == ROLE_CLUSTER_ADMIN || claim->unlimited)
        return PRECEDENCE_GRANTED;
    if (claim->above)
        return PRECEDENCE_ABOVE;
    if (claim->displaces == DISPLACES_OTHER_TEAM)
        return PRECEDENCE_OTHER_TEAM;
    if (claim->displaces == DISPLACES_TEAMMATE && claim->role != ROLE_ADMIN)
        return PRECEDENCE_TEAMMATE;
    return PRECEDENCE_GRANTED;
}
