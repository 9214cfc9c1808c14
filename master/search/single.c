// One trial. Hyperparameters that are ranges are drawn once. The trial uses the experiment's own
// seed, so the trainer repeats the same run from the same file without a cluster.
#include "master/search/method.h"

#include <stdio.h>

#include "base/log.h"
#include "base/text/json.h"

static void single_tell(struct search *s, const struct search_event *event,
                        struct search_commands *out)
{
    switch (event->kind) {
    case SEARCH_BEGIN:
    case SEARCH_CONTINUE: {
        struct search_command *create =
            search_command_add(out, event->trials ? SEARCH_RESTART : SEARCH_CREATE);
        snprintf(create->request_id, sizeof create->request_id, "1");
        s->of.single.ended = false;
        rng_seed(&s->rng, (uint64_t)s->seed, 1);
        create->hparams = search_draw(s->space, &s->rng);
        create->seed = s->seed;
        s->changed = true;
        return;
    }
    case SEARCH_VALIDATED:
        return;
    case SEARCH_PROGRESS:
        s->progress = event->fraction;
        return;
    case SEARCH_TRIAL_ENDED: {
        if (s->of.single.ended)
            return;
        s->of.single.ended = s->changed = true;
        struct search_command *done = search_command_add(out, SEARCH_SHUTDOWN);
        done->outcome = event->end == SEARCH_END_INVALID_HP ? SEARCH_END_ERROR : event->end;
        if (event->end == SEARCH_END_COMPLETED)
            s->progress = 1;
        return;
    }
    }
}

static json_t *single_save(const struct search *s)
{
    json_t *saved = json_pack("{s:b}", "ended", s->of.single.ended);
    must(saved);
    return saved;
}

static void single_load(struct search *s, const json_t *saved)
{
    s->of.single.ended = jget_bool(saved, "ended", false);
}

const struct search_method search_single = {
    .name = "single", .handle_event = single_tell, .save = single_save, .load = single_load};
