// The configuration of a command or a generic task: Determined's keys as one table of fields, and
// what an experiment of one trial that runs it is configured with. Pure functions; any thread.
#ifndef MUSTER_API_TASKCONF_H
#define MUSTER_API_TASKCONF_H

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text/schema.h"
#include "base/text/yaml.h"

extern const struct schema_field taskconf_fields[]; // ends with name == NULL

// Checks the document and completes it in place. *experiment, the caller's, is the complete
// configuration of its experiment (expconf.h), with `work_dir` beside the keys of those.
// ERR_INVALID with "config:2:5: resources.slots: ...".
int taskconf_finish(struct yaml_doc *doc, json_t **experiment, struct error *e);

// A sentence about keys that are taken and do nothing here; NULL: there are none.
const char *taskconf_warning(const json_t *config);

// The reference of all keys in Markdown.
void taskconf_document(struct buf *out);

#endif
