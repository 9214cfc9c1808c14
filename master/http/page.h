// The web page: files that are built into the master (page_files.c), or that lie in a folder while
// somebody works on them. Read-only after the start; the views run on http threads.
#ifndef MUSTER_MASTER_HTTP_PAGE_H
#define MUSTER_MASTER_HTTP_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct view;

struct page_file {
    const char *name;          // "index.html", "assets/index-Bmt7q_H2.js"
    const char *tag;           // of this content and no other
    const unsigned char *data; // compressed by gzip
    size_t len;
};

struct page {
    const struct page_file *files; // up to one without a name; NULL or none: built without a page
    const char *dir;               // they are read from there instead; NULL: they are not
};

extern const struct page_file page_files[]; // what this master was built with

int page_check(const struct page *page, struct error *e); // ERR_NOT_FOUND: `dir` is no folder

// Whether a path that is no call is one of the views between which the page itself chooses, for a
// caller who wants to see one (`accept`: header Accept, or NULL).
bool page_shows(const char *method, const char *path, const char *accept);

// Whether a header like Accept or Accept-Encoding names the word, and not with q=0.
bool page_header_names(const char *header, const char *word);

int view_page(struct view *v, struct error *e);
int view_page_asset(struct view *v, struct error *e);

#endif
