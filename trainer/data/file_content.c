#include "trainer/data/file_content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"

enum { CHUNK = 1 << 20 };
static const size_t max_unpacked_bytes = (size_t)8 << 30;

// --- gzip ----------------------------------------------------------------------------------------

static int unpack_error(gzFile gz, const struct file_content *c, struct error *e)
{
    int code;
    const char *text = gzerror(gz, &code);
    return error_set(e, ERR_CORRUPT, "%s: damaged gzip data after %zu unpacked bytes: %s", c->path,
                     c->size, code == Z_BUF_ERROR ? "the file ends in the middle" : text);
}

// Reads all of `gz` into c->data, which grows.
static int unpack_all(gzFile gz, struct file_content *c, struct error *e)
{
    uint8_t *data = NULL;
    size_t capacity = 0;
    for (;;) {
        if (capacity - c->size < CHUNK) {
            capacity = capacity ? 2 * capacity : 4 * (size_t)CHUNK;
            c->data = data = xrealloc(data, capacity);
        }
        int n = gzread(gz, data + c->size, CHUNK), code;
        gzerror(gz, &code);
        if (n < 0 || (n == 0 && code != Z_OK && code != Z_STREAM_END))
            return unpack_error(gz, c, e);
        if (n == 0)
            return 0;
        c->size += (size_t)n;
        if (c->size > max_unpacked_bytes)
            return error_set(e, ERR_TOO_LARGE,
                             "%s: more than 8 GiB unpacked; unpack it first, plain files are not "
                             "read into memory",
                             c->path);
    }
}

static int gzip_unpack(int fd, struct file_content *c, struct error *e)
{
    gzFile gz = gzdopen(dup(fd), "rb");
    if (!gz)
        return error_set(e, ERR_IO, "%s: no memory to unpack it", c->path);
    int rc = unpack_all(gz, c, e);
    gzclose(gz);
    return rc;
}

static bool is_gzip(int fd)
{
    uint8_t first[2];
    return pread(fd, first, 2, 0) == 2 && first[0] == 0x1f && first[1] == 0x8b;
}

// --- plain files ---------------------------------------------------------------------------------

static int map_file(int fd, size_t size, struct file_content *c, struct error *e)
{
    c->size = size;
    if (size == 0)
        return 0;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return error_set_errno(e, ERR_IO, errno, "%s: cannot be mapped into memory", c->path);
    c->data = data;
    c->mapped = true;
    return 0;
}

static int open_regular(const char *name, const struct file_content *c, struct stat *st,
                        struct error *e)
{
    int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno,
                               "%s: cannot open \"%s\"", name, c->path);
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
        return fd;
    close(fd);
    return error_set(e, ERR_INVALID, "%s: \"%s\" is not a file", name, c->path);
}

int file_content_open(const char *name, const char *path, const char *folder, bool unpack_gzip,
                      struct file_content **out, struct error *e)
{
    struct file_content *c = xcalloc(1, sizeof *c);
    struct stat st;
    c->references = 1;
    c->path = path[0] == '/' ? xstrdup(path) : path_join(folder, path);
    int fd = open_regular(name, c, &st, e), rc = fd;
    if (fd >= 0) {
        rc = unpack_gzip && is_gzip(fd) ? gzip_unpack(fd, c, e)
                                        : map_file(fd, (size_t)st.st_size, c, e);
        close(fd);
    }
    if (rc) {
        file_content_unref(c);
        c = NULL;
    }
    *out = c;
    return rc;
}

struct file_content *file_content_ref(struct file_content *c)
{
    c->references++;
    return c;
}

static void free_content(struct file_content *c)
{
    void *data = (void *)(uintptr_t)c->data;
    if (c->mapped)
        must(munmap(data, c->size) == 0);
    else
        free(data);
    free(c->path);
    free(c);
}

void file_content_unref(struct file_content *c)
{
    if (c && --c->references == 0)
        free_content(c);
}

struct file_content *file_content_from_memory(const char *path, void *data, size_t size)
{
    struct file_content *c = xcalloc(1, sizeof *c);
    *c = (struct file_content){.data = data, .size = size, .path = xstrdup(path), .references = 1};
    return c;
}

int file_content_check_end(const struct file_content *c, size_t end, struct error *e)
{
    if (c->size < end)
        return error_set(e, ERR_CORRUPT,
                         "%s: ends at offset %zu, but its header promises %zu bytes", c->path,
                         c->size, end);
    if (c->size > end)
        return error_set(e, ERR_CORRUPT, "%s: offset %zu: %zu bytes more than its header promises",
                         c->path, end, c->size - end);
    return 0;
}
