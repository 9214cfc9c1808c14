// The notes of a project: each has a name and a text, in the order of their creation.
#include <string.h>

#include "base/limits.h"
#include "base/text/json.h"
#include "master/teams/module.h"
#include "master/teams/teams.h"

static int find_project(struct core *c, struct request *rq, const struct project **out,
                        struct error *e)
{
    int64_t id;
    int err = request_param_int(rq, 0, &id, e);
    if (err)
        return err;
    rq->id = id;
    const struct project *p = *out = core_project(c, id);
    if (!p || !role_may(core_role(rq, p->workspace), ACT_SEE))
        return error_not_found(e, "project", "%lld", (long long)id);
    return role_check(core_role(rq, p->workspace), ACT_SUBMIT, p->workspace->name, e);
}

static int check_note(const json_t *note, struct error *e)
{
    const char *name = jget_string(note, "name", ""), *text = jget_string(note, "contents", "");
    if (strlen(name) > LIMIT_NAME)
        return error_set(e, ERR_TOO_LARGE, "name: more than %d bytes", LIMIT_NAME);
    if (strlen(text) > LIMIT_DESCRIPTION)
        return error_set(e, ERR_TOO_LARGE, "contents: more than %d bytes", LIMIT_DESCRIPTION);
    return 0;
}

static int count_notes(struct core *c, int64_t project)
{
    struct db_rows *rows = DB_QUERY(c->reader, PROJECT_NOTES_COUNT, project);
    int count = db_next(rows) == 1 ? (int)DB_GET(rows, PROJECT_NOTES_COUNT, count) : 0;
    db_rows_close(rows);
    return count;
}

// The statement inserts nothing if the last note is identical, so a repeated request has no effect.
int core_project_note_add(struct core *c, struct request *rq, struct error *e)
{
    const struct project *p;
    int err = find_project(c, rq, &p, e);
    if (!err)
        err = check_note(rq->body, e);
    if (!err && count_notes(c, p->id) >= LIMIT_PROJECT_NOTES)
        err = error_set(e, ERR_TOO_LARGE, "a project has at most %d notes; delete some first",
                        LIMIT_PROJECT_NOTES);
    if (err)
        return err;
    STORE(c, PROJECT_ADD_NOTE, jget_string(rq->body, "name", ""),
          jget_string(rq->body, "contents", ""), p->id);
    change_mark_workspace(c, p->workspace->id);
    return 0;
}

int core_project_notes_set(struct core *c, struct request *rq, struct error *e)
{
    const struct project *p;
    const json_t *note, *given = jget(rq->body, "notes");
    size_t i;
    int err = find_project(c, rq, &p, e);
    if (!err && json_array_size(given) > LIMIT_PROJECT_NOTES)
        err = error_set(e, ERR_TOO_LARGE, "notes: more than %d", LIMIT_PROJECT_NOTES);
    json_t *notes = json_array();
    json_array_foreach(given, i, note)
    {
        if (!err && (err = check_note(note, e)) != 0)
            error_prefix(e, "notes: item %zu", i);
        must(!json_array_append_new(notes,
                                    json_pack("{s:s, s:s}", "name", jget_string(note, "name", ""),
                                              "contents", jget_string(note, "contents", ""))));
    }
    if (!err) {
        char *text = json_text(notes);
        STORE(c, PROJECT_SET_NOTES, text, p->id);
        free(text);
        change_mark_workspace(c, p->workspace->id);
    }
    json_decref(notes);
    return err;
}
