// Configuration templates: what an experiment leaves open is taken from its template. Pure; any
// thread.
//
// A value of the experiment wins; objects are merged key by key; a list of the experiment replaces
// that of the template. What is different, as in Determined: labels, bind mounts, devices, proxy
// ports and log policies of both are taken, and environment variables of both, those of the
// experiment last, so that they win. A hyperparameter is never mixed out of two. Where both name a
// searcher or a checkpoint storage of different kinds, only what all kinds have is taken over.
#ifndef MUSTER_API_TEMPLATE_H
#define MUSTER_API_TEMPLATE_H

#include <jansson.h>

// Completes `config` by copies of what `template` has more. Both are objects.
void template_apply(json_t *config, const json_t *template);

#endif
