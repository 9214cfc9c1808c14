"""The keys that Determined's generated client reads from answers: facts about the wire (release
0.38).

OBJECTS names for each object the keys that the client requires (a missing one raises KeyError in
the client) and, with ?, the keys that it reads if they are present and not null. A key without a
type may hold anything; `:Other` is an object or an enumeration of this module, [T] a list, {T} a
map. ENUMS are closed in the client: any other word raises ValueError. Keys that only the SDK or
the commands assert are also required here: User.id, the numbers of a page, the experiment of a
checkpoint.
"""

OBJECTS = """
Agent            id slotStats:SlotStats containers?:{Container} slots?:{Slot} resourcePools? addresses? enabled?
                 draining? registeredTime? version?
SlotStats        brandStats:{DeviceStats} typeStats:{DeviceStats}
DeviceStats      disabled draining total
Slot             id device:Device enabled draining? container?:Container
Device           brand? id? type?:DeviceType uuid?
Container        id state:ContainerState devices?:[Device] parent?
AllocationSummary allocationId name priority? registeredTime resourcePool resources:[ResourcesSummary]
                 schedulerType slotsNeeded taskId proxyPorts?
ResourcesSummary containerId? agentDevices allocationId
Allocation       allocationId slots state:TaskState taskId
Task             allocations:[Allocation] startTime taskId taskType:TaskType taskState?:GenericTaskState
Checkpoint       metadata resources state:CheckpointState training:CheckpointTraining uuid taskId? allocationId?
                 reportTime? storageId?
CheckpointTraining experimentConfig experimentId trialId hparams? searcherMetric? trainingMetrics?:Metrics
                 validationMetrics?:Metrics
CheckpointWorkload state:CheckpointState totalBatches endTime? metadata? resources? uuid?
ClusterMessage   message startTime createdTime? endTime?
Command          description id jobId resourcePool startTime state:TaskState username workspaceId
                 container?:Container
Experiment       archived config id jobId name numTrials originalConfig projectId projectOwnerId searcherType
                 startTime state:ExperimentState username labels? notes? description? progress? trialIds?
ActionResult     error id
FoundExperiment  experiment:Experiment bestTrial?:Trial
ComparableTrial  trial:Trial metrics:[ThinnedMetrics]
ThinnedMetrics   data:[MetricPoint] group type:MetricType
MetricPoint      batches time values?
MetricName       group name
MetricRange      max metricsName min
ProfilerBatch    batches labels:ProfilerLabels timestamps values
ProfilerLabels   name trialId agentId? gpuUuid? metricType?
ProjectColumn    column location type displayName?
SampleTrial      data:[MetricPoint] hparams trialId
SnapshotTrial    batchesProcessed hparams metric trialId
File             content gid mode mtime path type uid
FileNode         files?:[FileNode] name? path? isDir? contentLength? contentType? modifiedTime?
Job              allocatedSlots entityId isPreemptible jobId name requestedSlots resourcePool submissionTime
                 type:JobType username workspaceId summary?:JobSummary
LimitedJob       allocatedSlots isPreemptible jobId requestedSlots resourcePool type:JobType workspaceId
                 summary?:JobSummary
JobSummary       jobsAhead state:JobState
RBACJob          full?:Job limited?:LimitedJob
LogEntry         id level:LogLevel message timestamp
Master           clusterId clusterName masterId strictJobQueueControl version hasCustomLogo
                 clusterMessage?:ClusterMessage
Metrics          avgMetrics batchMetrics?
MetricsReport    archived endTime group id metrics totalBatches trialId trialRunId
MetricsWorkload  metrics:Metrics numInputs totalBatches endTime?
Model            archived creationTime id lastUpdatedTime metadata name numVersions userId username workspaceId
ModelVersion     checkpoint:Checkpoint creationTime id lastUpdatedTime model:Model version
Note             contents name
Pagination       endIndex total offset limit startIndex
PoolDetails      priorityScheduler?:PriorityScheduler
PriorityScheduler preemption defaultPriority
PoolQueueStats   resourcePool stats:QueueStats aggregates?
Project          archived errorMessage id immutable key name notes:[Note] numActiveExperiments numExperiments
                 numRuns state:WorkspaceState userId username workspaceId
QueueStats       queuedCount scheduledCount
RendezvousInfo   addresses rank slots
ResourcePool     agentDockerImage agentDockerNetwork agentDockerRuntime agentFluentImage auxContainerCapacity
                 auxContainerCapacityPerAgent auxContainersRunning clusterName containerStartupScript
                 defaultAuxPool defaultComputePool description details:PoolDetails imageId instanceType location
                 masterCertName masterUrl maxAgentStartingPeriod maxAgents maxIdleAgentPeriod minAgents name
                 numAgents preemptible resourceManagerMetadata schedulerFittingPolicy:FittingPolicy
                 schedulerType:SchedulerType slotType:DeviceType slotsAvailable slotsUsed startupScript
                 type:ResourcePoolType stats?:QueueStats
TaskLog          id level:LogLevel log message taskId timestamp
Template         config name workspaceId
Trial            experimentId hparams id restarts startTime state:TrialState totalBatchesProcessed taskIds
                 bestCheckpoint?:CheckpointWorkload bestValidation?:MetricsWorkload
                 latestValidation?:MetricsWorkload summaryMetrics?
TrialLog         id level:LogLevel message timestamp trialId
Trigger          id? triggerType?:TriggerType webhookId?
User             active admin username id
Webhook          url webhookType:WebhookType id? triggers?:[Trigger]
WorkloadContainer checkpoint?:CheckpointWorkload training?:MetricsWorkload validation?:MetricsWorkload
Workspace        archived errorMessage id immutable name numExperiments numProjects pinned state:WorkspaceState
                 userId username
"""

