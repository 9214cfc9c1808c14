// Events of the cluster and the stream that delivers them. Pages use this module, and so does the worker that has
// one stream for all pages (events_worker.ts).

import { apiUrl } from "../api";

export const topics = {
    experiment: "experiments",
    trial: "trials",
    metrics: "metrics",
    logs: "logs",
    checkpoint: "checkpoints",
    queue: "queue",
    agent: "agents",
    workspace: "workspaces",
    model: "models",
    audit: "audit",
} as const;

export type Topic = (typeof topics)[keyof typeof topics];

interface Deletable {
    deleted?: boolean;
}

export type ClusterEvent =
    | ({
          topic: "experiments";
          id: number;
          state: string;
          name: string;
          projectId: number;
          workspaceId: number;
          userId: number;
          progress: number;
          bestMetric?: number;
          liveAllocations?: number;
          archived: boolean;
          kind: string;
          startTime: string;
          endTime?: string | null;
      } & Deletable)
    | ({
          topic: "trials";
          id: number;
          experimentId: number;
          state: string;
          restarts: number;
          progress: number;
          steps: number;
          runId: number;
          exitReason?: string | null;
          liveAllocations?: number;
          latestCheckpoint?: string | null;
          endTime?: string | null;
          wallClockTime?: number;
      } & Deletable)
    | {
          topic: "metrics";
          trialId: number;
          experimentId: number;
          group: string;
          steps?: number;
          metrics?: Record<string, unknown>;
      }
    | { topic: "logs"; taskId: string; trialId: number; experimentId: number; lastId: number }
    | ({
          topic: "checkpoints";
          uuid: string;
          trialId: number;
          experimentId: number;
          state: string;
          steps: number;
      } & Deletable)
    | { topic: "audit"; of: string }
    | ({ topic: "queue" | "agents" } & Record<string, unknown>)
    | ({ topic: "workspaces" | "models"; id: number; name: string } & Deletable);

export interface EventFilter {
    topics: readonly Topic[];
    /** For the topic audit: only changes of these objects, for example "users", as in the path of the call. */
    auditObjects?: readonly string[];
    experimentId?: number;
    trialId?: number;
}

// --- filters -------------------------------------------------------------------------------------

/** The URL of the narrowest stream that has all events for these filters; "" without filters. */
export function eventsUrl(filters: readonly EventFilter[]): string {
    const topicSet = new Set(filters.flatMap((filter) => filter.topics));
    const trials = new Set<number>();
    const experiments = new Set<number>();
    let isUnrestricted = false;
    for (const one of filters) {
        if (one.trialId) trials.add(one.trialId);
        else if (one.experimentId) experiments.add(one.experimentId);
        else isUnrestricted = true;
    }
    if (!topicSet.size) return "";
    const query: Record<string, string> = { topics: [...topicSet].sort().join(",") };
    if (!isUnrestricted && trials.size) query["trialIds"] = [...trials].sort().join(",");
    if (!isUnrestricted && experiments.size) query["experimentIds"] = [...experiments].sort().join(",");
    return apiUrl("/events", query);
}

export function eventMatches(filter: EventFilter, event: ClusterEvent): boolean {
    if (!filter.topics.includes(event.topic)) return false;
    if (event.topic === "audit") return !filter.auditObjects || filter.auditObjects.includes(event.of);
    const { experimentId, trialId } = eventIds(event);
    if (filter.trialId && trialId !== undefined) return filter.trialId === trialId;
    if (filter.experimentId && experimentId !== undefined)
        return filter.experimentId === experimentId;
    return true;
}

function eventIds(event: ClusterEvent): { experimentId?: number; trialId?: number } {
    if (event.topic === "experiments") return { experimentId: event.id };
    if (event.topic === "trials") return { experimentId: event.experimentId, trialId: event.id };
    return "experimentId" in event
        ? (event as { experimentId: number; trialId: number })
        : {};
}

// --- the stream ----------------------------------------------------------------------------------

export type StreamState = "off" | "connecting" | "on" | "lost";

export interface Listener {
    onState(state: StreamState): void;
    onEvent(event: ClusterEvent): void;
    /** Events were lost, so the data must be loaded again. */
    onMissed(): void;
}

/** One EventSource. It is replaced when the URL changes, and continues after the last event. */
export class EventStream {
    state: StreamState = "off";
    lastId = "";
    private source: EventSource | undefined;
    private wantedUrl = "";
    private currentUrl = ""; // the URL of the current source
    private failures = 0;

    constructor(private readonly listener: Listener) {}

    /** `url`: from eventsUrl(); "" ends the stream. */
    subscribe(url: string): void {
        this.wantedUrl = url;
        this.connect();
    }

    /** Opens a new connection to the same URL, for example after another user has signed in. */
    restart(): void {
        this.currentUrl = "";
        this.connect();
    }

    private connect(): void {
        if (this.wantedUrl === this.currentUrl) return;
        this.source?.close();
        this.source = undefined;
        this.currentUrl = this.wantedUrl;
        if (!this.currentUrl) {
            this.setState("off");
            return;
        }
        this.setState("connecting");
        this.open(this.lastId ? `${this.currentUrl}&since=${this.lastId}` : this.currentUrl);
    }

    private open(url: string): void {
        const source = new EventSource(url);
        this.source = source;
        source.onerror = () => this.onError(source);
        // Only now there is an id from which a stream with another URL continues without a gap.
        source.addEventListener("start", (event) => {
            if (!this.lastId) this.lastId = event.lastEventId;
            this.failures = 0;
            this.setState("on");
        });
        source.addEventListener("reset", (event) => {
            this.lastId = event.lastEventId;
            this.listener.onMissed();
        });
        for (const [name, topic] of Object.entries(topics))
            source.addEventListener(name, (event) => this.onMessage(topic, event));
    }

    private onMessage(topic: Topic, message: MessageEvent<string>): void {
        this.lastId = message.lastEventId;
        this.listener.onEvent({ ...(JSON.parse(message.data) as object), topic } as ClusterEvent);
    }

    // The browser reconnects by itself, except after an error such as 503 of a starting master. That case is
    // handled here.
    private onError(source: EventSource): void {
        if (source !== this.source) return;
        this.setState("lost");
        if (source.readyState !== EventSource.CLOSED) return;
        this.source = undefined;
        this.currentUrl = "";
        setTimeout(() => this.connect(), Math.min(500 * 2 ** this.failures++, 15_000));
    }

    private setState(state: StreamState): void {
        this.state = state;
        this.listener.onState(state);
    }
}

// --- messages between a page and the worker ------------------------------------------------------

/** `filters` are repeated as a heartbeat. The worker answers each of them. */
export type MessageToWorker = { filters: readonly EventFilter[] } | { restart: true } | { leave: true };

export interface MessageFromWorker {
    state: StreamState;
    lastId: string;
    events?: ClusterEvent[];
    missed: boolean;
}

export const HEARTBEAT_MS = 60_000; // browsers run the timers of hidden pages at most once a minute
