// Renders of core handlers' results: plain structs in rq->result become the JSON of the answer.
// Each is the `view` of its routes (master/routes.c). http threads; nothing here reads live
// state.
#ifndef MUSTER_MASTER_VIEWS_LIVE_STATE_LIVE_STATE_H
#define MUSTER_MASTER_VIEWS_LIVE_STATE_LIVE_STATE_H

#include "master/calls/snapshots.h"
#include "master/http/view.h"

// agents.c: struct agents_snapshot. The slot is number rq->id of the first agent.
view_handler render_agents, render_agent, render_slots, render_slot;

// pools.c: struct pools_snapshot; render_pool_bindings needs no result.
view_handler render_resource_pools, render_available_pools, render_queue_stats,
    render_pool_bindings;
view_handler render_shares; // the struct share_snapshot before the first

// queue.c
view_handler render_job_queue;               // struct jobs_snapshot
view_handler render_visible_jobs;            // the same, of the older call
view_handler render_tasks, render_old_tasks; // struct allocations_snapshot
view_handler render_experiment_why;          // struct experiment_wait

// tasks.c: lifecycle/task_snapshots.h
view_handler render_agent_poll; // struct poll_snapshot
view_handler render_rendezvous; // struct rendezvous_snapshot
view_handler render_gather;     // struct gather_snapshot

// fields.c
view_handler render_fields;         // the list of request_answer_fields()
view_handler render_action_results; // struct action_results
view_handler render_preview;        // struct experiment_preview
view_handler render_search_preview; // a JSON object

// agents.c: the device of a slot, as its agent reported it.
void write_device(struct json_writer *w, const json_t *device, int slot);

// Key "pagination".
void write_page(struct json_writer *w, const struct page_snapshot *page);

#endif
