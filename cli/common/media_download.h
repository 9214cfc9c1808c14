// The contents of media items: images, histograms, tables and texts of a trial.
#ifndef MUSTER_CLI_MEDIA_DOWNLOAD_H
#define MUSTER_CLI_MEDIA_DOWNLOAD_H

#include "cli/cli.h"

// Downloads the content with this digest to a file, which appears once it is complete. Replaces an
// existing file. The errors of client_download(), and ERR_IO.
int media_download(struct cli *c, long long trial, const char *digest, const char *path,
                   struct error *e);

#endif
