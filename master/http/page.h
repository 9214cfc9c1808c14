// The web page: files that are built into the master (page_files.c), or read from a folder during
// development. Read-only after the start; the views run on http threads.
#ifndef MUSTER_MASTER_HTTP_PAGE_H
#define MUSTER_MASTER_HTTP_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct view;

struct page_file {
    const char *name;          // "index.html", "assets/index-Bmt7q_H2.js"
    const char *tag;           // identifies this content
    const unsigned char *data; // compressed with gzip
    size_t len;
};

struct page {
    const struct page_file
        *files;      // ends with a file without a name; NULL or empty: built without the page
    const char *dir; // read files from here instead; NULL: use the built-in files
};

extern const struct page_file page_files[]; // the files of this build

int page_check(const struct page *page, struct error *e); // ERR_NOT_FOUND: `dir` is not a folder

// Returns whether a path that is no call is a view of the page, for a caller who accepts HTML
// (`accept`: header Accept, or NULL).
bool page_shows(const char *method, const char *path, const char *accept);

// Returns whether a header such as Accept or Accept-Encoding contains the word without q=0.
bool page_header_names(const char *header, const char *word);

int view_page(struct view *v, struct error *e);
int view_page_asset(struct view *v, struct error *e);

#endif
