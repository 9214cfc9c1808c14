// The OpenAPI document, made from the route table. What the table does not say is not in it.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "master/http/routes.h"

enum { DOCUMENT_MAX = 1 << 20 };

// "get" + the words of the path: getTrialsTrialIdCheckpoints. Unique, as method and path are.
static void write_operation_id(struct json_writer *w, const struct route *route)
{
    char id[256];
    size_t n = 0;
    for (const char *c = route->method; *c && n + 1 < sizeof id; c++)
        id[n++] = (char)tolower((unsigned char)*c);
    bool start = true;
    const char *path = route->path;
    if (!strncmp(path, "/api/v1", 7))
        path += 7;
    else
        n += (size_t)snprintf(id + n, sizeof id - n, "Root");
    for (const char *c = path; *c && n + 1 < sizeof id; c++) {
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

static void write_parameter(struct json_writer *w, const char *name, size_t len, const char *in)
{
    jw_object(w);
    jw_key(w, "name");
    jw_stringn(w, name, len);
    jw_kv_string(w, "in", in);
    jw_kv_bool(w, "required", !strcmp(in, "path"));
    jw_kv_raw(w, "schema", "{\"type\":\"string\"}");
    jw_object_end(w);
}

static void write_parameters(struct json_writer *w, const struct route *route)
{
    jw_key(w, "parameters");
    jw_array(w);
    for (const char *c = strchr(route->path, '{'); c; c = strchr(c, '{')) {
        size_t len = strcspn(++c, "}");
        write_parameter(w, c, len, "path");
    }
    for (const char *c = route->query; c && *(c += strspn(c, " "));) {
        size_t len = strcspn(c, " ");
        write_parameter(w, c, len, "query");
        c += len;
    }
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
                 {AUTH_TASK, "{\"task\":[]}"}};
    jw_key(w, "security");
    jw_array(w);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (auth & kinds[i].bit)
            jw_raw(w, kinds[i].schemes);
    jw_array_end(w);
}

static void write_operation(struct json_writer *w, const struct route *route)
{
    char method[16];
    size_t n = 0;
    for (; route->method[n] && n + 1 < sizeof method; n++)
        method[n] = (char)tolower((unsigned char)route->method[n]);
    method[n] = '\0';
    jw_key(w, method);
    jw_object(w);
    write_operation_id(w, route);
    jw_kv_string(w, "summary", route->summary);
    if (route->ours)
        jw_kv_bool(w, "x-muster-extension", true);
    write_parameters(w, route);
    if (route->body != BODY_NONE)
        jw_kv_raw(w, "requestBody",
                  "{\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\"}}}}");
    write_security(w, route->auth);
    jw_kv_raw(
        w, "responses",
        route->kind == ROUTE_STREAM
            ? "{\"200\":{\"description\":\"A stream; of JSON, one {\\\"result\\\":{}} a line\"},"
              "\"default\":{\"$ref\":\"#/components/responses/Error\"}}"
            : "{\"200\":{\"description\":\"Done\"},"
              "\"default\":{\"$ref\":\"#/components/responses/Error\"}}");
    jw_object_end(w);
}

// Every method of one path, at its first place in the table.
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

static const char components[] =
    "{\"securitySchemes\":{"
    "\"user\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":"
    "\"The token of POST /api/v1/auth/login\"},"
    "\"admin\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":"
    "\"The token of a user who is an administrator\"},"
    "\"agent\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":"
    "\"The token in agent.token of the master's data folder\"},"
    "\"task\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"Grpc-Metadata-x-allocation-token\","
    "\"description\":\"Bearer and the DET_SESSION_TOKEN of an allocation\"}},"
    "\"responses\":{\"Error\":{\"description\":\"What was wrong, where, and what to do\","
    "\"content\":{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/Error\"}}}}},"
    "\"schemas\":{\"Error\":{\"type\":\"object\",\"properties\":{"
    "\"error\":{\"type\":\"object\",\"properties\":{\"code\":{\"type\":\"integer\"},"
    "\"reason\":{\"type\":\"string\"},\"error\":{\"type\":\"string\"}}},"
    "\"message\":{\"type\":\"string\"}}}}}";

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
    jw_kv_string(&w, "description",
                 "Determined AI's REST API v1 as the muster-master speaks it. Calls with "
                 "x-muster-extension are Muster's own.");
    jw_object_end(&w);
    jw_key(&w, "paths");
    jw_object(&w);
    for (size_t i = 0; i < count; i++)
        write_path(&w, table, count, i);
    jw_object_end(&w);
    jw_kv_raw(&w, "components", components);
    jw_object_end(&w);
    must(!out.err);
    return buf_take(&out);
}
