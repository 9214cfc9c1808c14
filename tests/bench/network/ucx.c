// UCX over TCP: an all-reduce of two ranks by tagged messages; each rank reduces one half.
#include <ucp/api/ucp.h>

#include "tests/bench/network/meet.h"

static ucp_worker_h worker;
static ucp_ep_h peer;
static volatile ucs_status_t lost;
static int rank;
static int32_t *received;

static void on_error(void *ctx, ucp_ep_h ep, ucs_status_t status)
{
    (void)ctx, (void)ep;
    lost = status;
}

static int finish(void *request)
{
    if (!request)
        return 0;
    if (UCS_PTR_IS_ERR(request))
        return UCS_PTR_STATUS(request);
    while (ucp_request_check_status(request) == UCS_INPROGRESS && !lost)
        ucp_worker_progress(worker);
    int status = lost ? (int)lost : (int)ucp_request_check_status(request);
    ucp_request_free(request);
    return status;
}

static int exchange(const void *out, void *in, size_t bytes)
{
    const ucp_request_param_t none = {0};
    void *receiving = ucp_tag_recv_nbx(worker, in, bytes, 1, UINT64_MAX, &none);
    void *sending = ucp_tag_send_nbx(peer, out, bytes, 1, &none);
    int status = finish(sending);
    return status ? status : finish(receiving);
}

static int all_reduce(int32_t *data, size_t count)
{
    size_t half = count / 2;
    int32_t *mine = data + (rank ? half : 0), *its = data + (rank ? 0 : half);
    int status = exchange(its, received, half * sizeof *data);
    for (size_t i = 0; i < half && !status; i++)
        mine[i] = mine[i] > received[i] ? mine[i] : received[i];
    return status ? status : exchange(mine, its, half * sizeof *data);
}

static int open_worker(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
    const ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config = NULL;
    ucp_context_h context = NULL;
    if (ucp_config_read(NULL, NULL, &config) || ucp_config_modify(config, "TLS", "tcp") ||
        ucp_config_modify(config, "KEEPALIVE_INTERVAL", "1s") ||
        ucp_init(&params, config, &context))
        return -1;
    ucp_config_release(config);
    return ucp_worker_create(context, &single, &worker);
}

static int connect_peer(const char *folder)
{
    char its[ADDRESS_MAX];
    ucp_address_t *mine = NULL;
    size_t len = 0;
    if (ucp_worker_get_address(worker, &mine, &len))
        return -1;
    meet_publish(folder, "address", rank, mine, len);
    meet_read(folder, "address", !rank, its);
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)its,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error},
    };
    return ucp_ep_create(worker, &params, &peer);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    rank = argv[1][0] == '1';
    int32_t *data = calloc(1, BYTES_MAX);
    received = calloc(1, BYTES_MAX);
    if (open_worker() || connect_peer(argv[2]))
        return 1;
    if (strcmp(argv[3], "time") == 0) {
        measure_all_reduce(rank, data, all_reduce);
        return 0;
    }
    int status = 0;
    while (!status)
        status = all_reduce(data, 256);
    printf("%.3f rank %d: %s\n", now(), rank, ucs_status_string((ucs_status_t)status));
    return 0;
}
