// Checks the limits of the simulator's input. Private to this folder.
#ifndef MUSTER_SIMULATE_CHECK_H
#define MUSTER_SIMULATE_CHECK_H

#include "simulate/simulate.h"

int simulate_check(const struct simulate_trace *trace, const struct simulate_node *nodes,
                   size_t node_count, const struct simulate_options *options, struct error *e);

#endif
