// The objects of the REST API, as far as the page uses them. The master's own list of them is
// master/http/routing/schemas_table.c, and GET /api/v1/openapi.json.

export interface Pagination {
    offset: number;
    limit: number;
    startIndex: number;
    endIndex: number;
    total: number;
}

export interface Paged {
    pagination: Pagination;
    nextCursor?: string | null;
    totalIsLeast?: boolean;
}

export interface User {
    id: number;
    username: string;
    admin: boolean;
    active: boolean;
    displayName?: string;
    modifiedAt?: string;
    lastAuthAt?: string;
}

export type Role = "none" | "viewer" | "editor" | "admin";

export interface Workspace {
    id: number;
    name: string;
    archived: boolean;
    username: string;
    userId: number;
    immutable: boolean;
    numProjects: number;
    numExperiments: number;
    weight?: number;
    guaranteedSlots?: number;
    maxSlots?: number;
    defaultRole?: Role;
    numMembers?: number;
}

export interface Member {
    userId: number;
    username: string;
    role: Role;
    weight: number;
    maxSlots: number;
}

export interface Project {
    id: number;
    name: string;
    workspaceId: number;
    workspaceName?: string;
    description?: string;
    numExperiments: number;
    numActiveExperiments: number;
    archived: boolean;
    userId: number;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface Experiment {
    id: number;
    name: string;
    description?: string;
    notes?: string;
    labels?: string[];
    state: string;
    archived: boolean;
    startTime: string;
    endTime?: string | null;
    numTrials: number;
    trialIds?: number[];
    userId?: number;
    username: string;
    displayName?: string;
    resourcePool?: string;
    searcherType: string;
    searcherMetric?: string;
    jobId: string;
    forkedFrom?: number | null;
    progress?: number;
    projectId: number;
    projectName?: string;
    workspaceId?: number;
    workspaceName?: string;
    parentArchived?: boolean;
    config?: JsonObject;
    originalConfig?: string;
    checkpointCount?: number;
    checkpointSize?: string;
    bestTrialId?: number;
    bestTrialSearcherMetric?: number | null;
    duration?: number;
    unmanaged?: boolean;
    hyperparameters?: JsonObject;
    seed?: number;
    priority?: number;
    liveAllocations?: number;
    /** The reason of its newest trial that failed. */
    failure?: string;
    /** The reasons why the trials of a search failed, with their counts; absent in lists. */
    failureSummary?: string;
    /** No trial has reported the searcher's metric, but these others; absent in lists. */
    metricWarning?: string;
    /** The sum over all starts of its trials. */
    runSeconds?: number;
    /** The time in which at least one trial ran, and the time in which its trials only waited. */
    ranSeconds?: number;
    waitedSeconds?: number;
    /** In lists: the values that `show` asked for, by name. */
    values?: Record<string, number | string | boolean | null>;
}

export interface Metrics {
    avgMetrics: JsonObject;
    batchMetrics?: JsonObject[];
}

export interface MetricsWorkload {
    endTime?: string;
    metrics: Metrics;
    numInputs: number;
    totalBatches: number;
}

export interface CheckpointWorkload {
    uuid?: string;
    endTime?: string;
    state: string;
    resources?: Record<string, string>;
    totalBatches: number;
    metadata?: JsonObject;
}

export interface Trial {
    id: number;
    experimentId: number;
    state: string;
    startTime: string;
    endTime?: string | null;
    hparams: JsonObject;
    totalBatchesProcessed: number;
    restarts: number;
    bestValidation?: MetricsWorkload | null;
    latestValidation?: MetricsWorkload | null;
    latestTraining?: MetricsWorkload | null;
    bestCheckpoint?: CheckpointWorkload | null;
    runnerState?: string;
    wallClockTime?: number;
    waitedSeconds?: number;
    warmStartCheckpointUuid?: string | null;
    taskId?: string;
    taskIds?: string[];
    totalCheckpointSize?: string;
    checkpointCount?: number;
    summaryMetrics?: JsonObject;
    searcherMetricValue?: number | null;
    logRetentionDays?: number;
    metadata?: JsonObject;
    latestCheckpoint?: string | null;
    progress?: number;
    exitReason?: string | null;
    /** The last lines of the rank that failed last. */
    lastWords?: string;
    /** The time at which it starts again after a failure. */
    restartTime?: string;
    /** The number of its last starts that failed at once in the same way. */
    failedAlike?: number;
    liveAllocations?: number;
    runId?: number;
    seed?: number;
    unmanaged?: boolean;
}

/** One metric of a trial for a chart: GET /trials/{id}/series. `times` are seconds since 1970. */
export interface Series {
    metric: string;
    total: number;
    shown: number;
    steps: number[];
    times: number[];
    values: (number | string | null)[];
}

export interface Start {
    allocationId: string;
    trialId: number;
    epoch: number;
    state: string;
    slots: number;
    agents: string[];
    parts: { agent: string; slots: number[]; ranks: number[]; near?: string }[];
    queuedTime?: string | null;
    startTime?: string | null;
    endTime?: string | null;
    reason: string;
    cause: string;
    preemptedForTrialId?: number | null;
}

/** GET /experiments/{id}/search: the rungs and brackets of a search. */
export interface SearchState {
    method: string;
    metric: string;
    smallerIsBetter: boolean;
    divisor: number;
    timeMetric?: string;
    brackets: SearchBracket[];
}

export interface SearchBracket {
    trials: number;
    concurrent: number;
    created: number;
    rungs: SearchRung[];
}

export interface SearchRung {
    time: number;
    goOn: number;
    size?: number;
    /** The best first. Without a metric, the trial failed or its value was not a number. */
    marks: { trialId: number; metric?: number }[];
}

export interface WaitReason {
    trialId: number;
    allocationId: string;
    code: string;
    reason: string;
    resource: string;
    needs: number;
    free: number;
    largestFree: number;
    largestAgent: number;
    /** A smaller number of slots per trial with which it could start; 0: none is known. */
    fitsWith: number;
    total: number;
    place: number;
    ahead: number;
    leaving: number;
    estimatedStart?: string | null;
    behindExperimentId?: number | null;
    teamName: string;
}

export interface TaskLog {
    id: string;
    timestamp: string;
    level: string;
    message: string;
    taskId?: string;
    log?: string;
    allocationId?: string;
    agentId?: string;
    containerId?: string;
    rankId?: number;
    source?: string;
    stdtype?: string;
}

export interface Checkpoint {
    uuid: string;
    taskId?: string;
    allocationId?: string;
    reportTime?: string;
    resources: Record<string, string>;
    metadata: JsonObject;
    state: string;
    training: {
        trialId?: number;
        experimentId?: number;
        experimentConfig?: JsonObject;
        hparams?: JsonObject;
        trainingMetrics?: Metrics;
        validationMetrics?: Metrics;
        searcherMetric?: number | null;
    };
    stepsCompleted?: number;
    storage?: JsonObject;
}

export interface Model {
    id: number;
    name: string;
    description?: string;
    metadata: JsonObject;
    creationTime: string;
    lastUpdatedTime: string;
    numVersions: number;
    labels?: string[];
    username: string;
    userId: number;
    archived: boolean;
    notes?: string;
    workspaceId: number;
}

export interface ModelVersion {
    id: number;
    version: number;
    model: Model;
    checkpoint: Checkpoint;
    creationTime: string;
    lastUpdatedTime: string;
    name?: string;
    metadata?: JsonObject;
    comment?: string;
    username?: string;
    userId?: number;
    labels?: string[];
    notes?: string;
}

export interface Slot {
    id?: string;
    device?: {
        id?: number;
        brand?: string;
        uuid?: string;
        type?: string;
        memory?: number;
        pciBusId?: string;
        nvlinkGroup?: number;
        numaGroup?: number;
    };
    enabled?: boolean;
    draining?: boolean;
    /** The fault that the agent reports. A slot with the grade "noted" stays in use. */
    fault?: { grade: string; reason: string; time?: string; overruled: boolean };
    /** Newest sample: gpu_util, gpu_used_memory, gpu_free_memory, gpu_temperature, gpu_power. */
    use?: Record<string, number>;
    container?: { id: string; state: string; allocationId?: string };
}

export interface Agent {
    id: string;
    registeredTime?: string;
    slots?: Record<string, Slot>;
    resourcePools?: string[];
    addresses?: string[];
    enabled?: boolean;
    draining?: boolean;
    version?: string;
    label?: string;
    hostname?: string;
    rack?: string;
    connected?: boolean;
    /** The master has given up on the agent. Its work has started elsewhere, or waits. */
    lost?: boolean;
    lastSeen?: string;
    /** The allocations on the agent when it was lost. */
    ran?: AgentRun[];
}

export interface AgentRun {
    allocationId: string;
    slots: number[];
}

export interface ResourcePool {
    name: string;
    description: string;
    numAgents: number;
    /** Further agents that are not connected. */
    agentsAway?: number;
    slotsAvailable: number;
    slotsUsed: number;
    slotType: string;
    defaultComputePool: boolean;
    stats?: { queuedCount: number; scheduledCount: number };
    scheduler?: string;
}

export interface Job {
    summary?: { state: string; jobsAhead: number };
    type: string;
    submissionTime: string;
    username: string;
    userId?: number;
    resourcePool: string;
    isPreemptible: boolean;
    priority?: number;
    weight?: number;
    entityId: string;
    jobId: string;
    requestedSlots: number;
    allocatedSlots: number;
    name: string;
    progress?: number;
    workspaceId: number;
    place?: number;
    reason?: string;
    reasonCode?: string;
    estimatedStart?: string | null;
}

export interface Share {
    resourcePool: string;
    workspaceId: number;
    workspaceName: string;
    userId?: number;
    username: string;
    weight: number;
    guaranteedSlots: number;
    maxSlots: number;
    usedSlots: number;
    wantedSlots: number;
    entitledSlots: number;
    usageSlotHours: number;
    debtSlotHours: number;
    waitingJobs: number;
    runningJobs: number;
}

export interface Token {
    id: number;
    userId: number;
    expiry?: string | null;
    createdAt?: string;
    tokenType?: string;
    revoked?: boolean;
    description?: string;
}

export interface AuditRow {
    id: number;
    time: string;
    userId?: number;
    username: string;
    address: string;
    method: string;
    path: string;
    status: number;
    detail: string;
}

export interface Trigger {
    id?: number;
    triggerType: string;
    condition?: JsonObject;
}

export interface Webhook {
    id: number;
    url: string;
    name: string;
    webhookType: string;
    mode: string;
    workspaceId?: number;
    triggers?: Trigger[];
}

export interface Template {
    name: string;
    config: JsonObject;
    workspaceId: number;
}

export interface ClusterMessage {
    message: string;
    startTime: string;
    endTime?: string | null;
}

export interface LogEntry {
    id: number;
    message: string;
    timestamp: string;
    level: string;
}

/** The result of an action on one of several experiments. An empty error means success. */
export interface ActionResult {
    id: number;
    error: string;
}
