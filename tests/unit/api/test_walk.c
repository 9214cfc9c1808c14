// A walk over a folder that another process changes meanwhile never leads out of the folder.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/archive/archive.h"
#include "api/checkpoint/checkpoint.h"
#include "api/walk.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/os/file.h"

enum { ROUNDS = 1000 };
static const char secret[] = "SECRET-OF-THE-MASTER";

static void write_text(const char *path, const char *text)
{
    struct error e;
    if (file_write_durable(path, text, strlen(text), 0644, &e) != 0)
        fail_msg("%s", e.text);
}

static void make_dir(const char *path)
{
    assert_int_equal(dir_make(path, 0755, NULL), 0);
}

static int open_dir(const char *path)
{
    int fd = -1;
    assert_int_equal(dir_open(path, &fd, NULL), 0);
    return fd;
}

static int note(void *ctx, const struct walk_entry *entry, struct error *e)
{
    (void)e;
    buf_printf(ctx, "%s%s ", entry->relative, entry->is_folder ? "/" : "");
    return strcmp(entry->relative, "skipped") ? 0 : WALK_SKIP;
}

static void expect_walk(int fd, const char *names)
{
    struct buf seen;
    struct error e = {0};
    buf_init(&seen, 4096);
    assert_int_equal(walk_foreign(fd, "f", note, &seen, &e), 0);
    assert_string_equal(buf_str(&seen), names);
    buf_free(&seen);
}

static void only_files_and_folders_are_visited_in_order(void **state)
{
    (void)state;
    make_dir("plain/b/deep");
    make_dir("plain/skipped/inner");
    write_text("plain/b/deep/x", "1");
    write_text("plain/a", "1");
    write_text("plain/c", "1");
    assert_int_equal(symlink("/etc", "plain/link"), 0);
    assert_int_equal(symlink("a", "plain/near"), 0);
    assert_int_equal(mkfifo("plain/pipe", 0644), 0);
    int fd = open_dir("plain");
    expect_walk(fd, "a b/ b/deep/ b/deep/x c skipped/ ");
    close(fd);
}

static int note_other(void *ctx, const struct walk_entry *entry, struct error *e)
{
    (void)e;
    if (!entry->is_folder)
        buf_printf(ctx, "%s%s ", entry->relative, entry->is_link ? "@" : "|");
    return 0;
}

static void others_are_links_and_special_files(void **state)
{
    (void)state;
    struct buf seen;
    make_dir("others/b");
    write_text("others/a", "1");
    assert_int_equal(symlink("a", "others/b/link"), 0);
    assert_int_equal(mkfifo("others/pipe", 0644), 0);
    buf_init(&seen, 4096);
    assert_int_equal(walk_others("others", note_other, &seen, NULL), 0);
    assert_string_equal(buf_str(&seen), "b/link@ pipe| ");
    buf_free(&seen);
}

static int open_it(void *ctx, const struct walk_entry *entry, struct error *e)
{
    int fd = -1, rc;
    if (entry->is_folder)
        return 0;
    ((void (*)(const char *))ctx)(
        entry->path); // an attacker acts between the check and the opening
    rc = walk_open(entry, &fd, e);
    if (fd >= 0)
        close(fd);
    return rc;
}

static void to_link(const char *path)
{
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("../secrets/key", path), 0);
}

static void to_pipe(const char *path)
{
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
}

static void to_other(const char *path)
{
    assert_int_equal(rename("other", path), 0);
}

static void a_file_that_is_replaced_is_not_opened(void **state)
{
    (void)state;
    void (*const replacements[])(const char *) = {to_link, to_pipe, to_other};
    make_dir("one");
    make_dir("secrets");
    write_text("secrets/key", secret);
    int fd = open_dir("one");
    for (size_t i = 0; i < 3; i++) {
        struct error e = {0};
        unlink("one/file");
        write_text("one/file", "1");
        write_text("other", "1");
        assert_int_equal(walk_foreign(fd, "one", open_it, (void *)replacements[i], &e), ERR_IO);
        assert_non_null(strstr(e.text, "one/file was replaced while it was read"));
    }
    close(fd);
}

// Where links to files of others are allowed, hard links are as dangerous as symbolic ones.
static void a_second_name_of_a_foreign_file_is_left_out(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    make_dir("names");
    write_text("foreign", secret);
    write_text("names/own", "1");
    assert_int_equal(chown("foreign", 12345, 12345), 0);
    assert_int_equal(link("foreign", "names/stolen"), 0);
    assert_int_equal(link("names/own", "names/twice"), 0);
    int fd = open_dir("names");
    expect_walk(fd, "own twice ");
    close(fd);
}

static void depth_and_count_have_limits(void **state)
{
    (void)state;
    struct buf path, seen;
    struct error e = {0};
    buf_init(&path, 4096);
    buf_init(&seen, 64 * 1024);
    buf_puts(&path, "deep");
    for (int i = 0; i < LIMIT_JSON_DEPTH; i++)
        buf_puts(&path, "/d");
    make_dir(buf_str(&path));
    int fd = open_dir("deep");
    assert_int_equal(walk_foreign(fd, "deep", note, &seen, &e), 0);
    buf_puts(&path, "/d");
    make_dir(buf_str(&path));
    assert_int_equal(walk_foreign(fd, "deep", note, &seen, &e), ERR_TOO_LARGE);
    close(fd);
    buf_free(&path);
    buf_free(&seen);
}

