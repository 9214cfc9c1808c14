// muster help scheduling: how slots are shared, for those who use them.
#include "api/cli/help.h"

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
    "     the rest, to a part by its weight. What one does not want goes to the others. Those who\n"
    "     have least of what they are entitled to come first; between equals, who used less.\n"
    "  3. Priority, 1 to 99, the smaller the sooner: among the experiments of one user.\n"
    "  4. Service. Among equals, the one that had fewer slot hours so far; having waited for long\n"
    "     counts like having had less, so that nobody starves. Then the order of submission, or\n"
    "     the one that muster queue move gave it.\n"
    "\n"
    "A large trial keeps its claim: the slots it will start on are reserved, and smaller ones go\n"
    "before it only where they are not in its way.\n"
    "\n";

static const char leaving[] =
    "Who leaves for whom\n"
    "\n"
    "A trial that runs leaves for a higher priority of the same user, for a team that has less\n"
    "than its share, or for one that has had far fewer slot hours; never if that takes its own\n"
    "team below its share. It is told, saves a checkpoint and leaves; its place in the queue\n"
    "stays, and it goes on from that checkpoint with the very weights it would have had\n"
    "undisturbed. It does not count as a restart. For its first five minutes (--preempt-after of\n"
    "muster-master) it leaves for a priority alone. What has the least to lose leaves first.\n"
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
    "    priority: 42            # 1 to 99, the smaller the sooner\n"
    "    weight: 1               # 2: may have had twice as much before others go first\n"
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
    "  muster queue move 7 --priority 30 --max-slots 4\n"
    "  muster queue move 7 --pool gpu       to other agents\n"
    "  muster trial describe 12             every start of a trial, and why it left\n"
    "\n"
    "To go before others' work (--ahead-of, --behind, a priority below 42) wants an administrator\n"
    "of the workspace or of the cluster.\n"
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
