// Patterns of file paths, as POST /checkpoints/rm takes them: * ? [a-z] [!a-z] within one name, **
// for any number of folders. Pure; the time is at most the product of both lengths, since the
// patterns come from outside.
#ifndef MUSTER_MASTER_RETENTION_PATH_PATTERNS_H
#define MUSTER_MASTER_RETENTION_PATH_PATTERNS_H

#include <stdbool.h>

#include "base/error.h"

enum { GLOB_MAX = 1024 }; // bytes

bool glob_match(const char *pattern, const char *path); // the whole of a relative path

// ERR_INVALID: empty, too long, "..", or from the root; `where` names it.
int glob_check(const char *pattern, const char *where, struct error *e);

#endif
