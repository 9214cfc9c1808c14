// Archives: files stay inside the folder, nothing is left incomplete, and equal files give equal
// bytes.
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/archive/archive.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"
#include "base/text/json_reader.h"

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

static void put(const char *path, const char *text)
{
    char *folder = xstrdup(path), *slash = strrchr(folder, '/');
    if (slash) {
        *slash = '\0';
        assert_int_equal(dir_make(folder, 0755, NULL), 0);
    }
    free(folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static void assert_file(const char *path, const char *text)
{
    char *data;
    size_t len;
    struct error e;
    if (file_read(path, 1 << 20, &data, &len, &e))
        fail_msg("%s", e.text);
    assert_string_equal(data, text);
    free(data);
}

// --- hostile archives ----------------------------------------------------------------------------

struct tar_member {
    const char *path, *data;
    unsigned type; // AE_IFREG ..
    const char *link, *hard;
};

static void *tar_of(const struct tar_member *members, size_t count, size_t *len)
{
    enum { ROOM = 1 << 20 };
    void *out = xcalloc(1, ROOM);
    struct archive *a = archive_write_new();
    archive_write_set_format_pax_restricted(a);
    archive_write_add_filter_gzip(a);
    archive_write_set_bytes_in_last_block(a, 1);
    assert_int_equal(archive_write_open_memory(a, out, ROOM, len), 0);
    for (size_t i = 0; i < count; i++) {
        struct archive_entry *entry = archive_entry_new();
        size_t size = members[i].data ? strlen(members[i].data) : 0;
        archive_entry_copy_pathname(entry, members[i].path);
        archive_entry_set_filetype(entry, members[i].type);
        archive_entry_set_perm(entry, 04777);
        archive_entry_set_size(entry, (la_int64_t)size);
        if (members[i].link)
            archive_entry_copy_symlink(entry, members[i].link);
        if (members[i].hard)
            archive_entry_copy_hardlink(entry, members[i].hard);
        assert_true(archive_write_header(a, entry) >= ARCHIVE_WARN);
        if (size)
            assert_int_equal(archive_write_data(a, members[i].data, size), size);
        archive_entry_free(entry);
    }
    assert_int_equal(archive_write_close(a), 0);
    archive_write_free(a);
    return out;
}

static void unpack_refused(const struct tar_member *members, size_t count, int code,
                           const char *part)
{
    struct error e;
    size_t len;
    void *tgz = tar_of(members, count, &len);
    assert_int_equal(archive_unpack(tgz, len, "target", 1 << 20, &e), code);
    assert_contains(e.text, part);
    assert_false(path_exists("target"));
    assert_false(path_exists("target.tmp"));
    assert_false(path_exists("evil"));
    free(tgz);
}

static void names_that_leave_the_folder(void **state)
{
    static const char *const names[] = {
        "../evil", "a/../../evil", "/tmp/muster-evil", "a/..", "a//b", "./../evil", ".."};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const struct tar_member m[] = {{"good", "x", AE_IFREG, NULL, NULL},
                                       {names[i], "x", AE_IFREG, NULL, NULL}};
        unpack_refused(m, 2, ERR_INVALID, "which is outside its folder");
    }
    assert_false(path_exists("/tmp/muster-evil"));
}

static void links_and_special_files(void **state)
{
    const struct tar_member soft[] = {{"l", NULL, AE_IFLNK, "/etc", NULL},
                                      {"l/passwd", "x", AE_IFREG, NULL, NULL}};
    const struct tar_member hard[] = {{"f", "x", AE_IFREG, NULL, NULL},
                                      {"h", NULL, AE_IFREG, NULL, "/etc/passwd"}};
    const struct tar_member fifo[] = {{"p", NULL, AE_IFIFO, NULL, NULL}};
    const struct tar_member device[] = {{"d", NULL, AE_IFCHR, NULL, NULL}};
    (void)state;
    unpack_refused(soft, 2, ERR_INVALID, "\"l\", a link or special file");
    unpack_refused(hard, 2, ERR_INVALID, "\"h\", a link or special file");
    unpack_refused(fifo, 1, ERR_INVALID, "\"p\", a link or special file");
    unpack_refused(device, 1, ERR_INVALID, "\"d\", a link or special file");
}

static void names_that_collide(void **state)
{
    const struct tar_member twice[] = {{"a", "1", AE_IFREG, NULL, NULL},
                                       {"./a", "2", AE_IFREG, NULL, NULL}};
    const struct tar_member below[] = {{"a", "1", AE_IFREG, NULL, NULL},
                                       {"a/b", "2", AE_IFREG, NULL, NULL}};
    struct error e;
    size_t len;
    (void)state;
    unpack_refused(twice, 2, ERR_INVALID, "contains \"a\" twice");
    void *tgz = tar_of(below, 2, &len);
    assert_int_not_equal(archive_unpack(tgz, len, "target", 100, &e), 0);
    assert_false(path_exists("target"));
    assert_false(path_exists("target.tmp"));
    free(tgz);
}

static void more_bytes_than_the_limit(void **state)
{
    const struct tar_member m[] = {{"a", "12345", AE_IFREG, NULL, NULL},
                                   {"b", "67890", AE_IFREG, NULL, NULL}};
    struct error e;
    size_t len;
    (void)state;
    void *tgz = tar_of(m, 2, &len);
    assert_int_equal(archive_unpack(tgz, len, "target", 9, &e), ERR_TOO_LARGE);
    assert_contains(e.text, "more bytes than the limit (at b)");
    assert_false(path_exists("target"));
    assert_false(path_exists("target.tmp"));
    assert_int_equal(archive_unpack(tgz, len, "target", 10, &e), 0);
    assert_file("target/b", "67890");
    assert_int_equal(dir_remove_tree("target", NULL), 0);
    free(tgz);
}

static void bytes_that_are_no_archive(void **state)
{
    const struct tar_member m[] = {{"a", "12345", AE_IFREG, NULL, NULL},
                                   {"sub", NULL, AE_IFDIR, NULL, NULL},
                                   {"sub/b", "67890", AE_IFREG, NULL, NULL}};
    struct error e;
    size_t len;
    (void)state;
    assert_int_equal(archive_unpack("", 0, "target", 100, &e), ERR_CORRUPT);
    assert_int_equal(archive_unpack("hello world", 11, "target", 100, &e), ERR_CORRUPT);
    assert_contains(e.text, "the archive is damaged or not a tar.gz");
    char *tgz = tar_of(m, 3, &len);
    for (size_t cut = 0; cut + 8 < len; cut++) { // the last 8 bytes are gzip's own checksums
        assert_int_not_equal(archive_unpack(tgz, cut, "target", 100, &e), 0);
        assert_false(path_exists("target"));
    }
    struct rng r;
    rng_seed(&r, 3, 1);
    for (int round = 0; round < 2000;
         round++) { // refused or unpacked, but always inside the folder
        size_t at = rng_below(&r, (uint32_t)len);
        char before = tgz[at];
        tgz[at] = (char)rng_below(&r, 256);
        if (!archive_unpack(tgz, len, "target", 100, &e))
            assert_int_equal(dir_remove_tree("target", NULL), 0);
        assert_false(path_exists("target.tmp"));
        tgz[at] = before;
    }
    free(tgz);
}

static void a_place_that_is_taken(void **state)
{
    const struct tar_member m[] = {{"a", "new", AE_IFREG, NULL, NULL}};
    struct error e;
    size_t len;
    (void)state;
    void *tgz = tar_of(m, 1, &len);
    put("taken/a", "old");
    assert_int_equal(archive_unpack(tgz, len, "taken", 100, &e), ERR_CONFLICT);
    assert_contains(e.text, "taken exists already and is not empty");
    assert_file("taken/a", "old");
    put("plain", "file");
    assert_int_equal(archive_unpack(tgz, len, "plain", 100, &e), ERR_CONFLICT);
    assert_file("plain", "file");
    put("half.tmp/rest", "of a run that was killed");
    assert_int_equal(mkdir("half", 0755), 0);
    assert_int_equal(archive_unpack(tgz, len, "half/", 100, &e), 0);
    assert_file("half/a", "new");
    assert_false(path_exists("half/rest"));
    assert_false(path_exists("half.tmp"));
    free(tgz);
}

// --- the JSON list -------------------------------------------------------------------------------

static void pack_refused(const char *list, int code, const char *part)
{
    struct error e;
    void *tgz;
    size_t len;
    json_t *files = json_loads(list, JSON_DECODE_ANY, NULL);
    assert_non_null(files);
    assert_int_equal(archive_pack_list(files, &tgz, &len, &e), code);
    assert_null(tgz);
    assert_contains(e.text, part);
    json_decref(files);
}

static void bad_lists(void **state)
{
    (void)state;
    pack_refused("{}", ERR_INVALID, "modelDefinition is not a list of files");
    pack_refused("[5]", ERR_INVALID, "modelDefinition.0: \"\" is not a path");
    pack_refused("[{}]", ERR_INVALID, "modelDefinition.0: \"\" is not a path");
    pack_refused("[{\"path\":\"a\"},{\"path\":\"../b\"}]", ERR_INVALID,
                 "modelDefinition.1: \"../b\" is not a path inside the folder");
    pack_refused("[{\"path\":\"/etc/passwd\"}]", ERR_INVALID, "is not a path inside the folder");
    pack_refused("[{\"path\":\"a\",\"type\":50}]", ERR_INVALID, "\"a\" has type 50");
    pack_refused("[{\"path\":\"a\",\"content\":\"***\"}]", ERR_INVALID,
                 "\"a\": content is not base64");
    pack_refused("[{\"path\":\"a\",\"content\":5}]", ERR_INVALID, "\"a\": content is not a string");
    pack_refused("[{\"path\":\"a\"},{\"path\":\"b\"},{\"path\":\"a\"}]", ERR_INVALID,
                 "\"a\" occurs twice");
    pack_refused("[{\"path\":\"a\"},{\"path\":\"a/\",\"type\":53}]", ERR_INVALID,
                 "\"a\" occurs twice");
}

static void lists_at_their_limits(void **state)
{
    struct error e;
    void *tgz;
    size_t len;
    (void)state;
    json_t *files = json_array(), *one = json_pack("{s:s}", "path", "a");
    for (int i = 0; i <= ARCHIVE_FILES_MAX; i++)
        json_array_append(files, one);
    assert_int_equal(archive_pack_list(files, &tgz, &len, &e), ERR_TOO_LARGE);
    assert_contains(e.text, "100001 files; at most 100000");
    json_decref(one);
    json_decref(files);

    char *zeros = xcalloc(1, LIMIT_MODEL_DEFINITION + 1);
    char *content = base64_encode(zeros, LIMIT_MODEL_DEFINITION);
    files = json_pack("[{s:s, s:s}]", "path", "a", "content", content);
    assert_int_equal(archive_pack_list(files, &tgz, &len, &e), 0);
    assert_true(len < 1 << 20);
    assert_int_equal(archive_unpack(tgz, len, "big", LIMIT_MODEL_DEFINITION, &e), 0);
    free(tgz);
    json_array_append_new(files, json_pack("{s:s, s:s}", "path", "b", "content", "AA=="));
    assert_int_equal(archive_pack_list(files, &tgz, &len, &e), ERR_TOO_LARGE);
    json_decref(files);
    free(content);
    free(zeros);
}

static void a_list_is_packed_and_unpacked(void **state)
{
    struct error e;
    struct stat st;
    void *tgz;
    size_t len;
    (void)state;
    json_t *files = json_loads(
        "[{\"path\":\"sub\",\"type\":53,\"content\":\"\",\"mode\":493,\"mtime\":\"1600000000\"},"
        "{\"path\":\"sub/run.sh\",\"type\":48,\"content\":\"aGVsbG8=\",\"mode\":33261,"
        "\"mtime\":\"1600000000\",\"uid\":5,\"gid\":5},"
        "{\"path\":\"gr\u00fc\u00dfe.txt\",\"type\":\"48\",\"content\":null,\"mode\":420},"
        "{\"path\":\"empty/\",\"type\":53}]",
        0, NULL);
    assert_int_equal(archive_pack_list(files, &tgz, &len, &e), 0);
    assert_int_equal(archive_unpack(tgz, len, "deep/er/list", 5, &e), 0);
    assert_file("deep/er/list/sub/run.sh", "hello");
    assert_file("deep/er/list/gr\u00fc\u00dfe.txt", "");
    assert_int_equal(stat("deep/er/list/sub/run.sh", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(st.st_mtime, 1600000000);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(stat("deep/er/list/gr\u00fc\u00dfe.txt", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_true(path_exists("deep/er/list/empty"));
    free(tgz);
    json_decref(files);
}

static void no_files_are_an_archive_too(void **state)
{
    struct error e;
    void *tgz;
    size_t len;
    (void)state;
    json_t *lists[] = {NULL, json_null(), json_array()};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(archive_pack_list(lists[i], &tgz, &len, &e), 0);
        assert_true(len > 0);
        assert_int_equal(archive_unpack(tgz, len, "nothing", 0, &e), 0);
        assert_true(path_exists("nothing"));
        assert_int_equal(rmdir("nothing"), 0);
        free(tgz);
    }
    json_decref(lists[2]);
}

static void the_order_of_a_list_does_not_matter(void **state)
{
    struct error e;
    void *first, *second;
    size_t first_len, second_len;
    (void)state;
    json_t *one = json_loads("[{\"path\":\"a\",\"content\":\"eA==\"},{\"path\":\"b\"}]", 0, NULL);
    json_t *two = json_loads("[{\"path\":\"b\"},{\"path\":\"a\",\"content\":\"eA==\"}]", 0, NULL);
    assert_int_equal(archive_pack_list(one, &first, &first_len, &e), 0);
    usleep(1100000); // gzip's time stamp counts seconds
    assert_int_equal(archive_pack_list(two, &second, &second_len, &e), 0);
    assert_int_equal(first_len, second_len);
    assert_memory_equal(first, second, first_len);
    free(first);
    free(second);
    json_decref(one);
    json_decref(two);
}

static int append(void *ctx, const void *data, size_t len)
{
    return buf_append(ctx, data, len);
}

static int refuse(void *ctx, const void *data, size_t len)
{
    (void)ctx, (void)data, (void)len;
    return -1;
}

// Contents that stay in the text of the upload are packed like those in the tree.
static void contents_may_lie_in_the_text(void **state)
{
    enum { LEN = 1000000 };
    struct error e;
    struct buf out;
    void *tgz;
    size_t len;
    (void)state;
    char *data = xcalloc(1, LEN);
    for (size_t i = 0; i < LEN; i++)
        data[i] = (char)(i * i >> 3);
    char *content = base64_encode(data, LEN);
    char *text = xasprintf("{\"files\": [{\"path\": \"b\", \"content\": \"%s\"}, {\"path\": "
                           "\"a\", \"content\": \"eA==\"}, {\"path\": \"c\"}]}",
                           content);
    json_t *tree = json_loads(text, 0, NULL), *upload;
    assert_int_equal(json_parse_upload(text, strlen(text), "text", &upload, &e), 0);
    assert_int_equal(archive_pack_list(json_object_get(tree, "files"), &tgz, &len, &e), 0);
    buf_init(&out, 2 * LEN);
    const json_t *files = json_object_get(upload, "files");
    assert_int_equal(archive_pack_list_to(files, text, append, &out, &e), 0);
    assert_int_equal(out.len, len);
    assert_memory_equal(out.data, tgz, len);
    assert_int_equal(archive_pack_list_to(files, text, refuse, NULL, &e), ERR_IO);
    // Without the text an integer cannot replace contents.
    assert_int_equal(archive_pack_list_to(files, NULL, append, &out, &e), ERR_INVALID);
    free(tgz);
    json_decref(tree);
    json_decref(upload);
    // Padding is allowed at the end only, for contents of any length.
    content[262143] = '=';
    tree = json_pack("[{s:s, s:s}]", "path", "a", "content", content);
    assert_int_equal(archive_pack_list(tree, &tgz, &len, &e), ERR_INVALID);
    assert_contains(e.text, "content is not base64");
    json_decref(tree);
    buf_free(&out);
    free(text);
    free(content);
    free(data);
}

// --- folders -------------------------------------------------------------------------------------

static void a_folder_is_packed_and_unpacked(void **state)
{
    struct error e;
    (void)state;
    put("from/a.py", "print()");
    put("from/sub/b.py", "x = 1");
    assert_int_equal(chmod("from/sub/b.py", 0700), 0);
    assert_int_equal(symlink("/etc/passwd", "from/link"), 0);
    int fd = open("out.tgz", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(archive_pack_folder("from/", fd, &e), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(archive_unpack_fd(fd, "to", 1 << 20, &e), 0);
    assert_file("to/a.py", "print()");
    assert_file("to/sub/b.py", "x = 1");
    assert_int_equal(access("to/sub/b.py", X_OK), 0);
    assert_false(path_exists("to/link"));
    close(fd);

    fd = open("to/a.py", O_RDONLY | O_CLOEXEC); // an archive that is a program
    assert_int_equal(archive_unpack_fd(fd, "other", 1 << 20, &e), ERR_CORRUPT);
    assert_int_equal(archive_pack_folder("from", fd, &e), ERR_IO);
    assert_contains(e.text, "cannot write the archive");
    close(fd);
    fd = open("out.tgz", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(archive_pack_folder("absent", fd, &e), ERR_NOT_FOUND);
    assert_int_equal(archive_pack_folder("to/a.py", fd, &e), ERR_INVALID);
    assert_contains(e.text, "to/a.py is not a folder");
    close(fd);
}

// Returns the paths of a folder's list, joined by blanks.
static char *listed(const char *folder)
{
    struct error e;
    json_t *files, *entry;
    struct buf out;
    size_t i;
    buf_init(&out, 1 << 16);
    if (archive_list_folder(folder, &files, &e))
        fail_msg("%s", e.text);
    json_array_foreach(files, i, entry)
        buf_printf(&out, "%s%s", i ? " " : "", jget_string(entry, "path", "?"));
    json_decref(files);
    char *text = xstrdup(buf_str(&out));
    buf_free(&out);
    return text;
}

static void assert_listed(const char *folder, const char *expected)
{
    char *text = listed(folder);
    assert_string_equal(text, expected);
    free(text);
}

static void ignored_files_are_left_out(void **state)
{
    (void)state;
    put("work/model.py", "m");
    put("work/notes.log", "l");
    put("work/data/big.bin", "b");
    put("work/data/keep.log", "k");
    put("work/src/data", "a file of that name");
    put("work/src/deep/x.tmp", "x");
    put("work/.git/config", "g");
    assert_listed("work",
                  "data data/big.bin data/keep.log model.py notes.log src src/data src/deep "
                  "src/deep/x.tmp");
    put("work/.detignore", "# comment\n*.log\n\ndata/\r\n");
    assert_listed("work", ".detignore model.py src src/data src/deep src/deep/x.tmp");
    put("work/.musterignore", "!notes.log\nsrc/deep/*.tmp\n/src/dat?\n.*ignore");
    assert_listed("work", "model.py notes.log src src/deep");
    put("work/.musterignore", "src/**.tmp\n.*ignore");
    assert_listed("work", "model.py src src/data src/deep");
}

static void a_list_holds_what_the_wire_wants(void **state)
{
    struct error e;
    json_t *files;
    (void)state;
    put("wire/f", "hello");
    struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 1234567890}};
    assert_int_equal(utimensat(AT_FDCWD, "wire/f", times, 0), 0);
    assert_int_equal(archive_list_folder("wire", &files, &e), 0);
    assert_int_equal(archive_list_add(files, "conf.yaml", "a: 1", 4, &e), 0);
    assert_int_equal(archive_list_add(files, "../conf.yaml", "a: 1", 4, &e), ERR_INVALID);
    json_t *expected = json_loads(
        "[{\"path\":\"f\",\"type\":48,\"content\":\"aGVsbG8=\",\"mode\":420,\"mtime\":"
        "\"1234567890\",\"uid\":0,\"gid\":0},{\"path\":\"conf.yaml\",\"type\":48,\"content\":"
        "\"YTogMQ==\",\"mode\":420,\"mtime\":\"0\",\"uid\":0,\"gid\":0}]",
        0, NULL);
    assert_true(json_equal(files, expected));
    json_decref(expected);
    json_decref(files);
}

static void folders_that_cannot_be_sent(void **state)
{
    struct error e;
    json_t *files;
    (void)state;
    assert_int_equal(archive_list_folder("absent", &files, &e), ERR_NOT_FOUND);
    assert_null(files);
    put("huge/small", "s");
    put("huge/a.bin", "a");
    put("huge/b.bin", "b");
    put("huge/c.bin", "c");
    assert_int_equal(truncate("huge/a.bin", 20 * 1000 * 1000), 0);
    assert_int_equal(truncate("huge/b.bin", 50 * 1000 * 1000), 0);
    assert_int_equal(truncate("huge/c.bin", ARCHIVE_UPLOAD_MAX - 70 * 1000 * 1000), 0);
    assert_int_equal(archive_list_folder("huge", &files, &e),
                     ERR_TOO_LARGE); // one byte over the limit
    assert_null(files);
    assert_contains(e.text, "The largest: b.bin (50.0 MB), c.bin (25.0 MB), a.bin (20.0 MB)");
    assert_int_equal(archive_list_folder("huge", &files, NULL), ERR_TOO_LARGE);
    assert_int_equal(unlink("huge/small"), 0);
    assert_int_equal(archive_list_folder("huge", &files, &e), 0);
    json_decref(files);
    put("strange/\xff\xfe", "name");
    assert_int_equal(archive_list_folder("strange", &files, &e), ERR_INVALID);
    assert_contains(e.text, "not UTF-8");
    char deep[256] = "nest";
    for (int i = 0; i <= LIMIT_JSON_DEPTH; i++)
        strncat(deep, "/d", sizeof(deep) - strlen(deep) - 1);
    assert_int_equal(dir_make(deep, 0755, NULL), 0);
    assert_int_equal(archive_list_folder("nest", &files, &e), ERR_TOO_LARGE);
    assert_contains(e.text, "nested more than");
}

// --- looking without unpacking -------------------------------------------------------------------

static bool note(void *ctx, const struct archive_item *item)
{
    struct buf *seen = ctx;
    buf_printf(seen, "%s%s:%lld ", item->path, item->folder ? "/" : "", (long long)item->bytes);
    return true;
}

static void an_archive_is_looked_into(void **state)
{
    static const struct tar_member members[] = {{"./a/", NULL, AE_IFDIR, NULL, NULL},
                                                {"a/b.py", "12345", AE_IFREG, NULL, NULL},
                                                {"./c", "", AE_IFREG, NULL, NULL},
                                                {"d", "0123456789", AE_IFREG, NULL, NULL}};
    struct error e;
    struct buf seen;
    size_t len, file_len = 0;
    void *data = NULL;
    (void)state;
    void *tgz = tar_of(members, 4, &len);
    buf_init(&seen, 1024);
    assert_int_equal(archive_look(tgz, len, note, &seen, &e), 0);
    assert_string_equal(buf_str(&seen), "a/:0 a/b.py:5 c:0 d:10 ");
    assert_int_equal(archive_read_file(tgz, len, "a/b.py", 5, &data, &file_len, &e), 0);
    assert_int_equal(file_len, 5);
    assert_memory_equal(data, "12345", 5);
    free(data);
    assert_int_equal(archive_read_file(tgz, len, "a/b.py", 4, &data, &file_len, &e), ERR_TOO_LARGE);
    assert_int_equal(archive_read_file(tgz, len, "a", 4, &data, &file_len, &e), ERR_NOT_FOUND);
    assert_int_equal(archive_read_file(tgz, len, "", 4, &data, &file_len, &e), ERR_NOT_FOUND);
    assert_int_equal(archive_read_file("", 0, "a", 4, &data, &file_len, &e), ERR_CORRUPT);
    buf_free(&seen);
    free(tgz);
}

static void what_is_not_unpacked_is_not_looked_at(void **state)
{
    static const struct tar_member members[] = {{"a", "x", AE_IFREG, NULL, NULL},
                                                {"../evil", "x", AE_IFREG, NULL, NULL}};
    struct error e;
    struct buf seen;
    size_t len;
    (void)state;
    void *tgz = tar_of(members, 2, &len);
    buf_init(&seen, 1024);
    assert_int_equal(archive_look(tgz, len, note, &seen, &e), ERR_INVALID);
    assert_contains(e.text, "is outside its folder");
    buf_free(&seen);
    free(tgz);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_leave_the_folder),
        cmocka_unit_test(links_and_special_files),
        cmocka_unit_test(names_that_collide),
        cmocka_unit_test(more_bytes_than_the_limit),
        cmocka_unit_test(bytes_that_are_no_archive),
        cmocka_unit_test(a_place_that_is_taken),
        cmocka_unit_test(bad_lists),
        cmocka_unit_test(lists_at_their_limits),
        cmocka_unit_test(a_list_is_packed_and_unpacked),
        cmocka_unit_test(no_files_are_an_archive_too),
        cmocka_unit_test(the_order_of_a_list_does_not_matter),
        cmocka_unit_test(contents_may_lie_in_the_text),
        cmocka_unit_test(a_folder_is_packed_and_unpacked),
        cmocka_unit_test(ignored_files_are_left_out),
        cmocka_unit_test(a_list_holds_what_the_wire_wants),
        cmocka_unit_test(folders_that_cannot_be_sent),
        cmocka_unit_test(an_archive_is_looked_into),
        cmocka_unit_test(what_is_not_unpacked_is_not_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
