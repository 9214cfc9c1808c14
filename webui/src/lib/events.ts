// Events of the cluster and the stream that brings them: the same in a page and in the worker that has one
// stream for all pages (events_worker.ts).

import { link } from "./api";

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

interface Gone {
    deleted?: boolean;
}

export type LiveEvent =
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
      } & Gone)
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
      } & Gone)
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
      } & Gone)
    | { topic: "audit"; of: string }
    | ({ topic: "queue" | "agents" } & Record<string, unknown>)
    | ({ topic: "workspaces" | "models"; id: number; name: string } & Gone);

export interface Interest {
    topics: readonly Topic[];
    /** For the topic audit: only changes of this kind, such as "users", as in the path of the call. */
    of?: readonly string[];
    experimentId?: number;
    trialId?: number;
}

// --- what is wanted ------------------------------------------------------------------------------

/** The narrowest question that holds what all followers want; "" when nobody wants anything. */
export function question(interests: readonly Interest[]): string {
    const wanted = new Set(interests.flatMap((one) => one.topics));
    const trials = new Set<number>();
    const experiments = new Set<number>();
    let all = false;
    for (const one of interests) {
        if (one.trialId) trials.add(one.trialId);
        else if (one.experimentId) experiments.add(one.experimentId);
        else all = true;
    }
    if (!wanted.size) return "";
    const query: Record<string, string> = { topics: [...wanted].sort().join(",") };
    if (!all && trials.size) query["trialIds"] = [...trials].sort().join(",");
    if (!all && experiments.size) query["experimentIds"] = [...experiments].sort().join(",");
    return link("/events", query);
}

export function fits(interest: Interest, event: LiveEvent): boolean {
    if (!interest.topics.includes(event.topic)) return false;
    if (event.topic === "audit") return !interest.of || interest.of.includes(event.of);
    const { experimentId, trialId } = idsOf(event);
    if (interest.trialId && trialId !== undefined) return interest.trialId === trialId;
    if (interest.experimentId && experimentId !== undefined)
        return interest.experimentId === experimentId;
    return true;
}

function idsOf(event: LiveEvent): { experimentId?: number; trialId?: number } {
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
    onEvent(event: LiveEvent): void;
    /** Events were lost: what they would have changed must be read anew. */
    onMissed(): void;
}

/** One EventSource, opened anew when the question changes; it goes on from the last event it saw. */
export class EventStream {
    state: StreamState = "off";
    lastId = "";
    private source: EventSource | undefined;
    private wanted = "";
    private asked = ""; // what the present source asks for
    private failures = 0;

    constructor(private readonly listener: Listener) {}

    /** `url`: of question(); "" ends the stream. */
    ask(url: string): void {
        this.wanted = url;
        this.connect();
    }

    /** Asks the same question by a new connection, as after another user has signed in. */
    restart(): void {
        this.asked = "";
        this.connect();
    }

    private connect(): void {
        if (this.wanted === this.asked) return;
        this.source?.close();
        this.source = undefined;
        this.asked = this.wanted;
        if (!this.asked) {
            this.become("off");
            return;
        }
        this.become("connecting");
        this.open(this.lastId ? `${this.asked}&since=${this.lastId}` : this.asked);
    }

    private open(url: string): void {
        const source = new EventSource(url);
        this.source = source;
        source.onopen = () => {
            this.failures = 0;
            this.become("on");
        };
        source.onerror = () => this.onError(source);
        source.addEventListener("start", (event) => {
            if (!this.lastId) this.lastId = event.lastEventId;
        });
        source.addEventListener("reset", (event) => {
            this.lastId = event.lastEventId;
            this.listener.onMissed();
        });
        for (const [name, topic] of Object.entries(topics))
            source.addEventListener(name, (event) => this.hear(topic, event));
    }

    private hear(topic: Topic, message: MessageEvent<string>): void {
        this.lastId = message.lastEventId;
        this.listener.onEvent({ ...(JSON.parse(message.data) as object), topic } as LiveEvent);
    }

    // The browser connects again by itself unless the answer was an error, say 503 of a master that
    // starts; then this does.
    private onError(broken: EventSource): void {
        if (broken !== this.source) return;
        this.become("lost");
        if (broken.readyState !== EventSource.CLOSED) return;
        this.source = undefined;
        this.asked = "";
        setTimeout(() => this.connect(), Math.min(500 * 2 ** this.failures++, 15_000));
    }

    private become(state: StreamState): void {
        this.state = state;
        this.listener.onState(state);
    }
}

// --- what a page and the worker tell each other --------------------------------------------------

/** `want`: what the page wants now; repeated as a sign of life, and always answered. */
export type ToWorker = { want: readonly Interest[] } | { restart: true } | { leave: true };

export interface FromWorker {
    state: StreamState;
    lastId: string;
    events?: LiveEvent[];
    missed: boolean;
}

export const SIGN_OF_LIFE_MS = 60_000; // pages that nobody sees have timers once a minute at most
