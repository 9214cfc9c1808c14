#include "cli/common/media_download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"

int media_download(struct cli *c, long long trial, const char *digest, const char *path,
                   struct error *e)
{
    char *part = xasprintf("%s.part", path);
    char *from = xasprintf("/api/v1/trials/%lld/media/%s", trial, digest);
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int err = fd < 0 ? error_set_errno(e, ERR_IO, errno, "%s", part)
                     : client_download(c->client, from, NULL, fd, e);
    if (fd >= 0 && close(fd) && !err)
        err = error_set_errno(e, ERR_IO, errno, "%s", part);
    if (!err && rename(part, path))
        err = error_set_errno(e, ERR_IO, errno, "%s", path);
    if (err && fd >= 0)
        unlink(part);
    free(from);
    free(part);
    return err;
}
