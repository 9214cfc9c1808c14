// The experiment configuration: Determined's keys and the sections `launch` and `trainer` as one
// table of fields, with the checks between fields. Pure functions; any thread.
//
// Scalars in `trainer` may be written "${name}", where name is a hyperparameter (dotted if nested).
// A trainer section with such values stays as written in the complete configuration;
// expconf_resolve_trainer() replaces them, completes the section and checks it for one trial. A
// submission checks it with constant hyperparameters, or with the first value that a search space
// may draw.
#ifndef MUSTER_API_EXPCONF_H
#define MUSTER_API_EXPCONF_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text/schema.h"
#include "base/text/yaml.h"

extern const struct schema_field expconf_fields[]; // ends with name == NULL

// Parses YAML (or JSON) into a checked and complete configuration in out->root (an object; free it
// with yaml_doc_free()). `file` is used in messages only. ERR_INVALID with "file:line:column: path:
// ...". Hyperparameters become typed: 0.1 becomes {"type":"const","val":0.1}.
int expconf_parse(const char *text, size_t len, const char *file, struct yaml_doc *out,
                  struct error *e);

// Only checks and completes a document that was parsed with yaml_parse() and possibly changed by
// expconf_set(). After an error doc->root may be partly completed.
int expconf_finish(struct yaml_doc *doc, struct error *e);
// The same for an unmanaged experiment: its programs run elsewhere, so it may name none.
int expconf_finish_detached(struct yaml_doc *doc, struct error *e);

// Sets one value before the checks: "resources.slots_per_trial=3". The text after the first `=` is
// YAML; missing objects are created; lists take an index ("trainer.model.hidden.0=64").
int expconf_set(struct yaml_doc *doc, const char *assignment, struct error *e);

// Checks a checkpoint_storage object outside of a configuration: the keys, the type, the place of
// the type. Positions are JSON paths after `source`. ERR_INVALID also for a mask in place of a
// secret.
int expconf_check_storage(json_t *storage, const char *source, struct error *e);

// Replaces the secrets of a checkpoint_storage object, for answers.
void expconf_mask_storage(json_t *storage);

// Completes checkpoint_storage from a default, an object with "type" (NULL: none). If
// the experiment names no type or the same type, all keys are used; otherwise only the counts
// save_*. Then the counts default to 0, 1, 1. ERR_INVALID: no type in the end.
int expconf_merge_storage(json_t *config, const json_t *storage, struct error *e);

// The values of constant hyperparameters, nested as written: the contents of DET_HPARAMS for
// searcher `single`. ERR_INVALID names a hyperparameter that is not constant.
int expconf_const_hparams(const json_t *config, json_t **hparams, struct error *e);

// The trainer section of one trial: "${name}" replaced from `hparams` (plain values), completed,
// checked. The caller owns `out`. Errors name the JSON path ("trainer.model.width").
int expconf_resolve_trainer(const json_t *config, const json_t *hparams, json_t **out,
                            struct error *e);

// Appends the reference of all keys in Markdown.
void expconf_document(struct buf *out);

#endif
