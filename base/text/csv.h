// Writes CSV cells (RFC 4180) that no spreadsheet takes for a formula. Pure; any thread.
#ifndef MUSTER_BASE_TEXT_CSV_H
#define MUSTER_BASE_TEXT_CSV_H

#include <stdbool.h>

#include "base/buf.h"

// Appends `text` as one cell, quoted if it contains a comma, a quote or a line break. A spreadsheet
// computes a cell that begins with = + - @, a tab, a line break or a full-width form of these; such
// a cell gets an apostrophe in front. A plain number, such as -1.5 or -inf, stays as it is.
void csv_append_cell(struct buf *out, const char *text);

#endif
