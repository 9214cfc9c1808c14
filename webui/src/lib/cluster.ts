// What several pages know of agents, slots and the queue. Pure, but for the calls that read them.

import { get } from "./api";
import type { Agent, Job, Slot } from "./types";

/** "2.5.1" -> 2: the experiment of an allocation or a task; undefined: it is no experiment's. */
export function experimentOf(id: string | undefined): number | undefined {
    const found = /^(\d+)\.\d+/.exec(id ?? "");
    return found ? Number(found[1]) : undefined;
}

/** The colour that an experiment has wherever its slots are shown. */
export function tintOf(experimentId: number): string {
    return `var(--c${experimentId % 8})`;
}

// --- agents --------------------------------------------------------------------------------------

export type Health = "ENABLED" | "DRAINING" | "DISABLED" | "LOST";

export function healthOf(agent: Agent): Health {
    if (agent.connected === false) return "LOST";
    if (agent.draining) return "DRAINING";
    return agent.enabled === false ? "DISABLED" : "ENABLED";
}

export function slotsOf(agent: Agent): Slot[] {
    const slots = Object.entries(agent.slots ?? {});
    return slots.sort(([a], [b]) => Number(a) - Number(b)).map(([id, slot]) => ({ ...slot, id }));
}

/** Slots beside each other of which the same is to be said. */
export interface Run {
    first: number;
    count: number;
    allocationId?: string;
    experimentId?: number;
    isOff: boolean;
}

/** The slots as runs, none of which goes over the end of a row of `width`. */
export function runsOf(slots: readonly Slot[], width: number): Run[] {
    const runs: Run[] = [];
    slots.forEach((slot, i) => {
        const allocationId = slot.container?.allocationId;
        const isOff = slot.enabled === false;
        const last = runs.at(-1);
        const isSame = last && last.allocationId === allocationId && last.isOff === isOff;
        if (isSame && i % width !== 0) {
            last.count++;
            return;
        }
        const run: Run = { first: i, count: 1, isOff };
        const experimentId = experimentOf(allocationId);
        if (allocationId) run.allocationId = allocationId;
        if (experimentId !== undefined) run.experimentId = experimentId;
        runs.push(run);
    });
    return runs;
}

// --- the queue -----------------------------------------------------------------------------------

export interface Jobs {
    jobs: Job[];
    total: number;
}

export async function readJobs(
    query: { states?: string; resourcePool?: string; limit: number },
    abort: AbortSignal,
): Promise<Jobs> {
    const answer = await get<{ jobs: { full: Job }[]; pagination: { total: number } }>(
        "/job-queues-v2",
        query,
        abort,
    );
    return { jobs: answer.jobs.map((job) => job.full), total: answer.pagination.total };
}

/** Where a job is looked at: an experiment's page; other tasks have none. */
export function jobHref(job: Job): string | undefined {
    return job.type === "TYPE_EXPERIMENT" && job.name ? `/experiments/${job.entityId}` : undefined;
}

/** "#7 unet"; of a workspace that one does not see, what can be said. */
export function jobTitle(job: Job): string {
    if (!job.name) return "A job of another team";
    return job.type === "TYPE_EXPERIMENT" ? `#${job.entityId} ${job.name}` : job.name;
}
