// Arena: memory that lives as long as one request or one scheduling pass and is freed in one call.
// One thread at a time may use an arena.
//
// An allocation that fails aborts the process through must(). Every input has a limit, so such a
// failure means that the machine has run out of memory; no caller could handle it.
#ifndef MUSTER_BASE_ARENA_H
#define MUSTER_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct arena {
    struct arena_block *head;
    size_t used; // bytes handed out
};

void *arena_alloc(struct arena *a, size_t size);    // zeroed, 16-byte aligned
char *arena_strdup(struct arena *a, const char *s); // NULL -> NULL
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_reset(struct arena *a); // frees all but one block
void arena_free(struct arena *a);  // frees all; the arena is usable again

// Heap memory. These functions abort when there is none. Free with free().
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s); // NULL -> NULL
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// A large block of numbers: zeroed, 64-byte aligned, in huge pages if the system has them (with
// 4 KiB pages, matrix products take 2 to 3 % longer). NULL when there is no memory. Free with
// free().
void *block_alloc(size_t bytes);

#endif
