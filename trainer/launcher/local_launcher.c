#include "trainer/launcher/local_launcher.h"

#include "base/clock.h"

enum { STEP_EVERY_US = 250 * 1000 };

static void send_message(const struct local_launcher *l, json_t *message)
{
    gang_send(l->member, message, NULL); // an error is ignored: the child dies with its parent
    json_decref(message);
}

static int local_gather(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    const struct local_launcher *l = ctx;
    return gang_all_gather(l->member, mine, all, e);
}

static void local_step(void *ctx, int64_t step, double loss)
{
    struct local_launcher *l = ctx;
    int64_t now = clock_mono_us();
    if (now - l->step_sent < STEP_EVERY_US)
        return;
    l->step_sent = now;
    send_message(l, json_pack("{s:I, s:o}", "step", (json_int_t)step, "loss", metric_number(loss)));
}

static void local_metrics(void *ctx, const char *group, int64_t step, int64_t steps,
                          const json_t *metrics)
{
    send_message(ctx, json_pack("{s:s, s:I, s:I, s:O}", "group", group, "at", (json_int_t)step,
                                "steps", (json_int_t)steps, "metrics", metrics));
}

static void local_checkpoint(void *ctx, const struct snapshot_info *info)
{
    send_message(ctx, json_pack("{s:s, s:I, s:b, s:b}", "checkpoint", info->folder, "at",
                                (json_int_t)info->step, "best", info->best, "only_best",
                                info->only_best));
}

static void local_note(void *ctx, const char *text)
{
    send_message(ctx, json_pack("{s:s}", "note", text));
}

static int local_poll(void *ctx, bool *drain, struct error *e)
{
    const struct local_launcher *l = ctx;
    (void)e;
    *drain = gang_drain_requested(l->member);
    return 0;
}

static void local_permanent_failure(void *ctx, const char *why)
{
    send_message(ctx, json_pack("{s:s}", "permanent_failure", why));
}

static int local_finish(void *ctx, bool drained, struct error *e)
{
    const struct local_launcher *l = ctx;
    (void)e;
    if (l->member->rank == 0)
        send_message(l, json_pack("{s:b}", "drained", drained));
    return 0;
}

void local_launcher_report_failure(struct local_launcher *local, int code, const char *why)
{
    send_message(local, json_pack("{s:s, s:i}", "failed", why, "code", code));
}

static const struct launcher_ops local_ops = {
    .all_gather = local_gather,
    .step = local_step,
    .metrics = local_metrics,
    .checkpoint = local_checkpoint,
    .note = local_note,
    .poll = local_poll,
    .permanent_failure = local_permanent_failure,
    .finish = local_finish,
};

struct launcher local_launcher_open(struct local_launcher *local, struct gang_member *member)
{
    *local = (struct local_launcher){.member = member};
    return (struct launcher){.ops = &local_ops, .ctx = local};
}
