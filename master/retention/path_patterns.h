// Patterns of file paths for POST /checkpoints/rm: * ? [a-z] [!a-z] within one name, ** for any
// number of folders. Pure. The time is at most the product of both lengths, since the patterns are
// not trusted.
#ifndef MUSTER_MASTER_RETENTION_PATH_PATTERNS_H
#define MUSTER_MASTER_RETENTION_PATH_PATTERNS_H

#include <stdbool.h>

#include "base/error.h"

enum { PATH_PATTERN_MAX = 1024 }; // bytes

bool path_pattern_match(const char *pattern, const char *path); // matches a whole relative path

// ERR_INVALID: empty, too long, absolute, or with ".."; `where` names the field.
int path_pattern_check(const char *pattern, const char *where, struct error *e);

#endif
