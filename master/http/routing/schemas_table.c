// The objects of the API and their words, as Determined's client reads them: a field that the
// client requires has no `?`. schemas.h describes the notation.

#include "master/http/routing/schemas.h"

#include <string.h>

#define OBJECT(name_, ...)                                                                         \
    {                                                                                              \
        .name = name_, .fields = __VA_ARGS__                                                       \
    }
#define OURS(name_, ...)                                                                           \
    {                                                                                              \
        .name = name_, .ours = true, .fields = __VA_ARGS__                                         \
    }
#define WORDS(name_, prefix_, ...)                                                                 \
    {                                                                                              \
        .name = name_, .prefix = prefix_, .words = __VA_ARGS__                                     \
    }
#define WIRE(name_, table_)                                                                        \
    {                                                                                              \
        .name = name_, .wire_name = table_                                                         \
    }

// The common fields of commands, shells, notebooks and tensorboards.
#define TASK_FIELDS                                                                                \
    "id:string description:string state:AllocationState startTime:time container?:Container "      \
    "displayName?:string userId?:int username:string resourcePool:string exitStatus?:string "      \
    "jobId:string workspaceId:int +endTime?:time +exitCode?:int"

const struct schema schema_table[] = {
    OBJECT("Error", "error:ErrorBody message?:string"),
    OBJECT("ErrorBody", "code:int reason:string error:string"),
    OBJECT("StreamError", "grpcCode:int httpCode:int message:string httpStatus:string"),
    OBJECT("Pagination", "offset:int limit:int startIndex:int endIndex:int total:int"),

    OBJECT(
        "Master",
        "version:string +musterVersion?:string masterId:string clusterId:string clusterName:string "
        "strictJobQueueControl:bool hasCustomLogo:bool telemetryEnabled?:bool "
        "ssoProviders?:[object] externalLoginUri?:string externalLogoutUri?:string "
        "branding?:string rbacEnabled?:bool product?:string userManagementEnabled?:bool "
        "featureSwitches?:[string] clusterMessage?:ClusterMessage"),
    OBJECT("SchedulerHealth", "cluster_name:string status:string"),
    OBJECT("ClusterMessage", "message:string startTime:time endTime?:time createdTime?:time"),

    // users
    OBJECT("User", "id:int username:string admin:bool active:bool displayName?:string "
                   "agentUserGroup?:AgentUserGroup modifiedAt?:time remote?:bool lastAuthAt?:time"),
    OBJECT("AgentUserGroup", "agentUid?:int agentGid?:int agentUser?:string agentGroup?:string"),
    OBJECT("NewUser", "username:string admin?:bool active?:bool displayName?:string id?:int "
                      "agentUserGroup?:AgentUserGroup remote?:bool lastAuthAt?:time "
                      "modifiedAt?:time"),
    OBJECT("PatchUser", "username?:string password?:string isHashed?:bool admin?:bool active?:bool "
                        "displayName?:string agentUserGroup?:AgentUserGroup remote?:bool"),
    OBJECT("Enrolment", "id:int agentId?:string pool:string username:string createdAt:time "
                        "expiresAt:time usesLeft:int"),
    OBJECT("AgentCredential", "agentId:string createdAt:time lastSeen?:time enrolmentId:int"),
    OBJECT("TokenInfo", "id:int userId:int expiry?:time createdAt?:time tokenType?:TokenType "
                        "revoked?:bool description?:string"),
    WORDS("TokenType", "TOKEN_TYPE_", "USER_SESSION ACCESS_TOKEN"),
    OURS("AuditRow", "id:int time:time userId?:int username:string address:string method:string "
                     "path:string status:int detail:string"),
    OURS("Alert", "id:int kind:AlertKind subject:string text:string beganAt:time endedAt?:time"),
    WORDS("AlertKind", "", "AGENT_LOST STORE_SLOW DISK_FILLING BACKUP_OVERDUE"),
    OBJECT("ActionResult", "id:int error:string"),
    OURS("Import", "id:int keepsIds:bool lastExperiment:int"),
    OURS("ImportResult", "outcome:ImportOutcome id:int reason?:string"),
    WORDS("ImportOutcome", "", "NEW EXISTING CHANGED SKIPPED"),
    OBJECT("UserSetting", "key:string value?:string storagePath?:string"),

    // workspaces and projects
    OBJECT("Workspace",
           "id:int name:string archived:bool username:string userId:int immutable:bool "
           "numProjects:int numExperiments:int pinned:bool pinnedAt?:time state:WorkspaceState "
           "errorMessage:string agentUserGroup?:AgentUserGroup checkpointStorageConfig?:object "
           "defaultComputePool?:string defaultAuxPool?:string +weight?:number "
           "+guaranteedSlots?:int +maxSlots?:int +defaultRole?:Role +numMembers?:int"),
    OBJECT("Project", "id:int name:string workspaceId:int workspaceName?:string "
                      "description?:string lastExperimentStartedAt?:time notes:[Note] "
                      "numExperiments:int numActiveExperiments:int numRuns:int archived:bool "
                      "username:string userId:int immutable:bool state:WorkspaceState "
                      "errorMessage:string key:string"),
    OBJECT("Note", "name:string contents:string"),
    OBJECT("ProjectColumn", "column:string displayName?:string location:ColumnLocation "
                            "type:ColumnType"),
    WORDS("ColumnLocation", "LOCATION_TYPE_",
          "UNSPECIFIED EXPERIMENT HYPERPARAMETERS VALIDATIONS TRAINING CUSTOM_METRIC RUN "
          "RUN_HYPERPARAMETERS"),
    WORDS("ColumnType", "COLUMN_TYPE_", "UNSPECIFIED TEXT NUMBER DATE"),
    OBJECT("MetricRange", "metricsName:string min:float max:float"),
    WORDS("WorkspaceState", "WORKSPACE_STATE_", "DELETING DELETE_FAILED DELETED"),
    OURS("Member", "userId:int username:string role:string weight:number maxSlots:int"),
    {.name = "Role", .prefix = "", .words = "none viewer editor admin", .ours = true},

    // experiments
    OBJECT("Experiment",
           "id:int name:string description?:string notes?:string labels?:[string] state:"
           "ExperimentState archived:bool startTime:time endTime?:time numTrials:int "
           "trialIds?:[int] userId?:int username:string displayName?:string resourcePool?:string "
           "searcherType:string searcherMetric?:string jobId:string forkedFrom?:int "
           "progress?:number projectId:int projectName?:string projectOwnerId:int workspaceId?:int "
           "workspaceName?:string parentArchived?:bool config:object originalConfig:string "
           "checkpointCount?:int checkpointSize?:digits bestTrialId?:int "
           "bestTrialSearcherMetric?:float duration?:int unmanaged?:bool modelDefinitionSize?:int "
           "hyperparameters?:object externalExperimentId?:string externalTrialId?:string "
           "pachydermIntegration?:object +seed?:int +priority?:int +liveAllocations?:int "
           "+runSeconds?:number +ranSeconds?:number +waitedSeconds?:number +failure?:string "
           "+failureSummary?:string +metricWarning?:string"),
    OURS("Field", "name:string type:string lists:[string] optional:bool sortable:bool help:string "
                  "names?:[string]"),
    OBJECT("File", "path:string type:int content:base64 mode:int mtime:digits uid:int gid:int"),
    OBJECT("FileNode", "path?:string name?:string modifiedTime?:time contentLength?:int "
                       "isDir?:bool contentType?:string files?:[FileNode]"),
    OBJECT("PatchExperiment",
           "id?:int name?:string description?:string notes?:string labels?:[string] "
           "resources?:PatchResources checkpointStorage?:PatchCheckpointStorage"),
    OBJECT("PatchResources",
           "maxSlots?:int weight?:number priority?:int +slotsPerTrial?:int +minSlots?:int"),
    OBJECT("PatchCheckpointStorage",
           "saveExperimentBest?:int saveTrialBest?:int saveTrialLatest?:int"),
    OBJECT("FoundExperiment", "experiment:Experiment bestTrial?:Trial"),
    OBJECT("ExperimentFilters",
           "archived?:bool description?:string excludedExperimentIds?:[int] labels?:[string] "
           "name?:string projectId?:int states?:[ExperimentState] userIds?:[int]"),
    OBJECT("ValidationHistoryEntry", "trialId:int endTime:time searcherMetric:float"),
    WORDS("LaunchWarning", "LAUNCH_WARNING_", "CURRENT_SLOTS_EXCEEDED"),
    OURS(
        "WaitReason",
        "trialId:int allocationId:string code:string reason:string resource:string "
        "needs:int free:int largestFree:int largestAgent:int total:int "
        "fitsWith:int place:int ahead:int leaving:int estimatedStart?:time behindExperimentId?:int "
        "teamName:string"),

    // trials
    OBJECT("Trial",
           "id:int experimentId:int state:TrialState startTime:time endTime?:time hparams:object "
           "totalBatchesProcessed:int restarts:int bestValidation?:MetricsWorkload "
           "latestValidation?:MetricsWorkload latestTraining?:MetricsWorkload "
           "bestCheckpoint?:CheckpointWorkload runnerState?:string wallClockTime?:number "
           "+waitedSeconds?:number "
           "warmStartCheckpointUuid?:string taskId?:string taskIds?:[string] "
           "totalCheckpointSize?:digits checkpointCount?:int summaryMetrics?:object "
           "searcherMetricValue?:float logRetentionDays?:int metadata?:object "
           "+latestCheckpoint?:string +progress?:number +exitReason?:string +runId?:int "
           "+seed?:int +unmanaged?:bool +lastWords?:string +restartTime?:time +failedAlike?:int "
           "+liveAllocations?:int +sourceTrialId?:int"),
    OURS("MediaReport", "step:int name:string type:string format?:string digest:string size:int "
                        "time?:int"),
    OURS("MediaItem", "step:int name:string type:string format:string digest:string size:int "
                      "time:time trialRunId:int"),
    OURS("MediaName", "name:string type:string count:int firstStep:int lastStep:int"),
    OBJECT("MetricsWorkload", "endTime?:time metrics:Metrics numInputs:int totalBatches:int"),
    OBJECT("Metrics", "avgMetrics:object batchMetrics?:[object]"),
    OBJECT("CheckpointWorkload", "uuid?:string endTime?:time state:CheckpointState "
                                 "resources?:{digits} totalBatches:int metadata?:object"),
    OBJECT("WorkloadContainer", "training?:MetricsWorkload validation?:MetricsWorkload "
                                "checkpoint?:CheckpointWorkload"),
    OBJECT("MetricsReport", "trialId:int endTime:time metrics:object totalBatches:int "
                            "archived:bool id:int trialRunId:int group:string"),
    OBJECT("MetricName", "group:string name:string"),
    OBJECT("ComparableTrial", "trial:Trial metrics:[ThinnedMetrics]"),
    OBJECT("ThinnedMetrics", "group:string type:MetricType data:[MetricPoint]"),
    OBJECT("MetricPoint", "batches:int time:time values:object"),
    OBJECT("ProfilerLabels", "trialId:int name:string agentId?:string gpuUuid?:string "
                             "metricType?:string"),
    OBJECT("ProfilerBatch", "values:[float] batches:[int] timestamps:[time] "
                            "labels:ProfilerLabels"),
    OBJECT("SnapshotTrial", "trialId:int hparams:object metric:float batchesProcessed:int"),
    OBJECT("SampleTrial", "trialId:int hparams:object data:[MetricPoint]"),
    WORDS("MetricType", "METRIC_TYPE_", "UNSPECIFIED TRAINING VALIDATION PROFILING"),
    OBJECT("TrialMetrics", "trialId:int trialRunId:int stepsCompleted?:int reportTime?:time "
                           "metrics:Metrics"),
    OBJECT("CreateTrial", "experimentId?:int hparams?:object unmanaged?:bool"),
    OBJECT("TrialSourceInfo", "trialId:int checkpointUuid:string modelId?:int modelVersion?:int "
                              "trialSourceInfoType:TrialSourceInfoType"),
    WORDS("TrialSourceInfoType", "TRIAL_SOURCE_INFO_TYPE_", "INFERENCE FINE_TUNING"),
    WORDS("ExitedReason", "EXITED_REASON_", "INVALID_HP USER_REQUESTED_STOP INIT_INVALID_HP"),
    OURS("Series", "metric:string total:int shown:int steps:[int] times:[number] values:[float]"),
    OURS("Start", "allocationId:string trialId:int epoch:int state:AllocationState slots:int "
                  "agents:[string] parts:[StartPart] queuedTime?:time startTime?:time "
                  "endTime?:time reason:string cause:string preemptedForTrialId?:int"),
    OURS("StartPart", "agent:string slots:[int] ranks:[int] near?:string"),
    OURS("SearchBracket", "trials:int concurrent:int created:int rungs:[SearchRung]"),
    OURS("SearchRung", "time:number goOn:int marks:[SearchMark] size?:int"),
    OURS("PreviewTrial", "number:int hparams?:object seed?:int certain:bool typicalTime?:number "
                         "sourceNumber?:int"),
    OURS("PreviewBracket", "trials:int concurrent:int rungs:[PreviewRung]"),
    OURS("PreviewRung", "time:number reached:int"),
    OURS("SearchMark", "trialId:int metric?:number"),

    // logs
    OBJECT("TrialLog", "id:string timestamp:time level:LogLevel message:string trialId:int "
                       "log?:string agentId?:string containerId?:string rankId?:int "
                       "source?:string stdtype?:string +taskId?:string +allocationId?:string"),
    OBJECT("TaskLog", "id:string timestamp:time level:LogLevel message:string taskId:string "
                      "log:string allocationId?:string agentId?:string containerId?:string "
                      "rankId?:int source?:string stdtype?:string"),
    OBJECT("NewTaskLog", "taskId:string log:string timestamp?:time level?:LogLevel "
                         "allocationId?:string agentId?:string containerId?:string rankId?:int "
                         "source?:string stdtype?:string id?:int +sequence?:int"),
    OBJECT("LogFields", "agentIds?:[string] allocationIds?:[string] containerIds?:[string] "
                        "rankIds?:[int] sources?:[string] stdtypes?:[string]"),
    OBJECT("LogEntry", "id:int message:string timestamp:time level:LogLevel"),

    // checkpoints and models
    OBJECT("Checkpoint",
           "uuid:string taskId?:string allocationId?:string reportTime?:time resources:{digits} "
           "metadata:object state:CheckpointState training:CheckpointTraining storageId?:int "
           "+stepsCompleted?:int +storage?:object +removalError?:string"),
    OBJECT("CheckpointTraining",
           "trialId?:int experimentId?:int experimentConfig?:object hparams?:object "
           "trainingMetrics?:Metrics validationMetrics?:Metrics searcherMetric?:float"),
    OBJECT("PatchCheckpoint", "uuid:string resources?:PatchCheckpointResources"),
    OBJECT("PatchCheckpointResources", "resources?:{digits}"),
    OBJECT("Model", "id:int name:string description?:string metadata:object creationTime:time "
                    "lastUpdatedTime:time numVersions:int labels?:[string] username:string "
                    "userId:int archived:bool notes?:string workspaceId:int"),
    OBJECT("ModelVersion", "id:int version:int model:Model checkpoint:Checkpoint creationTime:time "
                           "lastUpdatedTime:time name?:string metadata?:object comment?:string "
                           "username?:string userId?:int labels?:[string] notes?:string"),
    OBJECT("Template", "name:string config:object workspaceId:int"),
    OBJECT("Webhook", "id?:int url:string triggers?:[Trigger] webhookType:WebhookType name:string "
                      "mode:WebhookMode workspaceId?:int"),
    OBJECT("Trigger", "id?:int triggerType?:TriggerType condition?:object webhookId?:int"),
    WORDS("WebhookType", "WEBHOOK_TYPE_", "DEFAULT SLACK"),
    WORDS("WebhookMode", "WEBHOOK_MODE_", "WORKSPACE SPECIFIC"),
    WORDS("TriggerType", "TRIGGER_TYPE_",
          "EXPERIMENT_STATE_CHANGE METRIC_THRESHOLD_EXCEEDED TASK_LOG CUSTOM CLUSTER_ALERT"),

    // tasks
    OBJECT("Task", "taskId:string taskType:TaskType allocations:[Allocation] startTime:time "
                   "endTime?:time config?:string parentId?:string forkedFrom?:string "
                   "noPause?:bool taskState?:GenericTaskState"),
    OBJECT("Allocation", "taskId:string allocationId:string state:AllocationState slots:int "
                         "isReady?:bool startTime?:time endTime?:time exitReason?:string "
                         "statusCode?:int"),
    OBJECT("AllocationSummary",
           "taskId?:string allocationId?:string name?:string registeredTime?:time "
           "resourcePool?:string slotsNeeded?:int resources?:[ResourcesSummary] "
           "schedulerType?:string priority?:int proxyPorts?:[object] +state?:AllocationState "
           "+jobName?:string"),
    OBJECT("ResourcesSummary", "resourcesId?:string resourcesType?:string allocationId?:string "
                               "containerId?:string agentDevices?:{Devices} exited?:object "
                               "started?:object"),
    OBJECT("Devices", "devices?:[Device]"),
    OBJECT("Command", TASK_FIELDS),
    OBJECT("Shell", TASK_FIELDS " privateKey?:string publicKey?:string addresses?:[object] "
                                "agentUserGroup?:object"),
    OBJECT("Notebook", TASK_FIELDS " serviceAddress?:string"),
    OBJECT("Tensorboard",
           TASK_FIELDS " serviceAddress?:string experimentIds?:[int] trialIds?:[int]"),
    OURS("GenericTask", TASK_FIELDS " taskState:GenericTaskState parentId?:string "
                                    "forkedFrom?:string noPause:bool"),
    WORDS("TaskType", "TASK_TYPE_",
          "TRIAL NOTEBOOK SHELL COMMAND TENSORBOARD CHECKPOINT_GC GENERIC"),
    WORDS("GenericTaskState", "GENERIC_TASK_STATE_",
          "ACTIVE CANCELED COMPLETED ERROR PAUSED STOPPING_PAUSED STOPPING_CANCELED "
          "STOPPING_COMPLETED STOPPING_ERROR"),
    OBJECT("RendezvousInfo", "addresses:[string] rank:int slots:[int]"),
    OBJECT("AcceleratorData",
           "containerId?:string allocationId?:string nodeName?:string taskId?:string "
           "acceleratorType?:string acceleratorUuids?:[string] resourcePool?:string"),

    // agents, pools, the queue
    OBJECT("Agent", "id:string registeredTime?:time slots?:{Slot} containers?:{Container} "
                    "resourcePools?:[string] addresses?:[string] enabled?:bool draining?:bool "
                    "version?:string slotStats:SlotStats +label?:string +hostname?:string "
                    "+rack?:string +connected?:bool +lost?:bool +lastSeen?:time "
                    "+ran?:[AgentRun] +protections?:[Protection] +taskLimits?:TaskLimits"),
    OURS("Protection", "name:string active:bool reason:string"),
    OURS("TaskLimits", "processes:int memory:int disk:int files:int diskFloor:int"),
    OBJECT("AgentRun", "allocationId:string slots:[int]"),
    OBJECT("SlotStats", "typeStats:{DeviceStats} brandStats:{DeviceStats}"),
    OBJECT("DeviceStats", "states?:{int} disabled:int draining:int total:int"),
    OBJECT("Slot", "id?:string device?:Device enabled?:bool container?:Container draining?:bool "
                   "+fault?:SlotFault +use?:{number}"),
    OBJECT("Device", "id?:int brand?:string uuid?:string type?:DeviceType +memory?:int "
                     "+pciBusId?:string +driver?:string +nvlinkGroup?:int +numaGroup?:int"),
    OURS("SlotFault", "grade:string reason:string time?:time overruled:bool"),
    OBJECT("Container", "id:string parent?:string state:ContainerState devices?:[Device] "
                        "permissionDenied?:bool +allocationId?:string"),
    WORDS("ContainerState", "STATE_", "ASSIGNED PULLING STARTING RUNNING TERMINATED"),
    OBJECT("ResourcePool",
           "name:string description:string type:ResourcePoolType numAgents:int slotsAvailable:int "
           "slotsUsed:int slotType:DeviceType auxContainerCapacity:int auxContainersRunning:int "
           "defaultComputePool:bool defaultAuxPool:bool preemptible:bool minAgents:int "
           "maxAgents:int slotsPerAgent?:int auxContainerCapacityPerAgent:int "
           "schedulerType:SchedulerType schedulerFittingPolicy:FittingPolicy location:string "
           "imageId:string instanceType:string masterUrl:string masterCertName:string "
           "startupScript:string containerStartupScript:string agentDockerNetwork:string "
           "agentDockerRuntime:string agentDockerImage:string agentFluentImage:string "
           "maxIdleAgentPeriod:number maxAgentStartingPeriod:number details:PoolDetails "
           "accelerator?:string stats?:QueueStats resourceManagerName?:string clusterName:string "
           "resourceManagerMetadata:{string} +scheduler?:string +agentsAway?:int "
           "+maxUserPriority?:int"),
    OBJECT("PoolDetails", "priorityScheduler?:PrioritySchedulerDetails"),
    OBJECT("PrioritySchedulerDetails", "preemption:bool defaultPriority:int"),
    WORDS("ResourcePoolType", "RESOURCE_POOL_TYPE_", "AWS GCP STATIC K8S"),
    WORDS("SchedulerType", "SCHEDULER_TYPE_",
          "PRIORITY FAIR_SHARE ROUND_ROBIN KUBERNETES SLURM PBS"),
    WORDS("FittingPolicy", "FITTING_POLICY_", "BEST WORST KUBERNETES SLURM PBS"),
    OBJECT("QueueStats", "queuedCount:int scheduledCount:int"),
    OBJECT("PoolQueueStats",
           "resourcePool:string stats:QueueStats aggregates?:[AggregateQueueStats]"),
    OBJECT("AggregateQueueStats", "periodStart:string seconds:number"),
    OBJECT("RBACJob", "full?:Job limited?:LimitedJob"),
    OBJECT("Job",
           "summary?:JobSummary type:JobType submissionTime:time username:string userId?:int "
           "resourcePool:string isPreemptible:bool priority?:int weight?:number "
           "entityId:string jobId:string requestedSlots:int allocatedSlots:int name:string "
           "progress?:number workspaceId:int +place?:int +reason?:string +reasonCode?:string "
           "+estimatedStart?:time"),
    OBJECT("LimitedJob", "summary?:JobSummary type:JobType resourcePool:string isPreemptible:bool "
                         "priority?:int weight?:number jobId:string requestedSlots:int "
                         "allocatedSlots:int progress?:number workspaceId:int"),
    OBJECT("JobSummary", "state:JobState jobsAhead:int +place?:int +reasonCode?:string "
                         "+estimatedStart?:time"),
    OBJECT("QueueControl", "jobId:string priority?:int weight?:number resourcePool?:string "
                           "aheadOf?:string behindOf?:string"),
    WORDS("JobState", "STATE_", "QUEUED SCHEDULED SCHEDULED_BACKFILLED"),
    WORDS("JobType", "TYPE_",
          "EXPERIMENT NOTEBOOK TENSORBOARD SHELL COMMAND CHECKPOINT_GC EXTERNAL GENERIC"),
    OURS("Simulated", "nodes:int slots:int jobs:int tooLarge:int neverStarted:int "
                      "completionHours:SimulatedSpread "
                      "waits:[SimulatedWait] use:number makespanHours:number preemptions:int"),
    OURS("SimulatedSpread", "count:int mean:number median:number p99:number max:number"),
    OURS("SimulatedWait", "slots:string hours:SimulatedSpread"),
    OURS("Share", "resourcePool:string workspaceId:int workspaceName:string userId?:int "
                  "username:string weight:number guaranteedSlots:int maxSlots:int usedSlots:int "
                  "wantedSlots:int entitledSlots:int usageSlotHours:number debtSlotHours:number "
                  "waitingJobs:int runningJobs:int"),

    // words
    WIRE("ExperimentState", WIRE_EXPERIMENT_STATE),
    WIRE("TrialState", WIRE_TRIAL_STATE),
    WIRE("CheckpointState", WIRE_CHECKPOINT_STATE),
    WIRE("AllocationState", WIRE_ALLOCATION_STATE),
    WIRE("LogLevel", WIRE_LOG_LEVEL),
    WIRE("DeviceType", WIRE_DEVICE_TYPE),
    WORDS("OrderBy", "ORDER_BY_", "ASC DESC"),
};

