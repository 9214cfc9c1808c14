// The images, histograms, tables and texts of an export (bundle.h).
#ifndef MUSTER_CLI_BUNDLE_MEDIA_H
#define MUSTER_CLI_BUNDLE_MEDIA_H

#include "cli/cli.h"

struct bundle_media_counts {
    long long items, missing; // written here; without a content that can be read
};

// Saves the items of a trial below `folder`, each content once. An item whose content is gone or
// damaged is left out and counted as missing.
int bundle_media_save(struct cli *c, const char *folder, long long trial,
                      struct bundle_media_counts *counts, struct error *e);

struct bundle_media_target {
    const json_t *storage; // checkpoint_storage of the new experiment
    const char *cluster;   // id of the new cluster
    long long experiment, old_trial, trial;
};

// Writes the contents to the storage and reports the items of one trial. If this machine cannot
// write to the storage, all are counted as missing. ERR_INVALID: a content of the export does not
// have its digest.
int bundle_media_load(struct cli *c, const char *folder, const struct bundle_media_target *to,
                      struct bundle_media_counts *counts, struct error *e);

#endif
