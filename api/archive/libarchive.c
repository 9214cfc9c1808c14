// Loads libarchive at the first call of one of its functions, like libcurl (http/curl.c). With its
// dependencies it is a dozen libraries, and loading them takes longer than a command that packs
// nothing. The functions here have the names and types of libarchive's headers and forward to the
// library.
#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/os/library.h"

// Arguments: result type, name, parameters, and the arguments to forward.
#define CALLS(X)                                                                                   \
    X(const char *, archive_error_string, (struct archive * a), (a))                               \
    X(int, archive_read_free, (struct archive * a), (a))                                           \
    X(struct archive *, archive_read_new, (void), ())                                              \
    X(int, archive_read_next_header, (struct archive * a, struct archive_entry * *entry),          \
      (a, entry))                                                                                  \
    X(la_ssize_t, archive_read_data, (struct archive * a, void *data, size_t len), (a, data, len)) \
    X(int, archive_read_open_fd, (struct archive * a, int fd, size_t block), (a, fd, block))       \
    X(int, archive_read_open_memory, (struct archive * a, const void *data, size_t len),           \
      (a, data, len))                                                                              \
    X(int, archive_read_support_filter_gzip, (struct archive * a), (a))                            \
    X(int, archive_read_support_format_tar, (struct archive * a), (a))                             \
    X(int, archive_write_add_filter_gzip, (struct archive * a), (a))                               \
    X(int, archive_write_close, (struct archive * a), (a))                                         \
    X(la_ssize_t, archive_write_data, (struct archive * a, const void *data, size_t len),          \
      (a, data, len))                                                                              \
    X(int, archive_write_free, (struct archive * a), (a))                                          \
    X(int, archive_write_header, (struct archive * a, struct archive_entry * entry), (a, entry))   \
    X(struct archive *, archive_write_new, (void), ())                                             \
    X(int, archive_write_open2,                                                                    \
      (struct archive * a, void *ctx, archive_open_callback *o, archive_write_callback *w,         \
       archive_close_callback *c, archive_free_callback *f),                                       \
      (a, ctx, o, w, c, f))                                                                        \
    X(int, archive_write_set_bytes_in_last_block, (struct archive * a, int bytes), (a, bytes))     \
    X(int, archive_write_set_filter_option,                                                        \
      (struct archive * a, const char *m, const char *o, const char *v), (a, m, o, v))             \
    X(int, archive_write_set_format_pax_restricted, (struct archive * a), (a))                     \
    X(int, archive_write_set_format_zip, (struct archive * a), (a))                                \
    X(struct archive_entry *, archive_entry_new, (void), ())                                       \
    X(la_int64_t, archive_entry_size, (struct archive_entry * entry), (entry))                     \
    X(time_t, archive_entry_mtime, (struct archive_entry * entry), (entry))                        \
    X(int, archive_entry_mtime_is_set, (struct archive_entry * entry), (entry))                    \
    X(__LA_MODE_T, archive_entry_filetype, (struct archive_entry * entry), (entry))                \
    X(__LA_MODE_T, archive_entry_perm, (struct archive_entry * entry), (entry))                    \
    X(const char *, archive_entry_hardlink, (struct archive_entry * entry), (entry))               \
    X(const char *, archive_entry_pathname, (struct archive_entry * entry), (entry))

#define VOID_CALLS(X)                                                                              \
    X(archive_entry_copy_pathname, (struct archive_entry * entry, const char *path),               \
      (entry, path))                                                                               \
    X(archive_entry_free, (struct archive_entry * entry), (entry))                                 \
    X(archive_entry_set_filetype, (struct archive_entry * entry, unsigned type), (entry, type))    \
    X(archive_entry_set_mtime, (struct archive_entry * entry, time_t s, long ns), (entry, s, ns))  \
    X(archive_entry_set_perm, (struct archive_entry * entry, __LA_MODE_T mode), (entry, mode))     \
    X(archive_entry_set_size, (struct archive_entry * entry, la_int64_t size), (entry, size))

static struct {
#define MEMBER(type, name, ...) __typeof__(name) *name;
#define VOID_MEMBER(name, ...)  __typeof__(name) *name;
    CALLS(MEMBER)
    VOID_CALLS(VOID_MEMBER)
    __typeof__(archive_set_error) *archive_set_error;
} library;

static void load_libarchive(void)
{
    void *handle = library_load(ARCHIVE_LIBRARY, "libarchive");
#define LOOK_UP(name)                                                                              \
    library.name = (__typeof__(name) *)dlsym(handle, #name);                                       \
    must(library.name);
#define FIND(type, name, ...) LOOK_UP(name)
#define FIND_VOID(name, ...)  LOOK_UP(name)
    CALLS(FIND)
    VOID_CALLS(FIND_VOID)
    LOOK_UP(archive_set_error)
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
#define REAL(name) (pthread_once(&once, load_libarchive), library.name)

#define HAND_ON(type, name, parameters, values)                                                    \
    type name parameters                                                                           \
    {                                                                                              \
        return REAL(name) values;                                                                  \
    }
#define HAND_ON_VOID(name, parameters, values)                                                     \
    void name parameters                                                                           \
    {                                                                                              \
        REAL(name) values;                                                                         \
    }
CALLS(HAND_ON)
VOID_CALLS(HAND_ON_VOID)

void archive_set_error(struct archive *a, int code, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    REAL(archive_set_error)(a, code, "%s", text);
}