const size_t schema_count = sizeof schema_table / sizeof *schema_table;

static const struct {
    const char *name, *type;
} parameters[] = {
    // in paths
    {"experimentId", "int"},
    {"trialId", "int"},
    {"runId", "int"},
    {"workspaceId", "int"},
    {"projectId", "int"},
    {"userId", "int"},
    {"slotId", "int"},
    {"webhookId", "int"},
    {"tokenId", "int"},
    {"enrolmentId", "int"},
    {"groupId", "int"},
    // in queries
    {"offset", "int"},
    {"limit", "int"},
    {"orderBy", "OrderBy"},
    {"max", "int"},
    {"timeoutSeconds", "int"},
    {"archived", "bool"},
    {"active", "bool"},
    {"admin", "bool"},
    {"follow", "bool"},
    {"enableRegex", "bool"},
    {"includeBatchMetrics", "bool"},
    {"removeDeletedCheckpoints", "bool"},
    {"showTrialData", "bool"},
    {"states", "[string]"},
    {"users", "[string]"},
    {"labels", "[string]"},
    {"agentIds", "[string]"},
    {"allocationIds", "[string]"},
    {"containerIds", "[string]"},
    {"sources", "[string]"},
    {"stdtypes", "[string]"},
    {"levels", "[LogLevel]"},
    {"userIds", "[int]"},
    {"trialIds", "[int]"},
    {"experimentIds", "[int]"},
    {"rankIds", "[int]"},
    {"timestampBefore", "time"},
    {"timestampAfter", "time"},
};

const char *schema_of_parameter(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (strlen(parameters[i].name) == len && !memcmp(parameters[i].name, name, len))
            return parameters[i].type;
    return "string";
}
