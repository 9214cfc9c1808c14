#include "base/clock.h"
#include "master/common/audit.h"
#include "master/notify/hub.h"
#include "master/registry/registry.h"

int view_commit(struct view *v, struct db_batch *b, struct error *e)
{
    bool audited = audit_wants(v->rq, 200);
    if (audited)
        audit_add(b, v->rq, 200, clock_wall_us());
    int rc = db_commit_wait(v->service->db, b, e);
    if (!rc && audited)
        hub_add_audit_change(v->service->hub, v->rq->path);
    return rc;
}
