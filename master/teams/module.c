#include "master/teams/module.h"

const struct core_module teams_module = {
    .name = "teams",
    .load = teams_load,
    .free = teams_free,
};
