// The experiment configuration: Determined's keys and our `launch` and `trainer` sections, as one
// table of fields, with the checks between fields. Pure functions; any thread.
//
// `trainer` scalars may be written "${name}" where name is a hyperparameter (dotted for nested
// ones). A trainer section that uses any stays as written in the complete configuration;
// expconf_resolve_trainer() replaces, completes and checks it for one trial. All of it is checked
// at submission already with the hyperparameters' constants, or with the first value that a search
// space may draw.
#ifndef MUSTER_API_EXPCONF_H
#define MUSTER_API_EXPCONF_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text/schema.h"
#include "base/text/yaml.h"

extern const struct schema_field expconf_fields[]; // ends with name == NULL

// YAML (JSON is YAML) to a checked and complete configuration in out->root (an object; free with
// yaml_doc_free). `file` is only used in messages. ERR_INVALID with "file:line:column: path: ...".
// Hyperparameters come out typed: 0.1 becomes {"type":"const","val":0.1}.
int expconf_parse(const char *text, size_t len, const char *file, struct yaml_doc *out,
                  struct error *e);

// The checks and defaults alone, for a document that was parsed with yaml_parse() and perhaps
// changed by expconf_set(). On error doc->root may be partly completed.
int expconf_finish(struct yaml_doc *doc, struct error *e);
// .. of an unmanaged experiment, whose programs run elsewhere: there need be none to run.
int expconf_finish_detached(struct yaml_doc *doc, struct error *e);

// Sets one value before the checks: "resources.slots_per_trial=3". The part after the first `=` is
// YAML; missing objects on the way are made, lists take an index ("trainer.model.hidden.0=64").
int expconf_set(struct yaml_doc *doc, const char *assignment, struct error *e);

// Fills what the configuration leaves open of checkpoint_storage from the master's default, an
// object with "type" (NULL: the master has none): all of it where the experiment names no type or
// the same one, else the counts save_* alone; then the counts 0, 1, 1. ERR_INVALID when there is
// no type in the end.
int expconf_merge_master_defaults(json_t *config, const json_t *storage, struct error *e);

// The values of constant hyperparameters, nested as written: what DET_HPARAMS holds when the
// searcher is `single`. ERR_INVALID names one that is not constant.
int expconf_const_hparams(const json_t *config, json_t **hparams, struct error *e);

// The trainer section of one trial: "${name}" replaced from `hparams` (plain values), completed,
// checked. `out` is the caller's. Errors name the JSON path ("trainer.model.width").
int expconf_resolve_trainer(const json_t *config, const json_t *hparams, json_t **out,
                            struct error *e);

// The reference of all keys in Markdown.
void expconf_document(struct buf *out);

#endif
