#include "agent/quotas/disk_rules.h"

#include "base/limits.h"

enum { FREE_FILES_PART = 100 }; // the part of all files of a file system that stays free

int disk_rules_check_task(const struct disk_rules *rules, const struct disk_state *disk,
                          const struct folder_use *use, struct error *e)
{
    char used[SIZE_TEXT], limit[SIZE_TEXT];
    uint64_t most = disk_size_of(&rules->task, disk->total);
    if (rules->task_files && use->files > rules->task_files)
        return error_set(e, ERR_TOO_LARGE,
                         "the task has more than %llu files on this machine (its working folder "
                         "and /tmp), which is its quota: pack small files into archives, remove "
                         "files, or ask the administrator for a larger --task-files of the agent",
                         (unsigned long long)rules->task_files);
    if (most && use->bytes > most)
        return error_set(e, ERR_TOO_LARGE,
                         "the task has files of %s on this machine (its working folder and /tmp), "
                         "more than its quota of %s: write less, remove files, or ask the "
                         "administrator for a larger --task-disk of the agent",
                         size_text(use->bytes, used), size_text(most, limit));
    if (use->unreadable)
        return error_set(e, ERR_TOO_LARGE,
                         "the task has folders that the agent may not read, so nobody can measure "
                         "them: leave the rights of the owner as they are");
    if (use->too_deep)
        return error_set(e, ERR_TOO_LARGE,
                         "the task has made folders that are nested deeper than %d levels, which "
                         "nobody can measure: use fewer levels",
                         LIMIT_TASK_FOLDER_DEPTH);
    return 0;
}

struct amount {
    uint64_t bytes, files;
};

static uint64_t missing(uint64_t wanted, uint64_t there)
{
    return wanted > there ? wanted - there : 0;
}

// The space and the number of files that the machine keeps free.
static struct amount find_floor(const struct disk_rules *rules, const struct disk_state *disk)
{
    bool watched = rules->floor.bytes || rules->floor.percent > 0;
    return (struct amount){
        .bytes = disk_size_of(&rules->floor, disk->total),
        .files = watched ? disk->total_files / FREE_FILES_PART : 0,
    };
}

static struct amount find_shortage(const struct amount *floor, const struct disk_state *disk)
{
    return (struct amount){
        .bytes = missing(floor->bytes, disk->free),
        .files = missing(floor->files, disk->free_files),
    };
}

bool disk_rules_is_low(const struct disk_rules *rules, const struct disk_state *disk)
{
    const struct amount floor = find_floor(rules, disk), s = find_shortage(&floor, disk);
    return s.bytes || s.files;
}

static uint64_t used_of(const struct task_use *task, bool files)
{
    return files ? task->use.files : task->use.bytes;
}

int disk_rules_choose(const struct disk_rules *rules, const struct disk_state *disk,
                      const struct task_use *tasks, size_t count, struct error *e)
{
    char free_text[SIZE_TEXT], total[SIZE_TEXT], used[SIZE_TEXT];
    const struct amount floor = find_floor(rules, disk), s = find_shortage(&floor, disk);
    bool files = s.bytes == 0;
    uint64_t short_of = files ? s.files : s.bytes, coming = 0;
    uint64_t least = files ? floor.files : floor.bytes;
    int most = -1;
    for (size_t i = 0; i < count; i++) {
        if (tasks[i].ending)
            coming += used_of(&tasks[i], files);
        else if (most < 0 || used_of(&tasks[i], files) > used_of(&tasks[most], files))
            most = (int)i;
    }
    short_of = missing(short_of, coming);
    if (!short_of || most < 0 || used_of(&tasks[most], files) < least)
        return -1;
    if (files)
        error_set(e, ERR_FULL,
                  "the disk of the agent's work folder can hold almost no more files (%llu of %llu "
                  "are left), and this task has the most, %llu: pack small files into archives, or "
                  "remove files",
                  (unsigned long long)disk->free_files, (unsigned long long)disk->total_files,
                  (unsigned long long)tasks[most].use.files);
    else
        error_set(
            e, ERR_FULL,
            "the disk of the agent's work folder is nearly full (%s of %s are free), and this "
            "task has used most of it, %s in its working folder and /tmp: write less, remove "
            "files, or ask the administrator for a larger disk",
            size_text(disk->free, free_text), size_text(disk->total, total),
            size_text(tasks[most].use.bytes, used));
    return most;
}
