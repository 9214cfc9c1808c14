#include "agent/spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

enum {
    CHECK_EVERY = 1 << 20, // bytes between two checks of disk_max
    BLOCK = 4096,
    CURSOR_MAX = 256,
};

// Finds the offset after the last complete line and the sequence number of that line.
static int find_end(int fd, int64_t size, int64_t *end, int64_t *sequence, struct error *e)
{
    int64_t from = size > SPOOL_BYTES_PER_BATCH ? size - SPOOL_BYTES_PER_BATCH : 0;
    size_t len = (size_t)(size - from);
    char *tail = xcalloc(len + 1, 1);
    *end = from;
    if (pread(fd, tail, len, (off_t)from) != (ssize_t)len) {
        free(tail);
        return error_set_errno(e, ERR_IO, errno, "cannot read the spool");
    }
    const char *stop = memrchr(tail, '\n', len);
    if (stop) {
        *end = from + (stop - tail) + 1;
        const char *before = memrchr(tail, '\n', (size_t)(stop - tail));
        const char *last = before ? before + 1 : tail;
        json_t *record = json_loadb(last, (size_t)(stop - last), 0, NULL);
        *sequence = jget_int(record, "sequence", *sequence);
        json_decref(record);
    }
    free(tail);
    return 0;
}

static int open_file(struct spool *s, const char *path, int64_t shipped, struct error *e)
{
    s->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat st;
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot open the spool %s", path);
    int err = find_end(s->fd, st.st_size, &s->end, &s->sequence, e);
    if (err)
        return error_prefix(e, "%s", path);
    if (s->sequence < shipped)
        s->sequence = shipped;
    if (s->end < st.st_size && ftruncate(s->fd, (off_t)s->end) != 0)
        return error_set_errno(e, ERR_IO, errno, "cannot remove the incomplete last line of %s",
                               path);
    return 0;
}

int spool_open(struct spool *s, const char *path, int64_t shipped, int64_t disk_max,
               struct error *e)
{
    *s = (struct spool){.fd = -1, .disk_max = disk_max};
    int err = open_file(s, path, shipped, e);
    if (err)
        spool_close(s);
    return err;
}

// Counting the blocks of the file is a system call, so it is done once for many lines, and for each
// line while the spool is full.
static bool spool_has_room(struct spool *s)
{
    struct stat st;
    if (s->unchecked < CHECK_EVERY && !s->full)
        return true;
    s->unchecked = 0;
    s->full = fstat(s->fd, &st) == 0 && (int64_t)st.st_blocks * 512 >= s->disk_max;
    return !s->full;
}

int spool_write(struct spool *s, const char *line, size_t len, struct error *e)
{
    if (!spool_has_room(s))
        return error_set(e, ERR_BUSY, "%" PRId64 " MiB wait to be sent to the master",
                         s->disk_max >> 20);
    ssize_t n = pwrite(s->fd, line, len, (off_t)s->end);
    if (n != (ssize_t)len) {
        int why = n < 0 ? errno : ENOSPC;
        // If this fails, the next line overwrites the incomplete one, and the reader skips the
        // rest.
        if (n > 0 && ftruncate(s->fd, (off_t)s->end) != 0)
            log_debug("cannot remove an incomplete line of a spool", "bytes=%zd", n);
        return error_set(e, why == ENOSPC || why == EDQUOT ? ERR_FULL : ERR_IO, "%s",
                         strerrordesc_np(why));
    }
    s->end += n;
    s->unchecked += n;
    s->sequence++;
    return 0;
}

void spool_close(struct spool *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

void spool_cursor_load(const char *path, struct spool_cursor *c)
{
    char *text = NULL;
    size_t len = 0;
    int fd = -1;
    *c = (struct spool_cursor){0};
    if (file_open_regular(AT_FDCWD, path, path, &fd, NULL) == 0 &&
        file_read_fd(fd, path, CURSOR_MAX, &text, &len, NULL) == 0) {
        json_t *value = json_loadb(text, len, 0, NULL);
        c->offset = jget_int(value, "offset", 0);
        c->sequence = jget_int(value, "sequence", 0);
        json_decref(value);
    }
    if (c->offset < 0 || c->sequence < 0)
        *c = (struct spool_cursor){0};
    if (fd >= 0)
        close(fd);
    free(text);
}

int spool_cursor_save(const char *path, const struct spool_cursor *c, struct error *e)
{
    char text[CURSOR_MAX];
    int len = snprintf(text, sizeof text, "{\"offset\": %" PRId64 ", \"sequence\": %" PRId64 "}\n",
                       c->offset, c->sequence);
    return file_write_durable(path, text, (size_t)len, 0600, e);
}

static void read_line(json_t *lines, const char *text, size_t len, struct spool_cursor *next)
{
    json_t *record = json_loadb(text, len, 0, NULL);
    int64_t sequence = jget_int(record, "sequence", 0);
    if (sequence > next->sequence) {
        next->sequence = sequence;
        must(json_array_append(lines, record) == 0);
    }
    json_decref(record);
}

int spool_read(int fd, const struct spool_cursor *at, char scratch[SPOOL_BYTES_PER_BATCH],
               json_t **lines, struct spool_cursor *next, struct error *e)
{
    *next = *at;
    *lines = json_array();
    must(*lines);
    ssize_t n = pread(fd, scratch, SPOOL_BYTES_PER_BATCH, (off_t)at->offset);
    if (n < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot read the spool");
    size_t used = 0;
    while (json_array_size(*lines) < SPOOL_LINES_PER_BATCH) {
        const char *line = scratch + used;
        const char *stop = memchr(line, '\n', (size_t)n - used);
        if (!stop)
            break;
        read_line(*lines, line, (size_t)(stop - line), next);
        used += (size_t)(stop - line) + 1;
    }
    // A batch without a line end is damage (zeros after a power failure): skip it.
    if (used == 0 && n == SPOOL_BYTES_PER_BATCH)
        used = (size_t)n;
    next->offset = at->offset + (int64_t)used;
    return 0;
}

void spool_release(int fd, const struct spool_cursor *shipped)
{
    int64_t whole = shipped->offset / BLOCK * BLOCK;
    if (whole > 0 &&
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)whole) != 0)
        log_debug("cannot release the shipped part of a spool", "err=%d", errno);
}
