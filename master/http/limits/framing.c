#include "master/http/limits/framing.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct framing {
    int hosts, lengths; // Content-Length and Transfer-Encoding: each determines the end of the body
    bool unclear;
};

// A blank before the colon hides a header from some readers, and so does a line break within a
// value.
static bool is_plain(const char *name, size_t name_len, const char *value, size_t value_len)
{
    return strcspn(name, " \t:") == name_len && (!value || strcspn(value, "\r\n") == value_len);
}

// libmicrohttpd appends a folded line to the name: "Content-Length5".
static bool is_named(struct framing *f, const char *name, size_t name_len, const char *header)
{
    size_t len = strlen(header);
    bool named = !strncasecmp(name, header, len);
    f->unclear |= named && name_len > len;
    return named;
}

static enum MHD_Result look_at(void *ctx, enum MHD_ValueKind kind, const char *name,
                               size_t name_len, const char *value, size_t value_len)
{
    struct framing *f = ctx;
    bool coding = is_named(f, name, name_len, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    (void)kind;
    f->hosts += !strcasecmp(name, MHD_HTTP_HEADER_HOST);
    f->lengths += coding || is_named(f, name, name_len, MHD_HTTP_HEADER_CONTENT_LENGTH);
    f->unclear |= !is_plain(name, name_len, value, value_len) ||
                  (coding && (!value || strcasecmp(value, "chunked")));
    return MHD_YES;
}

int framing_check(struct MHD_Connection *connection, struct error *e)
{
    struct framing f = {0};
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look_at, &f);
    if (!f.unclear && f.hosts <= 1 && f.lengths <= 1)
        return 0;
    return error_set(e, ERR_INVALID,
                     "the headers of this request can be read in more than one way: send one "
                     "Host, and one of Content-Length and Transfer-Encoding: chunked");
}
