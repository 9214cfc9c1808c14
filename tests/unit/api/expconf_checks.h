// Checks of experiment files, for the tests of their keys.
#ifndef TESTS_UNIT_API_EXPCONF_CHECKS_H
#define TESTS_UNIT_API_EXPCONF_CHECKS_H

#include <jansson.h>

// A trainer section that trains 2000 steps.
#define GPT                                                                                        \
    "trainer:\n"                                                                                   \
    "  model: {family: gpt, layers: 4, heads: 4, width: 128, context: 64}\n"                       \
    "  data: {format: bytes, path: corpus.txt}\n"                                                  \
    "  global_batch_size: 12\n"                                                                    \
    "  micro_batch_size: 3\n"                                                                      \
    "  steps: 2000\n"                                                                              \
    "  optimizer: {name: adamw, learning_rate: 1e-3}\n"

void assert_contains(const char *text, const char *part);
// Fails unless the file is refused with a message that has this part.
void refused(const char *yaml, const char *expected);
json_t *accepted(const char *yaml); // the configuration; the caller frees it

#endif