ENUMS = """
CheckpointState  STATE_ ACTIVE COMPLETED ERROR DELETED PARTIALLY_DELETED
ContainerState   STATE_ ASSIGNED PULLING STARTING RUNNING TERMINATED
DeviceType       TYPE_ CPU CUDA ROCM
ExperimentState  STATE_ ACTIVE PAUSED STOPPING_COMPLETED STOPPING_CANCELED STOPPING_ERROR COMPLETED CANCELED ERROR
                 DELETED DELETING DELETE_FAILED STOPPING_KILLED QUEUED PULLING STARTING RUNNING
MetricType       METRIC_TYPE_ UNSPECIFIED TRAINING VALIDATION PROFILING
FittingPolicy    FITTING_POLICY_ BEST WORST KUBERNETES SLURM PBS
GenericTaskState GENERIC_TASK_STATE_ ACTIVE CANCELED COMPLETED ERROR PAUSED STOPPING_PAUSED STOPPING_CANCELED
                 STOPPING_COMPLETED STOPPING_ERROR
JobState         STATE_ QUEUED SCHEDULED SCHEDULED_BACKFILLED
JobType          TYPE_ EXPERIMENT NOTEBOOK TENSORBOARD SHELL COMMAND CHECKPOINT_GC EXTERNAL GENERIC
LaunchWarning    LAUNCH_WARNING_ CURRENT_SLOTS_EXCEEDED
LogLevel         LOG_LEVEL_ TRACE DEBUG INFO WARNING ERROR CRITICAL
ResourcePoolType RESOURCE_POOL_TYPE_ AWS GCP STATIC K8S
SchedulerType    SCHEDULER_TYPE_ PRIORITY FAIR_SHARE ROUND_ROBIN KUBERNETES SLURM PBS
TaskState        STATE_ PULLING STARTING RUNNING TERMINATED TERMINATING WAITING QUEUED
TaskType         TASK_TYPE_ TRIAL NOTEBOOK SHELL COMMAND TENSORBOARD CHECKPOINT_GC GENERIC
TrialState       STATE_ ACTIVE PAUSED STOPPING_CANCELED STOPPING_KILLED STOPPING_COMPLETED STOPPING_ERROR CANCELED
                 COMPLETED ERROR QUEUED PULLING STARTING RUNNING
TriggerType      TRIGGER_TYPE_ EXPERIMENT_STATE_CHANGE METRIC_THRESHOLD_EXCEEDED TASK_LOG CUSTOM
WebhookType      WEBHOOK_TYPE_ DEFAULT SLACK
WorkspaceState   WORKSPACE_STATE_ DELETING DELETE_FAILED DELETED
"""


def rows(text):
    """Returns {first word: the other words}; a line that begins with a blank continues the previous
    one."""
    found = {}
    for line in text.strip().splitlines():
        words = line.split()
        if line[0] != " ":
            name, words = words[0], words[1:]
        found.setdefault(name, []).extend(words)
    return found


objects = rows(OBJECTS)
enums = {name: {words[0] + word for word in (*words[1:], "UNSPECIFIED")} for name, words in rows(ENUMS).items()}


def read(fields, value, where):
    """Reads the fields of an object as the client does; raises AssertionError where the client
    would fail."""
    assert isinstance(value, dict), f"{where}: {str(value)[:200]!r} is not an object"
    for field in fields:
        key, _, kind = field.partition(":")
        name = key.removesuffix("?")
        if name not in value or value[name] is None:
            assert key.endswith("?"), f"{where}: the client needs \"{name}\"; the object has {sorted(value)}"
        elif kind:
            read_kind(kind, value[name], f"{where}.{name}")


def read_kind(kind, value, where):
    if kind[0] == "[":
        assert isinstance(value, list), f"{where} is not a list"
        for i, item in enumerate(value):
            read_kind(kind[1:-1], item, f"{where}[{i}]")
    elif kind[0] == "{":
        assert isinstance(value, dict), f"{where} is not an object"
        for key, item in value.items():
            read_kind(kind[1:-1], item, f"{where}.{key}")
    elif kind in enums:
        assert value in enums[kind], f"{where}: the client does not know the {kind} {value!r}"
    else:
        read(objects[kind], value, where)
