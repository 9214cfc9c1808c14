// The configuration of commands and generic tasks: Determined's keys as one table of fields, and
// the configuration of the experiment with one trial that runs the task. Pure functions; any
// thread.
#ifndef MUSTER_API_TASKCONF_H
#define MUSTER_API_TASKCONF_H

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text/schema.h"
#include "base/text/yaml.h"

extern const struct schema_field taskconf_fields[]; // ends with name == NULL

// Checks the document and completes it in place. *experiment (owned by the caller) is the complete
// configuration of the experiment (expconf.h), with the additional key `work_dir`. ERR_INVALID with
// "config:2:5: resources.slots: ...".
int taskconf_finish(struct yaml_doc *doc, json_t **experiment, struct error *e);

// Appends the reference of all keys in Markdown.
void taskconf_document(struct buf *out);

#endif
