#include "cli/common/removal.h"

#include <string.h>

#include "base/clock.h"
#include "base/text/json.h"

enum { TRIES = 600, PAUSE_US = 100000 };

// ERR_NOT_FOUND: it is gone.
static int removal_check(struct cli *c, const char *noun, long long id, struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/%ss/%lld", noun, id);
    const json_t *object = jget(answer, noun);
    if (!err && !strcmp(jget_string(object, "state", ""), "WORKSPACE_STATE_DELETE_FAILED"))
        err = error_set(e, ERR_FAILED, "%s %lld could not be deleted: %s", noun, id,
                        jget_string(object, "errorMessage", ""));
    json_decref(answer);
    return err;
}

int removal_run(struct cli *c, const char *noun, long long id, struct error *e)
{
    int err = cli_call(c, "DELETE", NULL, NULL, e, "/api/v1/%ss/%lld", noun, id);
    for (int tries = 0; !err && tries < TRIES; tries++) {
        err = removal_check(c, noun, id, e);
        if (!err)
            clock_sleep_us(PAUSE_US);
    }
    if (err == ERR_NOT_FOUND)
        return 0;
    return err ? err
               : error_set(e, ERR_TIMEOUT,
                           "%s %lld is still being deleted; the master goes on with it", noun, id);
}
