#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"

enum { ALIGNMENT = 16, BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20 };
enum { CACHE_LINE = 64, HUGE_PAGE = 2 << 20 };

struct arena_block {
    struct arena_block *next; // older
    size_t size, used;
    _Alignas(ALIGNMENT) unsigned char data[];
};

// Blocks double in size, so that n bytes cost O(log n) calls of malloc; `size` is a multiple of
// ALIGNMENT.
static void add_block(struct arena *a, size_t size)
{
    size_t wanted = a->head ? a->head->size * 2 : BLOCK_MIN;
    if (wanted > BLOCK_MAX)
        wanted = BLOCK_MAX;
    if (wanted < size)
        wanted = size;
    struct arena_block *block = xrealloc(NULL, sizeof *block + wanted);
    block->next = a->head;
    block->size = wanted;
    block->used = 0;
    a->head = block;
}

void *arena_alloc(struct arena *a, size_t size)
{
    must(size <= SIZE_MAX / 2);
    size_t rounded = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (!a->head || a->head->size - a->head->used < rounded)
        add_block(a, rounded);
    void *p = a->head->data + a->head->used;
    a->head->used += rounded;
    a->used += size;
    return memset(p, 0, size);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = arena_alloc(a, len + 1);
    memcpy(copy, s, len);
    return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    must(len >= 0);
    char *text = arena_alloc(a, (size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}

// Frees `block` and all older blocks.
static void free_blocks(struct arena_block *block)
{
    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
}

void arena_reset(struct arena *a)
{
    a->used = 0;
    if (!a->head)
        return;
    free_blocks(a->head->next);
    a->head->next = NULL;
    a->head->used = 0;
}

void arena_free(struct arena *a)
{
    free_blocks(a->head);
    *a = (struct arena){0};
}

void *xcalloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    must(p);
    return p;
}

void *xrealloc(void *p, size_t size)
{
    p = realloc(p, size ? size : 1);
    must(p);
    return p;
}

void *block_alloc(size_t bytes)
{
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    if (bytes > SIZE_MAX - align)
        return NULL;
    size_t size = bytes ? (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE : CACHE_LINE;
    void *p;
    if (posix_memalign(&p, align, size)) // the size need not be a multiple of `align`
        return NULL;
    if (align == HUGE_PAGE)
        madvise(p, size, MADV_HUGEPAGE); // failure only costs time
    return memset(p, 0, size);
}

char *xstrdup(const char *s)
{
    if (!s)
        return NULL;
    char *copy = strdup(s);
    must(copy);
    return copy;
}

char *xasprintf(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    must(len >= 0);
    return text;
}
