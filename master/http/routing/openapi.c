// Generates the OpenAPI document from the route table and the schemas, and from nothing else.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "master/http/limits/bodies.h"
#include "master/http/routing/routes.h"
#include "master/http/routing/schemas.h"

enum { DOCUMENT_MAX = 4 << 20 };

// The path without the version; a root path is unchanged.
static const char *path_of(const struct route *route)
{
    static const char version[] = "/api/v1";
    size_t len = sizeof version - 1;
    return strncmp(route->path, version, len) ? route->path : route->path + len;
}

static void lower(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; text[n] && n + 1 < size; n++)
        out[n] = (char)tolower((unsigned char)text[n]);
    out[n] = '\0';
}

// "get" + the words of the path: getTrialsTrialIdCheckpoints. Unique, because method and path are.
static void write_operation_id(struct json_writer *w, const struct route *route)
{
    char id[256];
    bool start = true;
    lower(route->method, id, sizeof id);
    size_t n = strlen(id);
    if (path_of(route) == route->path)
        n += (size_t)snprintf(id + n, sizeof id - n, "Root");
    for (const char *c = path_of(route); *c && n + 1 < sizeof id; c++) {
        if (!isalnum((unsigned char)*c)) {
            start = true;
            continue;
        }
        id[n++] = (char)(start ? toupper((unsigned char)*c) : *c);
        start = false;
    }
    id[n] = '\0';
    jw_kv_string(w, "operationId", id);
}

// The first word of the path names the kind of object.
static void write_tags(struct json_writer *w, const struct route *route)
{
    const char *tag = path_of(route) + 1;
    size_t len = strcspn(tag, "/");
    jw_key(w, "tags");
    jw_array(w);
    jw_stringn(w, len ? tag : "root", len ? len : strlen("root"));
    jw_array_end(w);
}

// `text` is "name", whose type is the one of every parameter with this name, or "name:type".
static void write_parameter(struct json_writer *w, const char *text, size_t len,
                            enum described place, const char *call)
{
    const char *colon = memchr(text, ':', len);
    struct schema_parameter p = {.name = text, .name_len = len, .place = place, .owner = call};
    if (colon)
        p.name_len = (size_t)(colon - text);
    p.type = colon ? colon + 1 : schema_of_parameter(text, p.name_len);
    p.type_len = colon ? len - p.name_len - 1 : strlen(p.type);
    jw_object(w);
    jw_key(w, "name");
    jw_stringn(w, text, p.name_len);
    jw_kv_string(w, "in", place == IN_PATH ? "path" : "query");
    jw_kv_bool(w, "required", place == IN_PATH);
    schema_write_parameter(w, &p);
    jw_object_end(w);
}

static void write_parameters(struct json_writer *w, const struct route *route, const char *call)
{
    jw_key(w, "parameters");
    jw_array(w);
    for (const char *c = strchr(route->path, '{'); c; c = strchr(c, '{')) {
        size_t len = strcspn(++c, "}");
        write_parameter(w, c, len, IN_PATH, call);
    }
    for (const char *c = route->query; c && *(c += strspn(c, " ")); c += strcspn(c, " "))
        write_parameter(w, c, strcspn(c, " "), IN_QUERY, call);
    jw_array_end(w);
}

static void write_security(struct json_writer *w, unsigned auth)
{
    static const struct {
        unsigned bit;
        const char *schemes;
    } kinds[] = {{AUTH_USER, "{\"user\":[]}"},
                 {AUTH_ADMIN, "{\"admin\":[]}"},
                 {AUTH_AGENT, "{\"agent\":[]}"},
                 {AUTH_TASK, "{\"task\":[]}"},
                 {AUTH_SCRAPER, "{\"metrics\":[]}"}};
    jw_key(w, "security");
    jw_array(w);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (auth & kinds[i].bit)
            jw_raw(w, kinds[i].schemes);
    jw_array_end(w);
}

