// Retention times of logs (log_expiry.c). Core thread.
#ifndef MUSTER_MASTER_RETENTION_LOG_EXPIRY_H
#define MUSTER_MASTER_RETENTION_LOG_EXPIRY_H

#include "master/kernel/state.h"

void log_retention_set(struct core *c, const struct experiment *x, int64_t days); // -1: for ever
int log_retention_read_days(const struct request *rq, int64_t *days, struct error *e);

#endif
