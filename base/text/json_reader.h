// JSON read front to back, without a tree of it: for bodies of very many small objects. Strings are
// unescaped where they stand, so the text is changed, and must live as long as they do. Any thread.
//
// The first thing that is not as it should be ends the scan: every call after it finds nothing, and
// jr_end() tells what it was.
//
//     jr_init(&s, text, len, "the request body", e);
//     jr_enter(&s, '{');
//     while (jr_member(&s, &key))
//         if (!strcmp(key, "name"))
//             name = jr_string(&s, NULL);
//         else
//             jr_skip(&s);
//     return jr_end(&s);
#ifndef MUSTER_BASE_TEXT_JSON_READER_H
#define MUSTER_BASE_TEXT_JSON_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct json_reader {
    char *start, *at, *end;
    const char *what; // names the text in errors
    struct error *e;
    int err; // 0, ERR_INVALID, ERR_TOO_LARGE
    int depth;
    bool fresh;  // nothing was read yet of the object or list that is open
    size_t room; // of a tree: bytes that its strings may still take
};

// text[len] must be there and 0.
void jr_init(struct json_reader *s, char *text, size_t len, const char *what, struct error *e);

// The first letter of the value that comes next ('{', '[', '"', 't', 'f', 'n', '-', a digit), or
// whatever else stands there; 0 at the end. Nothing is read.
char jr_peek(struct json_reader *s);

bool jr_enter(struct json_reader *s, char bracket); // '{' or '['; false: another value, or an error
bool jr_member(struct json_reader *s, char **key);  // the next of the object; false: it has ended
bool jr_element(struct json_reader *s);             // the next of the list; false: it has ended
char *jr_string(struct json_reader *s, size_t *len); // NULL: not a string. U+0000 becomes U+FFFD
bool jr_int(struct json_reader *s, int64_t *out);    // also as a string of digits
bool jr_number(struct json_reader *s, double *out,
               bool *whole);         // whole: without a point or exponent
void jr_skip(struct json_reader *s); // any value
bool jr_null(struct json_reader *s); // reads a null, and nothing else

// The whole text as a tree, as json_parse() makes it. ERR_INVALID; *out is NULL then.
int json_parse_in_place(char *text, size_t len, const char *what, json_t **out, struct error *e);

// The same of an object with lists of files, whose contents are not copied: a string "content" in
// an object in a list in the outermost object stays in the text, with a NUL behind it, and the tree
// has the integer offset at which it begins. So the text lives as long as the tree. No other value
// of such a key may be an integer. ERR_TOO_LARGE: all other strings have more than
// LIMIT_JSON_STRINGS bytes together.
int json_parse_upload(char *text, size_t len, const char *what, json_t **out, struct error *e);

int jr_fail(struct json_reader *s, int err, const char *text); // the caller's own complaint
int jr_end(struct json_reader *s); // nothing but blanks follow: 0, or the error, with its place

#endif
