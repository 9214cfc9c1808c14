// Internal header of the expconf sources.
#ifndef MUSTER_API_EXPCONF_PARTS_H
#define MUSTER_API_EXPCONF_PARTS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/text/schema.h"
#include "base/text/yaml.h"

extern const struct schema_field expconf_trainer_fields[];         // the one field `trainer`
extern const struct schema_field expconf_trainer_keys[];           // of the section
extern const struct schema_field expconf_storage_keys[];           // checkpoint_storage
extern const struct schema_field expconf_bind_mount;               // an element of bind_mounts
extern const struct schema_variant expconf_models[];               // trainer.model
extern const struct schema_variant expconf_losses[];               // trainer.loss
extern const struct schema_variant expconf_data_formats[];         // trainer.data
extern const struct schema_variant expconf_optimizers[];           // trainer.optimizer
extern const struct schema_variant expconf_schedules[];            // trainer.schedule
extern const struct schema_variant expconf_hyperparameter_types[]; // fields include `type`

enum { EXPCONF_WHERE_MAX = 512 };

// The kinds of samples in trainer.data, a set; a model learns from some of them. Only opening a
// .npy file shows whether it holds images or features.
enum expconf_samples { EXPCONF_TOKENS = 1, EXPCONF_IMAGES = 2, EXPCONF_FEATURES = 4 };
unsigned expconf_data_samples(const json_t *data); // 0: unknown format

// ERR_INVALID with "file:line:column: path: text"; without a document "path: text".
int expconf_fault(const struct yaml_doc *doc, const char *path, struct error *e, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));

// Refuses a number of slots (at `path`) that no agents could give.
int expconf_check_slots(const struct yaml_doc *doc, const char *path, struct error *e);

// Checks the folder of a storage that is a folder, by computing the folder of a checkpoint.
int expconf_check_storage_folder(const json_t *storage, struct error *e);

// Checks config.hyperparameters and makes them typed in place.
int expconf_type_hparams(const struct yaml_doc *doc, struct error *e);

// Copies the trainer section with every "${name}" replaced by the constant, or by the first value
// that a search may draw (then *searched is set). *used: whether there was any.
int expconf_sample_trainer(const struct yaml_doc *doc, json_t **out, bool *used, bool *searched,
                           struct error *e);

// Checks between fields of a completed trainer section; the last three check its parts.
int expconf_check_trainer(const struct yaml_doc *doc, const json_t *trainer, struct error *e);
int expconf_check_model(const struct yaml_doc *doc, const json_t *trainer, struct error *e);
int expconf_check_data(const struct yaml_doc *doc, const json_t *trainer, struct error *e);
int expconf_check_schedule(const struct yaml_doc *doc, const json_t *trainer, struct error *e);

#endif
