// muster help data: retention of checkpoints and logs, free space, backups, exports.
#include "cli/help/help.h"

// clang-format off
static const char checkpoints[] =
    "Which data is kept, and for how long\n"
    "\n"
    "Checkpoints\n"
    "\n"
    "When an experiment ends, the master deletes the checkpoints that its policy does not keep. The\n"
    "policy is in the experiment file:\n"
    "\n"
    "  checkpoint_storage:\n"
    "    save_experiment_best: 0   # number of best checkpoints of the whole experiment (searcher's metric)\n"
    "    save_trial_best: 1        # number of best checkpoints of each trial\n"
    "    save_trial_latest: 1      # number of latest checkpoints of each trial\n"
    "\n"
    "A checkpoint stays if any of the three keeps it. Neither the policy nor a user can delete a\n"
    "checkpoint from which a trial would continue, from which another experiment starts\n"
    "(searcher.source_checkpoint_uuid), or that a version of a model names. The policy does not delete\n"
    "a checkpoint from which a user removed some files.\n"
    "\n"
    "  muster checkpoint gc 7 --dry-run               show the checkpoints that the policy would delete\n"
    "  muster checkpoint gc 7 --save-trial-latest 0   change the policy and apply it at once\n"
    "  muster checkpoint delete UUID                  delete one checkpoint\n"
    "  muster checkpoint rm UUID --files 'optimizer*' delete some of its files and keep the weights\n"
    "\n"
    "Checkpoints are in the checkpoint directory of the master. The checkpoint_storage of an experiment\n"
    "may name another folder that the administrator allows (muster-master --storage-allow DIR). The\n"
    "master does not follow symbolic links there: downloads leave them out.\n"
    "\n"
    "If the files of a checkpoint have disappeared and its trial fails, the trial starts again from the\n"
    "newest checkpoint that exists, or from the beginning; its log says so. Each start counts against\n"
    "max_restarts. If the folder contains no checkpoint at all, it may not be mounted: the trial then\n"
    "keeps its checkpoint, and its log says so.\n"
    "\n"
    "A deleted checkpoint stays in the lists as DELETED. The master removes its files in the background\n"
    "and continues after a restart. The master must be able to reach the storage.\n"
    "\n";

static const char room[] =
    "A disk that is nearly full\n"
    "\n"
    "When the disk of the master's folder has less free space than --disk-floor of muster-master (1 GiB\n"
    "or 5 % of the disk, the smaller), the master refuses submissions and uploads. Metrics and logs wait\n"
    "at the trainers and agents, and none is lost. Everything else works: deletions, logins, pauses, the\n"
    "end of experiments. When the checkpoint directory has less free space, no trial starts. muster\n"
    "master info and the web page report this state. To free space, for example:\n"
    "\n"
    "  muster experiment delete 7                     delete an experiment, its logs and checkpoints\n"
    "  muster checkpoint gc 7                         delete checkpoints that its policy does not keep\n"
    "\n"
    "The state ends by itself as soon as the free space exceeds the floor by an eighth.\n"
    "\n";

static const char store[] =
    "Backups\n"
    "\n"
    "Everything except checkpoints is in one file, muster.db in the master's folder.\n"
    "\n"
    "  muster master backup FILE                      made by the master, from anywhere (administrators)\n"
    "  muster master backup FILE -d /var/lib/muster   on the master's machine; the master may be stopped\n"
    "  muster-master --backup-every 24 --backup-keep 7   made regularly, in DATA_DIR/backups\n"
    "  muster master restore FILE -d /var/lib/muster  restore a backup while the master is stopped\n"
    "\n"
    "If the store is damaged, the master logs the table and the page. It then ends, or continues without\n"
    "the damaged rows; restore a backup in either case.\n"
    "\n"
    "A backup shows the store at one moment. It is made while the master works, and verified before it\n"
    "gets its name. Restoring keeps the previous store next to the new one. Experiments that ran at the\n"
    "time of the backup start again from their latest checkpoint. Do not copy muster.db alone: the newest\n"
    "changes are in the log file next to it. Checkpoints are files; back up their folder with your usual\n"
    "tools.\n"
    "\n"
    "A newer master upgrades an older store when it starts, and first saves it as muster.db.before-N. An\n"
    "older master refuses a newer store and names the copy to go back to.\n"
    "\n";

static const char moving[] =
    "Moving an experiment to another cluster\n"
    "\n"
    "  muster experiment export 7 resnet.tar [--checkpoints]\n"
    "  muster --master http://other:8080 experiment import resnet.tar\n"
    "\n"
    "The file is a tar of plain files: config.yaml, experiment.json, trials.jsonl, and for each trial its\n"
    "metrics (metrics.jsonl, and a CSV for each group) and its log (logs.jsonl). An imported experiment\n"
    "has new ids; its notes name the old ones. It cannot run, but you can view and compare it like any\n"
    "other; to train again, submit its config.yaml. Its images, histograms, tables and texts, and the\n"
    "files of its checkpoints if the export has them, are imported if the importing machine can write\n"
    "to the new cluster's checkpoint folder.\n";
// clang-format on

void help_data(FILE *out)
{
    fputs(checkpoints, out);
    fputs(room, out);
    fputs(store, out);
    fputs(moving, out);
}
