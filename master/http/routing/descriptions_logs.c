// Logs of trials and tasks, and checkpoints.

#include "master/http/routing/descriptions.h"

static const struct description rows[] = {
    // --- reading logs ----------------------------------------------------------------------------
    TEXT("GET /api/v1/trials/{trialId}/logs ->", "One line of the log."),
    TEXT("GET /api/v1/tasks/{taskId}/logs ->", "One line of the log."),
    VALUE("GET /api/v1/trials/{trialId}/logs limit", "0", "The greatest number of lines; 0: all."),
    VALUE("GET /api/v1/tasks/{taskId}/logs limit", "0", "The greatest number of lines; 0: all."),
    VALUE("GET /api/v1/trials/{trialId}/logs orderBy", "\"ORDER_BY_ASC\"",
          "ORDER_BY_ASC sends the oldest line first, ORDER_BY_DESC the newest; only the first can "
          "follow."),
    VALUE("GET /api/v1/tasks/{taskId}/logs orderBy", "\"ORDER_BY_ASC\"",
          "ORDER_BY_ASC sends the oldest line first, ORDER_BY_DESC the newest; only the first can "
          "follow."),
    TEXT("agentIds", "Only lines from these agents. Default: all."),
    TEXT("allocationIds", "Only lines of these starts. Default: all."),
    TEXT("containerIds", "Only lines of these containers. Default: all."),
    TEXT("rankIds", "Only lines of these ranks. Default: all."),
    TEXT("sources", "Only lines from these sources. Default: all."),
    TEXT("stdtypes", "Only lines from these outputs: stdout, stderr. Default: all."),
    TEXT("levels", "Only lines with these levels. Default: all."),
    TEXT("timestampBefore", "Only lines before this time. Default: no end."),
    TEXT("timestampAfter", "Only lines after this time. Default: from the first."),
    TEXT("searchText", "Only lines that contain this text, in upper or lower case. With "
                       "enableRegex it is an expression in RE2's syntax. Default: all lines."),
    VALUE("enableRegex", "false", "True: searchText is a regular expression."),
    VALUE("after", "0", "Oldest first: only lines behind the one with this id; 0: from the first."),
    VALUE("before", "0", "Newest first: only lines before the one with this id; 0: from the last."),
    TEXT("GET /api/v1/trials/{trialId}/logs/fields follow",
         "Accepted because Determined's clients send it, and ignored: the stream ends after one "
         "line. Default: nothing."),
    TEXT("GET /api/v1/tasks/{taskId}/logs/fields follow",
         "Accepted because Determined's clients send it, and ignored: the stream ends after one "
         "line. Default: nothing."),
    TEXT("GET /api/v1/trials/{trialId}/logs/fields ->", "The only line: all values."),
    TEXT("GET /api/v1/tasks/{taskId}/logs/fields ->", "The only line: all values."),
    TEXT("TrialLog", "A line of a trial's log."),
    TEXT("TrialLog.id", "The number of the line in this log, as digits. It grows."),
    TEXT("TrialLog.timestamp", "The time at which the line was written."),
    TEXT("TrialLog.level", "How serious the line is."),
    TEXT("TrialLog.message", "The line as `det` prints it, with time, container, rank and level."),
    TEXT("TrialLog.trialId", "The id of the trial."),
    TEXT("TrialLog.log", "The text of the line."),
    TEXT("TrialLog.agentId", "The agent that sent the line; empty: not known."),
    TEXT("TrialLog.containerId", "The container that wrote the line; empty: not known."),
    TEXT("TrialLog.rankId", "The rank that wrote the line; absent: none."),
    TEXT("TrialLog.source", "The part of the system that wrote the line: task is the program, "
                            "master and agent write about it."),
    TEXT("TrialLog.stdtype", "The output that the line came from: stdout or stderr."),
    TEXT("TrialLog.taskId", "The id of the task."),
    TEXT("TrialLog.allocationId", "The start that wrote the line; empty: not known."),
    TEXT("TaskLog", "A line of a task's log."),
    TEXT("TaskLog.id", "The number of the line in this log, as digits. It grows."),
    TEXT("TaskLog.timestamp", "The time at which the line was written."),
    TEXT("TaskLog.level", "How serious the line is."),
    TEXT("TaskLog.message", "The line as `det` prints it, with time, container, rank and level."),
    TEXT("TaskLog.taskId", "The id of the task."),
    TEXT("TaskLog.log", "The text of the line."),
    TEXT("TaskLog.allocationId", "The start that wrote the line; empty: not known."),
    TEXT("TaskLog.agentId", "The agent that sent the line; empty: not known."),
    TEXT("TaskLog.containerId", "The container that wrote the line; empty: not known."),
    TEXT("TaskLog.rankId", "The rank that wrote the line; absent: none."),
    TEXT("TaskLog.source", "The part of the system that wrote the line: task is the program, "
                           "master and agent write about it."),
    TEXT("TaskLog.stdtype", "The output that the line came from: stdout or stderr."),
    TEXT("LogLevel", "How serious a line is, from LOG_LEVEL_TRACE (details) to LOG_LEVEL_CRITICAL "
                     "(the program cannot go on); LOG_LEVEL_UNSPECIFIED is not used."),
    TEXT("LogFields", "The values by which a log can be filtered; at most 10,000 of each."),
    TEXT("LogFields.agentIds", "The agents that sent lines."),
    TEXT("LogFields.allocationIds", "The starts that wrote lines."),
    TEXT("LogFields.containerIds", "The containers that wrote lines."),
    TEXT("LogFields.rankIds", "The ranks that wrote lines."),
    TEXT("LogFields.sources", "The sources of lines."),
    TEXT("LogFields.stdtypes", "The outputs that lines came from."),
    // --- sending logs ----------------------------------------------------------------------------
    TEXT("logs", "The lines, at most 10,000."),
    TEXT("POST /task-logs", "The lines, at most 10,000."),
    TEXT("POST /api/v1/task/logs taskId",
         "The task of all lines that name none; it stands before the list. Default: none."),
    TEXT("POST /api/v1/task/logs allocationId",
         "The allocation of all lines that name none; it stands before the list. Default: none."),
    TEXT("POST /api/v1/task/logs agentId",
         "The agent of all lines that name none; it stands before the list. Default: none."),
    TEXT("POST /api/v1/task/logs containerId",
         "The container of all lines that name none; it stands before the list. Default: none."),
    TEXT("NewTaskLog", "A line to store."),
    TEXT("NewTaskLog.taskId",
         "The id of the task. A line of a task that does not exist is accepted and dropped."),
    TEXT("NewTaskLog.log", "The text; a line of more than 64 KiB is cut, and says so."),
    TEXT("NewTaskLog.timestamp",
         "The time at which the line was written. Default: the time of its arrival."),
    VALUE("NewTaskLog.level", "\"LOG_LEVEL_INFO\"", "How serious the line is."),
    TEXT("NewTaskLog.allocationId", "The start that wrote the line. Default: none."),
    TEXT("NewTaskLog.agentId", "The agent that sends the line. Default: none."),
    TEXT("NewTaskLog.containerId", "The container that wrote the line. Default: none."),
    TEXT("NewTaskLog.rankId", "The rank that wrote the line. Default: none."),
    VALUE("NewTaskLog.source", "\"task\"", "The part of the system that wrote the line."),
    VALUE("NewTaskLog.stdtype", "\"stdout\"", "The output that the line came from."),
    TEXT("NewTaskLog.id", "Accepted because Determined's clients send it, and ignored: the master "
                          "numbers the lines. Default: nothing."),
    TEXT("NewTaskLog.sequence",
         "The number of the line among those of its sender. A line whose number is not greater "
         "than the last one is a repetition and dropped. Default: the line is stored in any case."),
    // --- checkpoints -----------------------------------------------------------------------------
    TEXT("checkpoint", "The checkpoint that the call names."),
    TEXT("GET /api/v1/experiments/{experimentId}/checkpoints -> checkpoints",
         "The checkpoints of this page."),
    TEXT("GET /api/v1/trials/{trialId}/checkpoints -> checkpoints",
         "The checkpoints of this page."),
    TEXT("GET /api/v1/experiments/{experimentId}/checkpoints states",
         "States, with or without STATE_; checkpoints in one of them are listed. Default: all "
         "states."),
    TEXT("GET /api/v1/trials/{trialId}/checkpoints states",
         "States, with or without STATE_; checkpoints in one of them are listed. Default: all "
         "states."),
    TEXT("sortByAttr",
         "The order: SORT_BY_UUID, SORT_BY_TRIAL_ID, SORT_BY_BATCH_NUMBER, SORT_BY_START_TIME and "
         "SORT_BY_END_TIME (both the time of the report), SORT_BY_STATE, SORT_BY_SEARCHER_METRIC "
         "(best first unless orderBy says otherwise). Default: newest step first."),
    TEXT("sortByMetric", "The name of a validation metric by which the list is sorted; checkpoints "
                         "without it are left out. Default: sortByAttr."),
    TEXT("GET /checkpoints/{checkpointUuid} ->", "The files in one archive."),
    TEXT("POST /api/v1/checkpoints/{checkpointUuid}/metadata checkpoint",
         "An object whose member `metadata` is the new metadata."),
    TEXT("checkpointUuids", "The UUIDs of the checkpoints."),
    TEXT("checkpointGlobs", "Patterns of paths within the checkpoint: * ? [a-z] within one name, "
                            "** for any number of folders. Files that match one are removed."),
    TEXT("PATCH /api/v1/checkpoints checkpoints", "The checkpoints with the files that are left."),
    TEXT("PatchCheckpoint", "A checkpoint with the files that are left of it."),
    TEXT("PatchCheckpoint.uuid", "The UUID of the checkpoint."),
    TEXT("PatchCheckpoint.resources", "The files that are left. Default: unchanged."),
    TEXT("PatchCheckpointResources", "The files that are left of a checkpoint."),
    TEXT("PatchCheckpointResources.resources",
         "The size of each file, in bytes; an empty object: the checkpoint is deleted. Default: an "
         "empty object."),
    TEXT("Checkpoint", "A stored state of a trial."),
    TEXT("Checkpoint.uuid", "The UUID, which is also the name of its folder."),
    TEXT("Checkpoint.taskId",
         "The task that wrote it. Default: the calling task; a user must give it."),
    TEXT(
        "Checkpoint.allocationId",
        "The start that wrote it; one that has ended is refused. Default: the calling allocation."),
    TEXT("Checkpoint.reportTime", "The time of the report. Default: the time of its arrival."),
    TEXT("Checkpoint.resources", "The size of each file, in bytes."),
    TEXT("Checkpoint.metadata", "Notes of its program. steps_completed is required: the "
                                "step from which the trial resumes."),
    TEXT("Checkpoint.state", "The state of the checkpoint."),
    TEXT("Checkpoint.training",
         "The training that it belongs to; a report need not hold it, the master knows it."),
    TEXT("Checkpoint.storageId", "The number of its storage. In a report of an unmanaged trial it "
                                 "selects the storage. Default: the experiment's."),
    TEXT("Checkpoint.stepsCompleted",
         "The number of steps completed; a report gives it in metadata. Default: nothing."),
    TEXT("Checkpoint.storage", "The storage that holds it, as in the experiment's configuration. "
                               "Default: nothing; the master knows it."),
    TEXT("Checkpoint.removalError",
         "Why the files of a deleted checkpoint could not be removed, while its state is "
         "STATE_ERROR; the master tries again every hour. Default: nothing."),
    TEXT("CheckpointTraining", "The training that a checkpoint belongs to; ignored in a report."),
    TEXT("CheckpointTraining.trialId",
         "The id of the trial; absent: its trial is gone. Default: nothing."),
    TEXT("CheckpointTraining.experimentId", "The id of the experiment. Default: nothing."),
    TEXT("CheckpointTraining.experimentConfig",
         "The complete configuration of the experiment. Default: nothing."),
    TEXT("CheckpointTraining.hparams", "The hyperparameters of the trial. Default: nothing."),
    TEXT("CheckpointTraining.trainingMetrics", "Not sent. Default: nothing."),
    TEXT("CheckpointTraining.validationMetrics",
         "The validation at the same step; null: there was none. Default: nothing."),
    TEXT("CheckpointTraining.searcherMetric",
         "The value of the searcher's metric at the same step; absent: none. Default: nothing."),
    TEXT("CheckpointState", "The state of a checkpoint: STATE_COMPLETED has all its files, "
                            "STATE_PARTIALLY_DELETED some, STATE_DELETED none; STATE_ACTIVE is "
                            "being written, STATE_ERROR failed, or was deleted but its files "
                            "could not be removed; STATE_UNSPECIFIED is not used."),
    // --- reports of checkpoints' users -----------------------------------------------------------
    TEXT("GET /api/v1/checkpoints/{checkpointUuid}/metrics -> metrics",
         "The reports, by trial, group and step; at most 20,000."),
    TEXT("GET /api/v1/models/{modelName}/versions/{modelVersionNum}/metrics -> metrics",
         "The reports, by trial, group and step; at most 20,000."),
};

const struct description_table log_descriptions = {"descriptions_logs.c", rows,
                                                   sizeof rows / sizeof *rows};
