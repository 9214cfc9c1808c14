// What changes in the cluster, by one event stream for the whole page. Views say which topics they
// want, for how long; the stream is opened anew when the sum of that changes, and goes on from the
// last event it saw. Events are handed over in one batch per frame, so however many come, a view is
// drawn once.

import { batch, type ReadonlySignal, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { link, sleep } from "./api";

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
    /** Of what was changed by people, only this: "users", as in the path of the call. */
    of?: readonly string[];
    experimentId?: number;
    trialId?: number;
}

type On = (event: LiveEvent) => void;

interface Follower {
    interest: Interest;
    on: On;
    missed: () => void;
}

const state = signal<"off" | "connecting" | "on" | "lost">("off");
export const live: ReadonlySignal<"off" | "connecting" | "on" | "lost"> = state;

const followers = new Set<Follower>();
let source: EventSource | null = null;
let asked = ""; // what the present source asks for
let lastId = "";
let failures = 0;
let waiting: LiveEvent[] = [];
let planned = false;

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

function deliver(): void {
    planned = false;
    const events = waiting;
    waiting = [];
    batch(() => {
        for (const event of events)
            for (const follower of [...followers])
                if (fits(follower.interest, event)) follower.on(event);
    });
}

// A page that is not seen gets no frames, but is to stay true.
function plan(): void {
    if (planned) return;
    planned = true;
    if (document.hidden) setTimeout(deliver, 1000);
    else requestAnimationFrame(deliver);
}

function hear(topic: Topic, message: MessageEvent<string>): void {
    lastId = message.lastEventId;
    waiting.push({ ...(JSON.parse(message.data) as object), topic } as LiveEvent);
    plan();
}

function tellMissed(): void {
    batch(() => [...followers].forEach((follower) => follower.missed()));
}

// The browser connects again by itself unless the answer was an error, say 503 of a master that
// starts; then we do.
function onError(broken: EventSource): void {
    if (broken !== source) return;
    state.value = "lost";
    if (broken.readyState !== EventSource.CLOSED) return;
    source = null;
    asked = "";
    void sleep(Math.min(0.5 * 2 ** failures++, 15)).then(connect);
}

function connect(): void {
    const url = question([...followers].map((follower) => follower.interest));
    if (url === asked) return;
    source?.close();
    source = null;
    asked = url;
    if (!url) {
        state.value = "off";
        return;
    }
    state.value = "connecting";
    const opened = new EventSource(lastId ? `${url}&since=${lastId}` : url);
    source = opened;
    opened.onopen = () => {
        failures = 0;
        state.value = "on";
    };
    opened.onerror = () => onError(opened);
    opened.addEventListener("start", (event) => {
        if (!lastId) lastId = event.lastEventId;
    });
    opened.addEventListener("reset", (event) => {
        lastId = event.lastEventId;
        tellMissed();
    });
    for (const [name, topic] of Object.entries(topics))
        opened.addEventListener(name, (event) => hear(topic, event));
}

// Views come and go together; one new connection is enough for all of them.
let changed: ReturnType<typeof setTimeout> | undefined;
function reconsider(): void {
    clearTimeout(changed);
    changed = setTimeout(connect, 50);
}

/** Calls `on` for what fits; `missed` when events were lost and things must be read anew. */
export function follow(interest: Interest, on: On, missed: () => void): () => void {
    const follower = { interest, on, missed };
    followers.add(follower);
    reconsider();
    return () => {
        followers.delete(follower);
        reconsider();
    };
}

/** Forgets the stream of a user who has signed out. */
export function forgetEvents(): void {
    source?.close();
    source = null;
    asked = lastId = "";
    state.value = "off";
    if (followers.size) reconsider();
}

/** follow() while the component is there, always with its newest functions. */
export function useLive(interest: Interest | undefined, on: On, missed: () => void): void {
    const newest = useRef({ on, missed });
    newest.current = { on, missed };
    const text = interest && JSON.stringify(interest);
    useEffect(() => {
        if (!text) return;
        return follow(
            JSON.parse(text) as Interest,
            (event) => newest.current.on(event),
            () => newest.current.missed(),
        );
    }, [text]);
}
