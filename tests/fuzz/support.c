#include "tests/fuzz/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

// Stores allocate often: short stacks and a small quarantine make AddressSanitizer twice as fast.
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "malloc_context_size=3:quarantine_size_mb=16:allow_addr2line=1";
}

static char folder[64];

static bool replays; // replaying one input for a reader

void be_quiet(void)
{
    log_set_level(replays ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
}

static void remove_scratch(void)
{
    dir_remove_tree(folder, NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argv;
    replays = *argc == 2;
    be_quiet();
    return 0;
}

bool piece_next(struct piece *rest, const char *separator, struct piece *out)
{
    size_t len = strlen(separator);
    if (!rest->text)
        return false;
    const char *end = rest->len ? memmem(rest->text, rest->len, separator, len) : NULL;
    *out = *rest;
    if (!end) {
        rest->text = NULL;
        return true;
    }
    out->len = (size_t)(end - rest->text);
    rest->text = end + len;
    rest->len -= out->len + len;
    return true;
}

char *piece_copy(struct piece p)
{
    char *copy = xcalloc(1, p.len + 1);
    if (p.len)
        memcpy(copy, p.text, p.len);
    return copy;
}

const char *scratch_folder(void)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/muster-fuzz.XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        must(mkdtemp(folder));
        atexit(remove_scratch);
    }
    return folder;
}

char *scratch_path(const char *name)
{
    return path_join(scratch_folder(), name);
}

void scratch_write(const char *name, const void *data, size_t len)
{
    char *path = scratch_path(name);
    FILE *f = fopen(path, "we");
    must(f && fwrite(data, 1, len, f) == len);
    must(!fclose(f));
    free(path);
}

bool json_equal_as_text(const json_t *a, const json_t *b)
{
    char *one = json_text(a), *other = json_text(b);
    bool equal = !strcmp(one, other);
    free(one);
    free(other);
    return equal;
}
