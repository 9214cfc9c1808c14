// The memory, processor time and open files of this process, read from /proc. Any thread.
#ifndef MUSTER_MASTER_COMMON_PROCESS_FIGURES_H
#define MUSTER_MASTER_COMMON_PROCESS_FIGURES_H

#include <stdint.h>

struct process_figures { // a figure that cannot be read is -1
    double cpu_s;        // user and system time
    double started_at;   // seconds since 1970
    int64_t resident_bytes, virtual_bytes, threads;
    int64_t open_files, most_files; // descriptors
};

void process_figures_read(struct process_figures *out);

#endif
