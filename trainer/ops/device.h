// The device that ops compute on, and its memory. A program is linked with one backend, ops/cpu or
// (with MUSTER_CUDA defined) ops/cuda; the sources above ops are the same for both.
//
// On a GPU ops return before they are done. They run in order on the device's stream, together with
// the copies below, and only ops may read its addresses. On a CPU everything is done on return, and
// addresses are ordinary. One thread drives a device.
#ifndef MUSTER_TRAINER_OPS_DEVICE_H
#define MUSTER_TRAINER_OPS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// The element type of activations and weights: float on a CPU; bf16 or float on a GPU, as chosen
// when the device was opened. On a GPU it is an incomplete type, so that no code above ops can
// dereference or index it; use ops_reals_at().
//
// OPS_GOOD_*: positions of texts, images, or rows of features in a micro-batch, beyond which twice
// as many train at most a few percent faster (docs/decisions/0048-recompute.md has the figures).
#ifdef MUSTER_CUDA
typedef struct ops_real real;
#define OPS_DEVICE "gpu"
enum { OPS_ATTENTION_NEEDS_Y = 1 };
enum { OPS_GOOD_POSITIONS = 65536, OPS_GOOD_IMAGES = 128, OPS_GOOD_ROWS = 1024 };
#else
typedef float real;
#define OPS_DEVICE "cpu"
enum { OPS_ATTENTION_NEEDS_Y = 0 };
enum { OPS_GOOD_POSITIONS = 1024, OPS_GOOD_IMAGES = 16, OPS_GOOD_ROWS = 128 };
#endif

// The precision of matrix products and convolutions; sums are always floats. OPS_AUTO is OPS_FLOAT
// on a CPU and OPS_BF16 on a GPU. OPS_FP8 is OPS_AUTO, except that models may quantise the products
// of linear layers (fp8.h). A CPU supports OPS_FLOAT and OPS_FP8, which it emulates.
enum ops_precision { OPS_AUTO, OPS_FLOAT, OPS_TF32, OPS_BF16, OPS_FP8 };

// Opens the device for this process; the first call here. ERR_NOT_FOUND: there is no device;
// ERR_VERSION: the driver or a library is too old; ERR_INVALID: the precision is not supported.
int ops_open(enum ops_precision precision, struct error *e);
void ops_close(void);
bool ops_quantises(void); // the device was opened with OPS_FP8

// Limits oneDNN to one thread in the calling thread, because a slot is one core. OpenMP keeps this
// limit per thread, so every thread calls it before its first op; repeated calls are cheap. On a
// GPU it does nothing.
void ops_init_thread(void);

// Everything besides the inputs that determines the bits: the libraries and their versions, the
// instruction set or the kind of device, the precision. Returns out. Example:
// "oneDNN 2.6.3 avx512_core, loops x86-64-v4".
enum { OPS_FINGERPRINT_MAX = 128 };
const char *ops_fingerprint(char *out, size_t cap);

// Zeroed device memory, aligned to 256 bytes. The text of ERR_NO_MEMORY says how much is free.
int ops_alloc(size_t bytes, void **out, struct error *e);
void ops_free(void *memory); // NULL is fine
// Bytes that this slot may allocate: the free memory of the GPU; on a CPU, the share that one core
// has of the memory of the machine.
size_t ops_memory(void);

void ops_upload(void *device, const void *host, size_t bytes);   // `host` may change on return
void ops_download(void *host, const void *device, size_t bytes); // valid after ops_synchronize()
void ops_copy(void *to, const void *from, size_t bytes);         // within the device
void ops_zero(void *to, size_t bytes);

// Floats are rounded to reals to nearest, ties to even.
int64_t ops_floats_for_reals(int64_t n); // the number of floats that occupy the memory of n reals
const real *ops_reals_at(const real *reals, size_t index);
void ops_to_reals(int64_t n, const float *x, real *y); // within the device
void ops_upload_reals(int64_t n, const float *host, real *device);
void ops_download_reals(int64_t n, const real *device, float *host);

// Measures the peak FLOP/s of matrix products, the denominator of model FLOP utilisation (in FP8:
// that of bf16, in which part of the products remain). On a CPU
// it runs multiply-adds in registers with the widest vectors for about five milliseconds; on a GPU
// large products in the precision of the device.
double ops_peak_flops(void);

// Waits for all work so far. ERR_IO: the device failed; the text names the op.
int ops_synchronize(struct error *e);

// Runs work that repeats exactly. A GPU records it as CUDA graphs once and then replays them
// (cuda/device/replay.c); a CPU calls it each time. The arguments of its ops must stay the same;
// ops read variable values from device memory. The work must not upload, download, allocate or
// wait. `work` may be called again if it turns out that it cannot be recorded.
struct ops_recording;                                                       // opaque
void ops_replay(struct ops_recording **r, void (*work)(void *), void *ctx); // *r: NULL at first
void ops_recording_free(struct ops_recording *r);                           // NULL is fine
// Within such work: calls host(ctx) between the ops before and the ops after, at every replay.
void ops_call_host(void (*host)(void *), void *ctx);

// Starts a phase: the time until the next call is counted for it, by the device's clock. On a GPU a
// phase begins and ends when the stream reaches the calls. Returns the previous phase.
enum ops_phase {
    OPS_OTHER,
    OPS_DATA,
    OPS_FORWARD,
    OPS_BACKWARD,
    OPS_COMMUNICATION, // only communication that is not hidden
    OPS_OPTIMIZER,
    OPS_CHECKPOINT,
    OPS_PHASES
};
enum ops_phase ops_phase(enum ops_phase phase);
// Microseconds of each phase since the last call. A GPU's unfinished time counts in a later call.
void ops_phases(int64_t us[OPS_PHASES]);

#endif
