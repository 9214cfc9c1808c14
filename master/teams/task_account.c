#include "master/teams/task_account.h"

#include "master/teams/agent_user.h"

json_t *task_account_read(struct db_reader *db, int64_t user, int64_t project)
{
    struct db_rows *rows = DB_QUERY(db, TASK_ACCOUNT, user, project);
    json_t *account = NULL;
    if (db_next(rows) > 0)
        account = agent_user_account(DB_GET(rows, TASK_ACCOUNT, user_group),
                                     DB_GET(rows, TASK_ACCOUNT, workspace_group));
    db_rows_close(rows);
    return account;
}
