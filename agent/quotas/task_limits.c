#include "agent/quotas/task_limits.h"

#include <sys/statvfs.h>

#include "agent/failures/memory.h"
#include "base/log.h"

const struct task_limits task_limits_default = {
    .processes = 8192,
    .disk = {.task = {.percent = 50},
             .task_files = 2000000, // twice as many as the largest common data set
             .floor = {.bytes = 1 << 30, .percent = 5}},
};

static int parse_one(const char *flag, const char *text, struct disk_size *out, struct error *e)
{
    int err = text ? disk_size_parse(text, out, e) : 0;
    return err ? error_prefix(e, "--%s", flag) : 0;
}

int task_limits_parse(const struct task_limits_text *text, struct task_limits *out, struct error *e)
{
    int err = parse_one("task-memory", text->memory, &out->memory, e);
    if (!err)
        err = parse_one("task-disk", text->disk, &out->disk.task, e);
    if (!err)
        err = parse_one("disk-floor", text->floor, &out->disk.floor, e);
    return err;
}

json_t *task_limits_json(const struct task_limits *limits, const char *work_dir)
{
    struct statvfs s = {0};
    int64_t memory = memory_bytes();
    uint64_t disk = statvfs(work_dir, &s) == 0 ? (uint64_t)s.f_blocks * s.f_frsize : 0;
    json_t *json =
        json_pack("{s:I, s:I, s:I, s:I, s:I}", "processes", (json_int_t)limits->processes, "memory",
                  (json_int_t)disk_size_of(&limits->memory, (uint64_t)memory), "disk",
                  (json_int_t)disk_size_of(&limits->disk.task, disk), "files",
                  (json_int_t)limits->disk.task_files, "diskFloor",
                  (json_int_t)disk_size_of(&limits->disk.floor, disk));
    must(json);
    return json;
}
