// One slot is one core: oneDNN must not start threads, whatever OMP_NUM_THREADS says and whichever
// thread calls. OpenMP reads the variable before main(), so each case runs this program again.
#include "tests/unit/trainer/arithmetic.h"

#include <dirent.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/proc.h"
#include "trainer/ops/image.h"

static int count_threads(void)
{
    int count = 0;
    DIR *d = opendir("/proc/self/task");
    must(d);
    for (struct dirent *entry; (entry = readdir(d));)
        count += entry->d_name[0] != '.';
    closedir(d);
    return count;
}

// Large enough that oneDNN would use several threads.
static void multiply(void)
{
    enum { N = 512 };
    struct arithmetic a = arithmetic_begin(1);
    float *x = floats_random(&a, N * N, 1), *w = floats_random(&a, N * N, 1);
    float *y = floats_new(&a, N * N);
    struct ops_linear s = {N, N, N, false, NULL};
    struct error e;
    must(ops_linear_compile(&s, &e) == 0);
    ops_linear_forward(&s, x, w, NULL, y);
    ops_linear_backward_data(&s, w, y, x, false);
    ops_linear_free(&s);
    arithmetic_end(&a);
}

static void convolve(void)
{
    struct ops_conv_shape s = {64, 28, 28, 16, 32, 5, 1, 2, 1, true};
    struct arithmetic a = arithmetic_begin(1);
    struct ops_conv *c;
    struct error e;
    float *x = floats_random(&a, 64 * 28 * 28 * 16, 1), *w = floats_random(&a, 25 * 16 * 32, 1);
    float *bias = floats_random(&a, 32, 1), *y = floats_random(&a, 64 * 28 * 28 * 32, 1);
    must(ops_conv_new(&s, true, &c, &e) == 0);
    ops_conv_forward(c, x, w, bias, NULL, y);
    ops_conv_backward_data(c, w, y, NULL, x);
    ops_conv_backward_weights(c, x, y, NULL, w, bias);
    ops_conv_free(c);
    arithmetic_end(&a);
}

static void *work(void *entered)
{
    if (entered)
        ops_init_thread();
    multiply();
    convolve();
    return NULL;
}

static void *nothing(void *ctx)
{
    return ctx;
}

struct ops_thread_call {
    void *(*function)(void *);
    void *argument;
    pid_t tid;
};

static void *run_call(void *ctx)
{
    struct ops_thread_call *c = ctx;
    c->tid = gettid();
    return c->function(c->argument);
}

// A joined thread stays in /proc for a moment.
static void run_in_thread(void *(*function)(void *), void *argument)
{
    struct ops_thread_call c = {function, argument, 0};
    char path[64];
    pthread_t thread;
    must(pthread_create(&thread, NULL, run_call, &c) == 0);
    must(pthread_join(thread, NULL) == 0);
    snprintf(path, sizeof path, "/proc/self/task/%d", c.tid);
    while (access(path, F_OK) == 0)
        usleep(100);
}

// A case: the number of threads left after work in this thread and in another one. A sanitizer may
// start a thread of its own with the program's first thread.
static int run_case(const char *name)
{
    void *entered = strcmp(name, "entered") == 0 ? "" : NULL;
    run_in_thread(nothing, NULL);
    int before = count_threads();
    work(entered);
    run_in_thread(work, entered);
    return count_threads() - before;
}

static int threads_of_case(const char *name)
{
    const char *const argv[] = {"/proc/self/exe", name, NULL};
    struct proc_spec spec = {.argv = argv, .fd_in = -1, .fd_out = 1, .fd_err = 2};
    struct error e;
    pid_t pid;
    int status;
    setenv("OMP_NUM_THREADS", "4", 1);
    assert_int_equal(proc_spawn(&spec, &pid, NULL, &e), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_no_threads(void **state)
{
    (void)state;
    assert_int_equal(threads_of_case("entered"), 0);
}

// Without ops_init_thread() there are more threads, which shows that the count works. The thread
// sanitizer does not understand libgomp's own threads.
static void test_the_count_sees_threads(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    assert_true(threads_of_case("not entered") > 0);
}

static void test_fingerprint(void **state)
{
    (void)state;
    char text[OPS_FINGERPRINT_MAX], version[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(version, sizeof version, "oneDNN %d.%d.%d ", v->major, v->minor, v->patch);
    assert_ptr_equal(ops_fingerprint(text, sizeof text), text);
    assert_ptr_equal(strstr(text, version), text);
    assert_non_null(strstr(text, ", loops "));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_case(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_threads),
        cmocka_unit_test(test_the_count_sees_threads),
        cmocka_unit_test(test_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
