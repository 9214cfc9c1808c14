#include "base/os/library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/log.h"

void *library_load(const char *file, const char *name)
{
    void *handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (!handle) {
        log_error("a library cannot be loaded; install it again", "library=%s err=\"%s\"", name,
                  dlerror());
        abort();
    }
    return handle;
}
