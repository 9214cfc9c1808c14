// The modules of the core in their order: a folder calls the folders before it directly, and those
// after it through events (master/kernel/module.h). The list is passed to core_new().
#ifndef MUSTER_MASTER_MODULES_H
#define MUSTER_MASTER_MODULES_H

#include "master/kernel/module.h"

extern const struct core_module *const master_modules[]; // ends with NULL

#endif
