// Cells of CSV as RFC 4180 has them, and such that no spreadsheet computes them. Pure; any thread.
#ifndef MUSTER_BASE_TEXT_CSV_H
#define MUSTER_BASE_TEXT_CSV_H

#include <stdbool.h>

#include "base/buf.h"

// Appends `text` as one cell: quoted where a comma, quote or line break asks for it. A spreadsheet
// computes a cell that begins with = + - @ (or a tab, a line break, a full-width form of these);
// behind an apostrophe the cell is text. A plain number, such as -1.5 or -inf, stays as it is.
void csv_append_cell(struct buf *out, const char *text);

bool csv_is_formula(const char *text); // whether it gets the apostrophe

#endif
