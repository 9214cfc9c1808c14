// Helpers shared by the fuzz programs. One thread; memory belongs to the caller.
//
// A program reads its input as text where possible, so that the corpus can be read and written by
// hand: lines of "%%" separate sections. must() asserts the invariants.
#ifndef TESTS_FUZZ_SUPPORT_H
#define TESTS_FUZZ_SUPPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

struct piece {
    const char *text; // not terminated
    size_t len;
};

// The next section of *rest, which is shortened by it; false: there is none.
bool piece_next(struct piece *rest, const char *separator, struct piece *out);
char *piece_copy(
    struct piece p); // heap string of exactly that size, so that reading past the end is detected

// An empty folder of this process, in memory if possible; removed at the end. Static.
const char *scratch_folder(void);
char *scratch_path(const char *name); // heap string
void scratch_write(const char *name, const void *data, size_t len);

void be_quiet(void); // the log is only for replaying one input

bool json_equal_as_text(const json_t *a, const json_t *b);

#endif
