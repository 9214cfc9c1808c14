// gloo over TCP, with a timeout of 15 s.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "tests/bench/network/meet.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

static int all_reduce(int32_t *data, size_t count)
{
    gloo::AllreduceOptions options(context);
    options.setOutput(data, count);
    options.setReduceFunction(
        [](void *c, const void *a, const void *b, size_t n) { gloo::max<int32_t>(c, a, b, n); });
    gloo::allreduce(options);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int rank = argv[1][0] == '1';
    gloo::transport::tcp::attr address;
    address.hostname = rank ? "10.213.8.3" : "10.213.8.2";
    gloo::rendezvous::FileStore store(argv[2]);
    context = std::make_shared<gloo::rendezvous::Context>(rank, 2);
    context->setTimeout(std::chrono::seconds(15));
    auto device = gloo::transport::tcp::CreateDevice(address);
    context->connectFullMesh(store, device);
    int32_t *data = (int32_t *)calloc(1, BYTES_MAX);
    if (strcmp(argv[3], "time") == 0) {
        measure_all_reduce(rank, data, all_reduce);
        return 0;
    }
    try {
        for (;;)
            all_reduce(data, 256);
    } catch (const std::exception &e) {
        printf("%.3f rank %d: %s\n", now(), rank, e.what());
    }
    return 0;
}
