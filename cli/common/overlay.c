#include "cli/common/overlay.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"
#include "base/text/yaml.h"

// Returns the position of the value of `path` in `text`; NULL: it has no value.
static const char *find_value(const char *text, const struct yaml_doc *doc, const char *path)
{
    char where[512];
    const char *column = strrchr(yaml_where(doc, path, where, sizeof(where)), ':');
    if (!column || column == where || !jget_path(doc->root, path))
        return NULL;
    long at = strtol(column + 1, NULL, 10), line;
    where[column - where] = '\0';
    const char *number = strrchr(where, ':');
    line = number ? strtol(number + 1, NULL, 10) : 0;
    for (; line > 1 && text; line--) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return line == 1 && at > 0 && text && strlen(text) >= (size_t)at ? text + at - 1 : NULL;
}

// Returns the end of a scalar on its line: after the closing quote, or before a comment, or before
// the comma or bracket that ends a value inside brackets.
static const char *scalar_end(const char *text, const char *value)
{
    const char *line = value, *end = value;
    while (line > text && line[-1] != '\n')
        line--;
    if (*value == '"' || *value == '\'') {
        const char *quote = strchr(value + 1, *value);
        return quote ? quote + 1 : value;
    }
    bool flow = strcspn(line, "[{") < (size_t)(value - line);
    end += strcspn(value, flow ? ",]}\n" : "\n");
    const char *comment = strstr(value, " #");
    end = comment && comment < end ? comment : end;
    while (end > value && (end[-1] == ' ' || end[-1] == '\r'))
        end--;
    return end;
}

char *overlay_value(const json_t *value, size_t flags)
{
    enum { DIGITS_MIN = 15, DIGITS_MAX = 17 };
    for (size_t digits = DIGITS_MIN;; digits++) {
        char *text = json_dumps(value, flags | JSON_REAL_PRECISION(digits));
        must(text != NULL);
        json_t *read = json_loads(text, JSON_DECODE_ANY, NULL);
        bool same = json_equal(read, value);
        json_decref(read);
        if (same || digits == DIGITS_MAX)
            return text;
        free(text);
    }
}

static char *replace_value(const char *text, const struct yaml_doc *doc, const char *path,
                           const json_t *value)
{
    char *shown = overlay_value(value, JSON_ENCODE_ANY), *out = NULL;
    const char *old = find_value(text, doc, path);
    size_t len = strlen(text);
    if (old && !json_is_object(jget_path(doc->root, path)) &&
        !json_is_array(jget_path(doc->root, path))) {
        out = xasprintf("%.*s%s%s", (int)(old - text), text, shown, scalar_end(text, old));
    } else if (!old && !strchr(path, '.')) {
        out = xasprintf("%s%s%s: %s\n", text, len > 0 && text[len - 1] == '\n' ? "" : "\n", path,
                        shown);
    }
    free(shown);
    return out;
}

static bool text_means(const char *text, const json_t *wanted)
{
    struct yaml_doc doc = {0};
    bool same = yaml_parse(text, strlen(text), "", &doc, NULL) == 0 && json_equal(doc.root, wanted);
    yaml_doc_free(&doc);
    return same;
}

char *overlay_text(const char *text, const char *const *paths, size_t count, const json_t *wanted)
{
    char *out = xstrdup(text);
    for (size_t i = 0; i < count && out; i++) {
        struct yaml_doc doc = {0};
        const json_t *value = jget_path(wanted, paths[i]);
        char *next = NULL;
        if (value && yaml_parse(out, strlen(out), "", &doc, NULL) == 0)
            next = replace_value(out, &doc, paths[i], value);
        yaml_doc_free(&doc);
        free(out);
        out = next;
    }
    if (out && !text_means(out, wanted)) {
        free(out);
        out = NULL;
    }
    return out;
}
