// The device that ops compute on, and its memory. A program is linked with one backend: ops/cpu, or
// with MUSTER_CUDA defined ops/cuda. Its upper layers are the same sources.
//
// A GPU's ops return before they are done. They run one after the other on the device's stream, as
// do the copies here, and its addresses are for ops alone to read. On a CPU everything is done on
// return, and addresses are ordinary. One thread drives a device.
#ifndef MUSTER_TRAINER_OPS_DEVICE_H
#define MUSTER_TRAINER_OPS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// What layers hand to each other: float on a CPU. On a GPU bf16 or float, as the device was opened,
// at an address that nobody above ops can read, or reckon with: ops_reals_at() does.
#ifdef MUSTER_CUDA
typedef struct ops_real real;
#define OPS_DEVICE "gpu"
enum { OPS_ATTENTION_NEEDS_Y = 1 };
#else
typedef float real;
#define OPS_DEVICE "cpu"
enum { OPS_ATTENTION_NEEDS_Y = 0 };
#endif

// What products are computed in: sums are floats in all of them. A CPU has OPS_FLOAT alone;
// OPS_AUTO is that, or on a GPU OPS_BF16.
enum ops_precision { OPS_AUTO, OPS_FLOAT, OPS_TF32, OPS_BF16 };

// Opens the device for this process, before anything else here. ERR_NOT_FOUND: there is none;
// ERR_VERSION: driver or library are too old; ERR_INVALID: it has no such precision.
int ops_open(enum ops_precision precision, struct error *e);
void ops_close(void);

// Holds oneDNN to one thread in the calling thread: a slot is one core. OpenMP keeps the number per
// thread, so whoever calls ops calls this first; it costs nothing to call again. On a GPU: nothing.
void ops_init_thread(void);

// What the bits depend on beside the inputs: library and its version, instruction set or kind of
// device, precision. "oneDNN 2.6.3 avx512_core, loops x86-64-v4". Returns out.
enum { OPS_FINGERPRINT_MAX = 128 };
const char *ops_fingerprint(char *out, size_t cap);

// Memory of the device, zeroed, aligned to 256 bytes. ERR_NO_MEMORY tells how much there is.
int ops_alloc(size_t bytes, void **out, struct error *e);
void ops_free(void *memory); // NULL is fine

void ops_upload(void *device, const void *host, size_t bytes);   // host may change on return
void ops_download(void *host, const void *device, size_t bytes); // comes until ops_synchronize()
void ops_copy(void *to, const void *from, size_t bytes);         // within the device
void ops_zero(void *to, size_t bytes);

// Reals are made of floats to nearest, ties to even.
int64_t ops_floats_for_reals(int64_t n); // floats whose room n reals take
const real *ops_reals_at(const real *reals, size_t index);
void ops_to_reals(int64_t n, const float *x, real *y); // within the device
void ops_upload_reals(int64_t n, const float *host, real *device);
void ops_download_reals(int64_t n, const real *device, float *host);

// FLOP/s of products at most, measured: what model FLOP utilisation is of. On a CPU multiply-adds
// in registers with the widest vectors, some five milliseconds long; on a GPU large products of
// the precision it was opened with.
double ops_peak_flops(void);

// Waits for all work so far. ERR_IO: the device failed, and at what.
int ops_synchronize(struct error *e);

// Work that is the same each time, of which a GPU is told once and which it then repeats in one go
// (cuda/repeat.c says how); a CPU just does it. What the ops in it are given may not vary: what
// does, they read from the device's memory. Nothing in it is uploaded, downloaded or waited for.
// `work` may be called again when it turns out that it cannot be repeated.
struct ops_recording;                                                       // opaque
void ops_replay(struct ops_recording **r, void (*work)(void *), void *ctx); // *r: NULL at first
void ops_recording_free(struct ops_recording *r);                           // NULL is fine
// Within such work: the host does this between the ops before and those after, each time.
void ops_call_host(void (*host)(void *), void *ctx);

// What time is spent on: from a call on all of it is the phase's, until the next. By the device's
// clock: a GPU's phases begin and end when it comes there. Returns the phase before.
enum ops_phase {
    OPS_OTHER,
    OPS_DATA,
    OPS_FORWARD,
    OPS_BACKWARD,
    OPS_COMMUNICATION, // communication that nothing hides
    OPS_OPTIMIZER,
    OPS_CHECKPOINT,
    OPS_PHASES
};
enum ops_phase ops_phase(enum ops_phase phase);
// Microseconds of each since the last call; what a GPU has not come to yet counts next time.
void ops_phases(int64_t us[OPS_PHASES]);

#endif
