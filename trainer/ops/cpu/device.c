#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "trainer/ops/device.h"
#include "trainer/ops/loops.h"

static bool quantises;

int ops_open(enum ops_precision precision, struct error *e)
{
    quantises = precision == OPS_FP8;
    if (precision == OPS_FLOAT || precision == OPS_AUTO || precision == OPS_FP8)
        return 0;
    return error_set(
        e, ERR_INVALID,
        "trainer.precision: CPU slots compute in float32; use \"auto\" or \"float32\", "
        "or \"fp8\", which they emulate");
}

void ops_close(void)
{
    quantises = false;
}

bool ops_quantises(void)
{
    return quantises;
}

void ops_init_thread(void)
{
    // Debian's oneDNN uses libgomp, which read OMP_NUM_THREADS before main() and keeps the number
    // separately for each thread. So neither setenv() nor a call by another thread at start would
    // have an effect.
    omp_set_num_threads(1);
}

static const char *library_isa(void)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_sse41, "sse41"},
        {dnnl_cpu_isa_avx, "avx"},
        {dnnl_cpu_isa_avx2, "avx2"},
        {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
        {dnnl_cpu_isa_avx512_core, "avx512_core"},
        {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
    };
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].isa == isa)
            return names[i].name;
    return "other";
}

static const char *loops_isa(void)
{
#if LOOPS_HAVE_CLONES
    if (__builtin_cpu_supports("x86-64-v4"))
        return "x86-64-v4";
    if (__builtin_cpu_supports("x86-64-v3"))
        return "x86-64-v3";
#endif
    return "baseline";
}

int ops_alloc(size_t bytes, void **out, struct error *e)
{
    *out = block_alloc(bytes);
    return *out ? 0 : error_set(e, ERR_NO_MEMORY, "no memory for %zu MiB", bytes >> 20);
}

void ops_free(void *memory)
{
    free(memory);
}

size_t ops_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), cores = sysconf(_SC_NPROCESSORS_ONLN);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) / (size_t)(cores > 0 ? cores : 1);
}

int64_t ops_floats_for_reals(int64_t n)
{
    return n;
}

void ops_upload(void *device, const void *host, size_t bytes)
{
    if (bytes > 0)
        memcpy(device, host, bytes);
}

void ops_download(void *host, const void *device, size_t bytes)
{
    ops_upload(host, device, bytes);
}

void ops_copy(void *to, const void *from, size_t bytes)
{
    ops_upload(to, from, bytes);
}

void ops_zero(void *to, size_t bytes)
{
    if (bytes > 0)
        memset(to, 0, bytes);
}

const real *ops_reals_at(const real *reals, size_t index)
{
    return reals + index;
}

void ops_to_reals(int64_t n, const float *x, real *y)
{
    ops_copy(y, x, (size_t)n * sizeof *y);
}

void ops_upload_reals(int64_t n, const float *host, real *device)
{
    ops_to_reals(n, host, device);
}

void ops_download_reals(int64_t n, const real *device, float *host)
{
    ops_to_reals(n, device, host);
}

int ops_synchronize(struct error *e)
{
    (void)e;
    return 0;
}

// --- work that repeats: a CPU does it each time --------------------------------------------------

void ops_replay(struct ops_recording **r, void (*work)(void *), void *ctx)
{
    (void)r;
    work(ctx);
}

void ops_recording_free(struct ops_recording *r)
{
    (void)r;
}

void ops_call_host(void (*host)(void *), void *ctx)
{
    host(ctx);
}

// --- identity ------------------------------------------------------------------------------------

const char *ops_fingerprint(char *out, size_t cap)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, cap, "oneDNN %d.%d.%d %s, loops %s%s", v->major, v->minor, v->patch,
             library_isa(), loops_isa(), quantises ? ", fp8" : "");
    return out;
}
