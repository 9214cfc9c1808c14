#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

#include "trainer/ops/loops.h"
#include "trainer/ops/ops.h"

void ops_enter(void)
{
    // Debian's oneDNN runs on libgomp, which read OMP_NUM_THREADS before main() and keeps the
    // number of each thread apart: neither setenv() nor a call at start-up by another thread would
    // do.
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

const char *ops_fingerprint(char *out, size_t cap)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, cap, "oneDNN %d.%d.%d %s, loops %s", v->major, v->minor, v->patch, library_isa(),
             loops_isa());
    return out;
}
