// Configuration templates: values that an experiment does not set come from its template. Pure; any
// thread.
//
// A value of the experiment wins; objects are merged key by key; a list of the experiment replaces
// that of the template. Exceptions, as in Determined: labels, bind mounts, devices, proxy ports and
// log policies of both are used, and environment variables of both, with those of the experiment
// last, so that they win. Hyperparameters are never mixed. If both name a searcher or a checkpoint
// storage, of different kinds, only the keys common to all kinds are taken.
#ifndef MUSTER_API_TEMPLATE_H
#define MUSTER_API_TEMPLATE_H

#include <jansson.h>

// Adds to `config` copies of the values that only `template` has. Both are objects.
void template_apply(json_t *config, const json_t *template);

#endif
