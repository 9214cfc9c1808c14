// For monitoring systems: GET /metrics, /healthz and /readyz, and the alerts of the cluster.
#ifndef MUSTER_MASTER_VIEWS_MONITORING_MONITORING_H
#define MUSTER_MASTER_VIEWS_MONITORING_MONITORING_H

#include "master/http/view.h"

view_handler view_healthz, view_readyz, view_metrics, view_alerts;

#endif
