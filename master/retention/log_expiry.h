// How long logs are kept (log_expiry.c). Core thread alone.
#ifndef MUSTER_MASTER_RETENTION_LOG_EXPIRY_H
#define MUSTER_MASTER_RETENTION_LOG_EXPIRY_H

#include "master/kernel/state.h"

void logs_retain(struct core *c, const struct experiment *x, int64_t days);   // -1: for ever
int logs_read_days(const struct request *rq, int64_t *days, struct error *e); // of the body

#endif