static int enter_it(void *ctx, const struct walk_entry *entry, struct error *e)
{
    (void)e;
    buf_printf(ctx, "%s ", entry->relative);
    if (entry->is_folder && !rename(entry->path, "moved-away"))
        assert_int_equal(symlink("../secrets", entry->path), 0);
    return 0;
}

static void a_folder_that_is_replaced_is_not_entered(void **state)
{
    (void)state;
    struct error e = {0};
    struct buf seen;
    buf_init(&seen, 4096);
    make_dir("two/sub");
    make_dir("secrets");
    write_text("secrets/key", secret);
    int fd = open_dir("two");
    assert_int_equal(walk_foreign(fd, "two", enter_it, &seen, &e), ERR_IO);
    assert_non_null(strstr(e.text, "two/sub was replaced while it was read"));
    assert_string_equal(buf_str(&seen), "sub ");
    close(fd);
    buf_free(&seen);
}

// --- an attacker who swaps names as fast as possible ---------------------------------------------

// The vault holds files that the walk must neither show nor remove. The attacker swaps many names
// in turn, to hit many windows; the swapped names never are in the vault, to which the attacker has
// no rights.
enum { NAMES = 24 };

struct attack {
    const char *folder; // folder whose names are swapped
    atomic_bool over;
    atomic_long swaps;
    pthread_t thread;
};

static void swap_one(struct attack *a, int i)
{
    char name[64], link[64];
    snprintf(name, sizeof name, "%s/%02d", a->folder, i);
    snprintf(link, sizeof link, "aside-%s-%02d", a->folder, i);
    if (i % 2) {
        mkdir(name, 0755);
        (void)!symlink("../vault", link);
    } else {
        int fd = open(name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd >= 0)
            close(fd);
        (void)!symlink("../vault/key", link);
    }
    if (!renameat2(AT_FDCWD, name, AT_FDCWD, link, RENAME_EXCHANGE))
        atomic_fetch_add(&a->swaps, 1);
}

static void *swap_on(void *arg)
{
    struct attack *a = arg;
    while (!atomic_load(&a->over)) {
        mkdir(a->folder, 0755);
        for (int i = 0; i < NAMES; i++)
            swap_one(a, i);
    }
    return NULL;
}

static void attack_begin(struct attack *a, const char *folder)
{
    *a = (struct attack){.folder = folder};
    make_dir("vault/inner");
    write_text("vault/key", secret);
    write_text("vault/inner/key", secret);
    assert_int_equal(pthread_create(&a->thread, NULL, swap_on, a), 0);
    while (atomic_load(&a->swaps) < NAMES)
        ;
}

static void attack_end(struct attack *a)
{
    atomic_store(&a->over, true);
    pthread_join(a->thread, NULL);
    print_message("%ld swaps\n", atomic_load(&a->swaps));
}

static bool holds_secret(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    if (!st.st_size)
        return false;
    char *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(data, MAP_FAILED);
    bool found = memmem(data, (size_t)st.st_size, secret, strlen(secret));
    munmap(data, (size_t)st.st_size);
    return found;
}

static int write_to(void *ctx, const void *data, size_t len)
{
    return file_write_all(*(const int *)ctx, data, len);
}

static void a_thousand_downloads_under_attack(void **state)
{
    (void)state;
    struct attack a;
    int out = memfd_create("archive", MFD_CLOEXEC);
    assert_true(out >= 0);
    attack_begin(&a, "read");
    int dir = open_dir("read");
    for (int i = 0; i < ROUNDS; i++) {
        struct error e;
        assert_int_equal(ftruncate(out, 0), 0);
        assert_int_equal(lseek(out, 0, SEEK_SET), 0);
        archive_pack_foreign(dir, "read", ARCHIVE_TAR, write_to, &out,
                             &e); // fails where it meets a swap
        if (holds_secret(out))
            fail_msg("round %d: the archive contains what a link led to", i);
    }
    attack_end(&a);
    close(dir);
    close(out);
}

static void a_thousand_deletions_under_attack(void **state)
{
    (void)state;
    struct attack a;
    attack_begin(&a, "removed");
    for (int i = 0; i < ROUNDS; i++) {
        struct error e;
        dir_remove_tree_at(AT_FDCWD, "removed", &e); // fails where it meets a swap
        if (!path_exists("vault/inner/key") || !path_exists("vault/key"))
            fail_msg("round %d: what a link led to was removed", i);
    }
    attack_end(&a);
}

static void a_checkpoint_of_links_is_not_read(void **state)
{
    (void)state;
    struct error e = {0};
    struct checkpoint *ck;
    make_dir("linked");
    make_dir("piped");
    assert_int_equal(symlink("/etc/passwd", "linked/manifest.json"), 0);
    assert_int_equal(mkfifo("piped/manifest.json", 0644), 0);
    assert_int_equal(checkpoint_open("linked", &ck, &e), ERR_CORRUPT);
    assert_int_equal(checkpoint_open("piped", &ck, &e), ERR_CORRUPT); // it must not wait
    assert_non_null(strstr(e.text, "piped/manifest.json: it is not a regular file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_files_and_folders_are_visited_in_order),
        cmocka_unit_test(others_are_links_and_special_files),
        cmocka_unit_test(a_file_that_is_replaced_is_not_opened),
        cmocka_unit_test(a_folder_that_is_replaced_is_not_entered),
        cmocka_unit_test(a_second_name_of_a_foreign_file_is_left_out),
        cmocka_unit_test(depth_and_count_have_limits),
        cmocka_unit_test(a_thousand_downloads_under_attack),
        cmocka_unit_test(a_thousand_deletions_under_attack),
        cmocka_unit_test(a_checkpoint_of_links_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
