// muster help scheduling: how slots are divided, for users.
#include "cli/help/help.h"

// clang-format off
static const char order[] =
    "The order in which trials get slots\n"
    "\n"
    "Trials wait for slots. Whenever a job is submitted, ends or changes, the master decides again. A\n"
    "trial gets all its slots at once, on one agent if it fits, else on several. The order is:\n"
    "\n"
    "  1. Limits. A workspace, a user in it (muster team set --max-slots) and an experiment\n"
    "     (resources.max_slots) never hold more than their maximum.\n"
    "  2. Shares. Each workspace, and in it each user, is entitled to its guaranteed slots and to a\n"
    "     part of the rest, by weight. Slots that one does not want go to the others. Trials that fit\n"
    "     into the entitlement (covered trials) go first. A trial larger than its user's share is\n"
    "     covered for a time: after the share could not be used for an hour, until that is paid back.\n"
    "  3. The fast lane. Other trials of experiments with less than one slot hour so far\n"
    "     may use a tenth of the pool first, on average: a burst of short tries uses the slots that the\n"
    "     lane saved during the last day, and starts at once. Users take turns in the lane.\n"
    "  4. Priority, 1 to 99, among the experiments of one user: a smaller number goes first.\n"
    "  5. Service: less than 1, 10 or 100 slot hours so far, or more; less goes first. Then the order\n"
    "     of submission, or the order set by muster queue move.\n"
    "  6. Age. A trial with more slots than any agent has goes before all of the above after it has\n"
    "     waited for 30 hours in total; at most half of a pool is given away like this. Any other trial\n"
    "     gains a level of service, among those of its user, for every five days of waiting.\n"
    "\n"
    "While a job cannot start, others may use the free slots. They are preempted when its turn comes.\n"
    "\n";

static const char leaving[] =
    "Preemption\n"
    "\n"
    "A running trial is preempted for a higher priority of the same user, for a covered trial if it is\n"
    "not covered itself, for a trial with far fewer slot hours, and for a trial that it overtook in the\n"
    "queue. A covered trial is preempted only for trials of its own user. A preempted trial saves a\n"
    "checkpoint, releases its slots and keeps its place in the queue. It continues from that checkpoint\n"
    "with exactly the weights it would have had without the interruption. A preemption does not count as\n"
    "a restart. During its first five minutes (--preempt-after of muster-master) a trial is preempted\n"
    "only because of priority or age. Trials that lose the least work are preempted first.\n"
    "\n"
    "With resources.min_slots a trial is elastic: it starts with as few slots as that, grows up to\n"
    "resources.slots_per_trial when no one else wants the slots (at the earliest ten minutes after its\n"
    "last start, --grow-after), and shrinks before any trial is preempted. The results do not depend on\n"
    "this: the weights are the same on any number of slots.\n"
    "\n"
    "muster experiment resize 7 --slots 2 changes the number of slots of an experiment that waits, runs\n"
    "or is paused; with --min-slots its trials become elastic. A trial that runs with another number\n"
    "saves a checkpoint, waits in its place of the queue, and continues with the new number.\n"
    "\n";

static const char file[] =
    "Keys of the experiment file\n"
    "\n"
    "  resources:\n"
    "    slots_per_trial: 8      # slots that one trial asks for\n"
    "    min_slots: 2            # elastic: the trial can run on this number of slots\n"
    "    max_slots: 16           # largest number of slots of the whole experiment at a time\n"
    "    priority: 42            # 42 to 99, a smaller number goes first; below 42: administrators\n"
    "    weight: 1               # 0.5: others go first after half as much; above 1: administrators\n"
    "    resource_pool: default  # the agents to use\n"
    "    is_single_node: false   # true: all slots of a trial on one agent\n"
    "\n";

static const char asking[] =
    "Commands\n"
    "\n"
    "  muster queue why 7                   why it waits, an estimate of its start, possible actions\n"
    "  muster queue list                    running and waiting jobs, in the order of decision\n"
    "  muster team shares                   entitlement, use and debt of each team\n"
    "  muster queue move 7 --ahead-of 5     move it just before experiment 5\n"
    "  muster queue move 7 --priority 60 --max-slots 4\n"
    "  muster queue move 7 --pool gpu       move it to other agents\n"
    "  muster trial describe 12             every start of a trial, and why it ended\n"
    "\n"
    "You may move your own jobs if no job of another user loses by it. An administrator of a workspace\n"
    "may move all of its jobs if no other workspace loses. Only an administrator of the cluster may put\n"
    "a job before another team's job, set a priority above the pool's max_user_priority (a number below\n"
    "42 by default), or set a weight above 1. In a fair_share pool a priority orders only your own jobs,\n"
    "so no one loses by it. A job that moves to another pool, or continues after its end, goes to the end\n"
    "of the queue.\n"
    "\n"
    "At its submission a job may have any priority from the default (42) to 99, also one that puts it\n"
    "before jobs of others with larger numbers. If max_user_priority allows priorities above the default,\n"
    "a job may be submitted or continued with one only if no job of another user at or above the default\n"
    "loses by it; the rules are those of a move.\n"
    "\n"
    "Pools\n"
    "\n"
    "Each agent is in one pool (muster-agent --pool, default: default), and each experiment uses the pool\n"
    "in its resources.resource_pool; muster pool list shows the pools. A pool exists from its first agent\n"
    "on. The master's configuration file (muster-master --config FILE) can give it its own scheduler:\n"
    "\n"
    "  resource_pools:\n"
    "    - pool_name: default\n"
    "    - pool_name: interactive\n"
    "      scheduler: {type: priority}    # fair_share, priority or fifo\n"
    "      max_user_priority: 30          # 1: every user may set any priority and go before others\n"
    "\n"
    "A pool may use simpler rules: muster-master --scheduler priority has no shares; fifo is the strict\n"
    "order of submission without preemption. To see the result of other rules or more machines, use\n"
    "muster simulate (muster simulate --help).\n";
// clang-format on

void help_scheduling(FILE *out)
{
    fputs(order, out);
    fputs(leaving, out);
    fputs(file, out);
    fputs(asking, out);
}
