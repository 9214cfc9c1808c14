// The answer of a core handler as its route renders it, for tests without HTTP.
#ifndef TESTS_MASTER_RENDER_H
#define TESTS_MASTER_RENDER_H

#include "master/http/routing/routes.h"

// Renders rq->result, if there is one, into rq->answer. `db` reads the committed store.
static inline int render_result(core_handler *handler, struct request *rq, struct db_reader *db,
                                struct error *e)
{
    struct view v = {.rq = rq, .db = db, .address = "", .token = ""};
    jw_init(&v.w, &rq->answer);
    if (!rq->result || rq->answer.len)
        return 0;
    for (size_t i = 0; i < route_count; i++)
        if (route_table[i].core == handler && route_table[i].view)
            return route_table[i].view(&v, e);
    return error_set(e, ERR_INTERNAL, "no route renders what this handler answers");
}

#endif
