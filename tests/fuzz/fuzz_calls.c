// Sends a sequence of calls to a whole master (master.h). A line "+60" lets 60 seconds pass, "!"
// restarts the master. At the end it is restarted in any case: the master must be able to continue
// from everything that it accepted.
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/fuzz/master.h"

enum { LINES_MAX = 24 };

// --- SQLite's memory -----------------------------------------------------------------------------

// SQLite is not the target and allocates more often than everything else, so it uses the C
// library's allocator, which AddressSanitizer does not watch. (It does in fuzz_query.)
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

enum { SIZE_BYTES = 16 }; // size before each piece

static int plain_size(void *p)
{
    int size;
    memcpy(&size, (char *)p - SIZE_BYTES, sizeof size);
    return size;
}

static void *plain_realloc(void *p, int size)
{
    char *whole = __libc_realloc(p ? (char *)p - SIZE_BYTES : NULL, (size_t)size + SIZE_BYTES);
    must(whole);
    memcpy(whole, &size, sizeof size);
    return whole + SIZE_BYTES;
}

static void *plain_malloc(int size)
{
    return plain_realloc(NULL, size);
}

static void plain_free(void *p)
{
    if (p)
        __libc_free((char *)p - SIZE_BYTES);
}

static int plain_round(int size)
{
    return (size + 7) & ~7;
}

static int plain_init(void *unused)
{
    (void)unused;
    return 0;
}

static void plain_end(void *unused)
{
    (void)unused;
}

static void use_plain_memory(void)
{
    static const sqlite3_mem_methods plain = {plain_malloc, plain_free, plain_realloc, plain_size,
                                              plain_round,  plain_init, plain_end,     NULL};
    static bool done;
    if (!done)
        must(sqlite3_config(SQLITE_CONFIG_MALLOC, &plain) == SQLITE_OK);
    done = true;
}

// --- calls ---------------------------------------------------------------------------------------

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct piece rest = {(const char *)data, size}, line;
    use_plain_memory();
    struct fuzz_master *m = master_begin();
    for (int i = 0; i < LINES_MAX && piece_next(&rest, "\n", &line); i++) {
        if (line.len && *line.text == '+') {
            char *number = piece_copy(line);
            int64_t seconds = strtol(number + 1, NULL, 10);
            free(number);
            master_wait(m, seconds > 0 && seconds < 100000 ? seconds : 1);
        } else if (line.len == 1 && *line.text == '!') {
            master_again(m);
        } else {
            json_decref(master_call(m, line).body);
        }
    }
    master_again(m);
    master_end(m);
    return 0;
}
