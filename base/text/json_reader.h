// A pull parser for JSON: reads a text front to back without building a tree, for bodies of many
// small objects. It unescapes strings in place, so it changes the text, and the text must live as
// long as the strings. Any thread.
//
// The first fault ends the parse: every later call fails, and jr_end() returns the error.
//
//     jr_init(&r, text, len, "the request body", e);
//     jr_enter(&r, '{');
//     while (jr_member(&r, &key))
//         if (!strcmp(key, "name"))
//             name = jr_string(&r, NULL);
//         else
//             jr_skip(&r);
//     return jr_end(&r);
#ifndef MUSTER_BASE_TEXT_JSON_READER_H
#define MUSTER_BASE_TEXT_JSON_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct json_reader {
    char *start, *at, *end;
    const char *source; // names the text in messages
    struct error *e;
    int err; // 0, ERR_INVALID, ERR_TOO_LARGE
    int depth;
    bool fresh;  // no member of the innermost object or list was read yet
    size_t room; // of a tree: bytes that its strings may still take
};

// text[len] must be there and 0.
void jr_init(struct json_reader *r, char *text, size_t len, const char *source, struct error *e);

// The first character of the next value: '{', '[', '"', 't', 'f', 'n', '-' or a digit, if the text
// is valid; 0 at the end. Reads nothing.
char jr_peek(struct json_reader *r);

bool jr_enter(struct json_reader *r, char bracket);  // '{' or '['; false: another value
bool jr_member(struct json_reader *r, char **key);   // next key of the object; false: its end
bool jr_element(struct json_reader *r);              // next element of the list; false: its end
char *jr_string(struct json_reader *r, size_t *len); // NULL: not a string. U+0000 becomes U+FFFD
bool jr_int(struct json_reader *r, int64_t *out);    // or a string of digits
bool jr_number(struct json_reader *r, double *out, bool *whole); // whole: no point, no exponent
void jr_skip(struct json_reader *r);                             // skips any value
bool jr_null(struct json_reader *r);                             // true: it was null, and is read

int jr_fail(struct json_reader *r, int err, const char *text); // ends the parse with an error
int jr_end(struct json_reader *r); // checks that only blanks follow; 0 or the error, with its place

// Parses the whole text as json_parse() does. ERR_INVALID: *out is NULL.
int json_parse_in_place(char *text, size_t len, const char *source, json_t **out, struct error *e);

// Parses an upload: the same, but the contents of files are not copied. A string "content" in an
// object in a list in the outermost object stays in the text, NUL-terminated, and the tree has an
// integer instead, its offset in the text. So the text must live as long as the tree. Another value
// of "content" may not be an integer. ERR_TOO_LARGE: all other strings together exceed
// LIMIT_JSON_STRINGS.
int json_parse_upload(char *text, size_t len, const char *source, json_t **out, struct error *e);

#endif
