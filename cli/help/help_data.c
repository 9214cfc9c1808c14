// muster help data: what is kept, for how long, and how to keep it longer.
#include "cli/help/help.h"

// clang-format off
static const char checkpoints[] =
    "What is kept, and for how long\n"
    "\n"
    "Checkpoints\n"
    "\n"
    "When an experiment ends, its checkpoints are collected by its policy, which is in the\n"
    "experiment file:\n"
    "\n"
    "  checkpoint_storage:\n"
    "    save_experiment_best: 0   # so many of the whole experiment, the best by the searcher's metric\n"
    "    save_trial_best: 1        # so many of each trial, the best\n"
    "    save_trial_latest: 1      # so many of each trial, the latest\n"
    "\n"
    "What any of the three keeps is kept; the rest is deleted with its files. Never deleted, by\n"
    "policy or by hand, is a checkpoint that a trial would go on from, that another experiment\n"
    "starts from (searcher.source_checkpoint_uuid), or that a version of a model names. One whose\n"
    "files were thinned out by hand is left alone by the policy.\n"
    "\n"
    "  muster checkpoint gc 7 --dry-run               what the policy would delete now\n"
    "  muster checkpoint gc 7 --save-trial-latest 0   another policy, applied at once\n"
    "  muster checkpoint delete UUID                  one checkpoint\n"
    "  muster checkpoint rm UUID --files 'optimizer*' some files of it, to keep the weights\n"
    "\n"
    "Checkpoints lie in the checkpoint directory of the master. The checkpoint_storage of an experiment\n"
    "may name another folder that the administrator allows (muster-master --storage-allow DIR). The\n"
    "master follows no symbolic links there: a download leaves them out.\n"
    "\n"
    "When the files of a checkpoint have disappeared and its trial fails, the trial starts again from\n"
    "the newest one that is there, or from the beginning; its log says so. Each start counts against\n"
    "max_restarts. If the folder holds no checkpoint at all, it may not be mounted: then the trial\n"
    "keeps to its checkpoint, and its log says so.\n"
    "\n"
    "A deleted checkpoint stays in the lists as DELETED. Its files go in the background; if the\n"
    "master ends meanwhile, the next start goes on. The master must see the storage.\n"
    "\n";

static const char room[] =
    "A disk that is nearly full\n"
    "\n"
    "With less room than --disk-floor of muster-master (1 GiB or 5 % of the disk, the smaller) on the\n"
    "disk of the master's folder, submissions and uploads are refused. Metrics and logs wait with the\n"
    "trainers and agents, and none is lost. All else still works: deletions, logins, pauses, ends.\n"
    "With less room in the checkpoint directory no trial starts. muster master info and the web page\n"
    "say so. Make room, for example:\n"
    "\n"
    "  muster experiment delete 7                     an experiment with its logs and checkpoints\n"
    "  muster checkpoint gc 7                         checkpoints that its policy leaves out\n"
    "\n"
    "This state ends by itself as soon as the free space exceeds the floor by an eighth.\n"
    "\n";

static const char store[] =
    "Backups\n"
    "\n"
    "Everything but checkpoints is in one file, muster.db in the master's folder.\n"
    "\n"
    "  muster master backup FILE                      by the master, from anywhere (administrators)\n"
    "  muster master backup FILE -d /var/lib/muster   on its machine, whether it runs or not\n"
    "  muster-master --backup-every 24 --backup-keep 7   by itself, to DATA_DIR/backups\n"
    "  muster master restore FILE -d /var/lib/muster  back again, while no master runs\n"
    "\n"
    "When the store is damaged, the master logs the table and the page. It then ends, or continues\n"
    "without the damaged rows; restore a backup in either case.\n"
    "\n"
    "A backup is of one moment, is made while the master works, and is verified before it has its\n"
    "name. Restoring keeps the store that was there beside the new one. Experiments that ran when\n"
    "the backup was made start again from their latest checkpoint. Never copy muster.db by itself:\n"
    "what was written last is in the log beside it. Checkpoints are files; back up their folder\n"
    "with whatever you back up files with.\n"
    "\n"
    "A newer master changes an older store when it starts, and keeps muster.db.before-N first; an\n"
    "older master refuses a newer store and names the copy to go back to.\n"
    "\n";

static const char moving[] =
    "Taking an experiment elsewhere\n"
    "\n"
    "  muster experiment export 7 resnet.tar [--checkpoints]\n"
    "  muster --master http://other:8080 experiment import resnet.tar\n"
    "\n"
    "The file is a tar of plain files: config.yaml, experiment.json, trials.jsonl, and for each\n"
    "trial its metrics (metrics.jsonl, and a CSV for each group) and its log (logs.jsonl). An\n"
    "imported experiment has new ids, and its notes say the old ones. It cannot run, but it can be\n"
    "looked at and compared like any other; to train on, submit its config.yaml. Files of its\n"
    "checkpoints come along when they were exported and the new cluster's checkpoint folder can be\n"
    "written from where you import.\n";
// clang-format on

void help_data(FILE *out)
{
    fputs(checkpoints, out);
    fputs(room, out);
    fputs(store, out);
    fputs(moving, out);
}
