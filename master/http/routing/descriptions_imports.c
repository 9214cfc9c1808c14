// Imports of other clusters.

#include "master/http/routing/descriptions.h"

static const struct description rows[] = {
    TEXT("POST /api/v1/imports cluster",
         "The id of the other cluster; 1 to 255 bytes. A repeated call with it continues the "
         "import."),
    TEXT("POST /api/v1/imports lastExperiment",
         "The greatest id of an experiment there. On a master that never had an experiment, "
         "experiments keep their ids, and new ones get greater ids."),
    TEXT("POST /api/v1/imports lastTrial", "The greatest id of a trial there; as lastExperiment."),
    TEXT("POST /api/v1/imports -> import", "The import, for the calls below it."),
    TEXT("{importId}", "The id of an import: POST /api/v1/imports."),
    TEXT("POST /api/v1/imports/{importId}/records records",
         "Up to 500 objects. Each has `kind` (user, workspace, project, experiment, trial, "
         "checkpoint, metrics_begin, metrics_end, model, model_version), `old` (its id there, a "
         "text) and fields of its kind, as muster import determined sends them. Objects that it "
         "refers to, by their old ids, must be of an earlier call."),
    TEXT("POST /api/v1/imports/{importId}/records -> results",
         "The result of each record, in their order."),
    TEXT("POST /api/v1/imports/{importId}/metrics posts",
         "Up to 1,000 bodies as those of POST /api/v1/trials/{trialId}/metrics or "
         ".../metrics/columns, each with `trial`: the trial's id there. Each report has a time."),
    TEXT("POST /api/v1/imports/{importId}/metrics call",
         "A name of at most 64 bytes for this call. The last call, repeated by its name, stores "
         "nothing. Default: \"\", every call is stored."),
    TEXT("Import", "Objects of one other cluster that this master takes over."),
    TEXT("Import.id", "The id of the import."),
    TEXT("Import.keepsIds", "Whether experiments and trials keep their ids."),
    TEXT("Import.lastExperiment", "The greatest id of an experiment that is kept; 0: none is."),
    TEXT("ImportResult", "The result of one record of an import."),
    TEXT("ImportResult.outcome", "The change that the record caused here."),
    TEXT("ImportResult.id", "The id of the object here; 0: none, or it is not known yet."),
    TEXT("ImportResult.reason", "Why the record was skipped; absent if it was not."),
    TEXT("ImportOutcome", "NEW: stored. EXISTING: it was here, and nothing changed. CHANGED: the "
                          "end of what had been running, or more metrics. SKIPPED: not stored."),
};

const struct description_table import_descriptions = {"descriptions_imports.c", rows,
                                                      sizeof rows / sizeof *rows};
