// Calls one after the other at a whole master (master.h). A line "+60" lets 60 seconds pass, "!"
// starts the master anew. At the end it is started anew in any case: whatever it has taken, it must
// be able to go on from.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/fuzz/master.h"

enum { LINES_MAX = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct piece rest = {(const char *)data, size}, line;
    struct master *m = master_begin();
    for (int i = 0; i < LINES_MAX && piece_next(&rest, "\n", &line); i++) {
        if (line.len && *line.text == '+') {
            char *number = piece_copy(line);
            int64_t seconds = strtol(number + 1, NULL, 10);
            free(number);
            master_wait(m, seconds > 0 && seconds < 100000 ? seconds : 1);
        } else if (line.len == 1 && *line.text == '!') {
            master_again(m);
        } else {
            json_decref(master_call(m, line).body);
        }
    }
    master_again(m);
    master_end(m);
    return 0;
}
