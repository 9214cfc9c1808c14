#include "agent/master_client.h"

int master_client_open(const struct master_endpoint *master, int timeout_s, const atomic_bool *stop,
                       struct client **out, struct error *e)
{
    const struct client_options options = {
        .url = master->url,
        .auth = CLIENT_BEARER,
        .token = master->token,
        .ca_file = master->ca_file,
        .only_ca_file = master->only_ca_file,
        .timeout_s = timeout_s,
        .cancel = stop,
    };
    return client_open(&options, out, e);
}