static void write_body(struct json_writer *w, const struct route *route, const char *call)
{
    if (!route->takes)
        return;
    jw_key(w, "requestBody");
    jw_object(w);
    jw_kv_int(w, "x-muster-limit", (int64_t)body_limit_of(route)->bytes);
    jw_key(w, "content");
    jw_object(w);
    jw_key(w, "application/json");
    jw_object(w);
    jw_key(w, "schema");
    schema_write(w, route->takes, IN_BODY, call);
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

// One line of a stream: {"result": ..}, or an error and the end.
static void write_line(struct json_writer *w, const char *answers, const char *call)
{
    jw_object(w);
    jw_key(w, "oneOf");
    jw_array(w);
    jw_object(w);
    jw_kv_string(w, "type", "object");
    jw_key(w, "properties");
    jw_object(w);
    jw_key(w, "result");
    schema_write(w, answers, IN_ANSWER, call);
    jw_object_end(w);
    jw_kv_raw(w, "required", "[\"result\"]");
    jw_object_end(w);
    schema_write(w, "error:StreamError", IN_ANSWER, call);
    jw_array_end(w);
    jw_object_end(w);
}

static void write_answer(struct json_writer *w, const struct route *route, const char *call)
{
    static const char nothing[] = "{\"type\":\"object\",\"properties\":{}}";
    bool lines = route->kind == ROUTE_STREAM && !route->content;
    jw_object(w);
    jw_kv_string(w, "description", lines ? "One JSON object a line" : "Done");
    jw_key(w, "content");
    jw_object(w);
    jw_key(w, route->content ? route->content : "application/json");
    jw_object(w);
    jw_key(w, "schema");
    if (lines)
        write_line(w, route->answers, call);
    else if (route->answers || route->content)
        schema_write(w, route->answers ? route->answers : "string", IN_ANSWER, call);
    else
        jw_raw(w, nothing);
    if (lines)
        jw_kv_string(w, "x-muster-stream", "lines");
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

static void write_operation(struct json_writer *w, const struct route *route)
{
    char method[16], call[256];
    lower(route->method, method, sizeof method);
    snprintf(call, sizeof call, "%s %s", route->method, route->path);
    jw_key(w, method);
    jw_object(w);
    write_operation_id(w, route);
    jw_kv_string(w, "summary", route->summary);
    write_tags(w, route);
    if (route->ours)
        jw_kv_string(w, "x-muster", "ours");
    write_parameters(w, route, call);
    write_body(w, route, call);
    write_security(w, route->auth);
    jw_key(w, "responses");
    jw_object(w);
    jw_key(w, "200");
    write_answer(w, route, call);
    jw_kv_raw(w, "default", "{\"$ref\":\"#/components/responses/Error\"}");
    jw_object_end(w);
    jw_object_end(w);
}

// All methods of a path, at its first place in the table.
static void write_path(struct json_writer *w, const struct route *table, size_t count, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (!strcmp(table[i].path, table[at].path))
            return;
    jw_key(w, table[at].path);
    jw_object(w);
    for (size_t i = at; i < count; i++)
        if (!strcmp(table[i].path, table[at].path))
            write_operation(w, &table[i]);
    jw_object_end(w);
}

static const char security_schemes[] =
    "{\"user\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":"
    "\"The token of POST /api/v1/auth/login; without this header also in the cookie that "
    "cookie=true asks for\"},"
    "\"admin\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":"
    "\"The token of a user who is an administrator\"},"
    "\"agent\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":"
    "\"The credential of an agent, or the token in agent.token of the master's data folder\"},"
    "\"task\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"Grpc-Metadata-x-allocation-token\","
    "\"description\":\"Bearer and the DET_SESSION_TOKEN of an allocation\"},"
    "\"metrics\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":"
    "\"The token in metrics.token of the master's data folder; by default callers on the master's "
    "machine need none (--metrics)\"}}";

static const char error_response[] =
    "{\"Error\":{\"description\":\"The fault, its place and the remedy\","
    "\"content\":{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/Error\"}}}}}";

static const char description[] =
    "Determined AI's REST API v1 as the muster-master speaks it; `x-muster: ours` marks what is "
    "Muster's own. Bodies are JSON whatever their Content-Type says. A null stands for an absent "
    "field, and keys may be written in camelCase or snake_case. 64-bit numbers are strings of "
    "digits; NaN and the infinities are the words NaN, Infinity and -Infinity. Tasks and agents "
    "may repeat a report: the second one changes nothing. 429 and 503 say with "
    "Retry-After when to ask again. The keyword `default`, or the words `Default:` in a "
    "description, say what counts where a request leaves a field out; `x-muster-limit` is the "
    "greatest length of a body, in bytes.";

char *routes_openapi(const struct route *table, size_t count)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, DOCUMENT_MAX);
    jw_init(&w, &out);
    jw_object(&w);
    jw_kv_string(&w, "openapi", "3.1.0");
    jw_key(&w, "info");
    jw_object(&w);
    jw_kv_string(&w, "title", "Muster");
    jw_kv_string(&w, "version", MUSTER_VERSION);
    jw_kv_string(&w, "description", description);
    jw_object_end(&w);
    jw_key(&w, "paths");
    jw_object(&w);
    for (size_t i = 0; i < count; i++)
        write_path(&w, table, count, i);
    jw_object_end(&w);
    jw_key(&w, "components");
    jw_object(&w);
    jw_kv_raw(&w, "securitySchemes", security_schemes);
    jw_kv_raw(&w, "responses", error_response);
    jw_key(&w, "schemas");
    jw_object(&w);
    schema_write_all(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    must(!out.err);
    return buf_take(&out);
}
