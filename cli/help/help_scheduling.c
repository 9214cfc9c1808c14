// muster help scheduling: how slots are shared, for those who use them.
#include "cli/help/help.h"

// clang-format off
static const char order[] =
    "Who gets the slots\n"
    "\n"
    "Trials wait for slots; whenever something comes, ends or changes, the master decides anew.\n"
    "All the slots of a trial come together, on one agent where it fits on one, else on several.\n"
    "What comes first is decided in this order:\n"
    "\n"
    "  1. Limits. A workspace, a user in it (muster team set --max-slots) and an experiment\n"
    "     (resources.max_slots) never hold more than their maximum.\n"
    "  2. Shares. Each workspace, and in it each user, is entitled to its guaranteed slots and of\n"
    "     the rest, to a part by its weight. What one does not want goes to the others. Trials that\n"
    "     this covers go first. One that is larger than its user's share is covered in turn: when\n"
    "     the share could not be used for an hour, until that is paid back.\n"
    "  3. The fast lane. Of the others, experiments that have had less than one slot hour may use\n"
    "     a tenth of the pool first, on average: a burst of quick tries uses what the lane has\n"
    "     saved in the last day and starts at once. Users take turns in the lane.\n"
    "  4. Priority, 1 to 99, the smaller the sooner: among the experiments of one user.\n"
    "  5. Service: less than 1, 10, 100 slot hours so far, or more; the less the sooner. Then the\n"
    "     order of submission, or the one that muster queue move gave it.\n"
    "  6. Age. A trial with more slots than any agent has that has waited for 30 hours in all goes\n"
    "     before all that; half of a pool at most is given away so. Any other trial gains a level\n"
    "     of service for every five days of waiting, among those of its user.\n"
    "\n"
    "Who cannot start yet lets others use what is free. They leave again when its turn comes.\n"
    "\n";

static const char leaving[] =
    "Who leaves for whom\n"
    "\n"
    "A trial that runs leaves for a higher priority of the same user, for one that a share covers\n"
    "if none covers it, for one that has had far fewer slot hours, and for one that it overtook in\n"
    "the queue; but one that a share covers leaves for nobody except its own user's. It is told,\n"
    "saves a checkpoint and leaves; its place in the queue stays, and it goes on from that\n"
    "checkpoint with the very weights it would have had undisturbed. It does not count as a\n"
    "restart. For its first five minutes (--preempt-after of muster-master) it leaves for a\n"
    "priority or an age alone. What has the least to lose leaves first.\n"
    "\n"
    "With resources.min_slots a trial is elastic: it starts with as few slots as these, grows to\n"
    "resources.slots_per_trial when nobody else wants them, at the soonest ten minutes after its\n"
    "last start (--grow-after), and shrinks before anything has to leave. The results do not\n"
    "depend on it: the weights are the same on any number of slots.\n"
    "\n";

static const char file[] =
    "In the experiment file\n"
    "\n"
    "  resources:\n"
    "    slots_per_trial: 8      # what one trial wants\n"
    "    min_slots: 2            # elastic: is content with so many\n"
    "    max_slots: 16           # the most the whole experiment holds at a time\n"
    "    priority: 42            # 42 to 99, the smaller the sooner; below 42: administrators\n"
    "    weight: 1               # 0.5: others go first after half as much; above 1: administrators\n"
    "    resource_pool: default  # which agents\n"
    "    is_single_node: false   # true: all slots of a trial on one agent\n"
    "\n";

static const char asking[] =
    "Asking and moving\n"
    "\n"
    "  muster queue why 7                   why it waits, about when it starts, what can be done\n"
    "  muster queue list                    what runs and waits, in the order of decision\n"
    "  muster team shares                   who is entitled to what, holds what, is owed what\n"
    "  muster queue move 7 --ahead-of 5     just before experiment 5\n"
    "  muster queue move 7 --priority 60 --max-slots 4\n"
    "  muster queue move 7 --pool gpu       to other agents\n"
    "  muster trial describe 12             every start of a trial, and why it left\n"
    "\n"
    "You may move your own jobs as long as nobody else's job loses by it; an administrator of a\n"
    "workspace may do so with all of its jobs, as long as no other workspace loses. A place before\n"
    "another team's job, a priority above the pool's max_user_priority (42: a smaller number) and a\n"
    "weight above 1 take an administrator of the cluster. In a fair_share pool a priority orders\n"
    "your own jobs alone, so that nobody loses by one. A job that goes to another pool, or goes on\n"
    "after its end, stands behind those that are there.\n"
    "\n"
    "At its submission a job may have any priority from the default (42) to 99, also before jobs of\n"
    "others that chose to stand lower. If max_user_priority allows priorities above the default, a\n"
    "job is submitted or continued with one only where nobody else's job at or above the default\n"
    "loses by it, by the same rules as a move.\n"
    "\n"
    "Pools\n"
    "\n"
    "Each agent is in one pool (muster-agent --pool, default: default), each experiment in the one\n"
    "of its resources.resource_pool; muster pool list shows them. A pool comes to be with its first\n"
    "agent; the master's configuration file (muster-master --config FILE) can give one a scheduler\n"
    "of its own:\n"
    "\n"
    "  resource_pools:\n"
    "    - pool_name: default\n"
    "    - pool_name: interactive\n"
    "      scheduler: {type: priority}    # fair_share, priority or fifo\n"
    "      max_user_priority: 30          # 1: everybody may give any, and go before others\n"
    "\n"
    "A pool may decide more simply: muster-master --scheduler priority leaves the shares out,\n"
    "fifo is the strict order of submission, where nobody leaves for anybody. To see what another\n"
    "rule or more machines would have done: muster simulate --help.\n";
// clang-format on

void help_scheduling(FILE *out)
{
    fputs(order, out);
    fputs(leaving, out);
    fputs(file, out);
    fputs(asking, out);
}
