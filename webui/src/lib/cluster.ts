// What several pages know of agents, slots and the queue. Pure, but for the calls that read them.

import type { Action } from "./actions";
import { type Call, get } from "./api";
import { count } from "./format";
import type { Agent, Job, Slot } from "./types";

/** "2.5.1" -> 2: the experiment of an allocation or a task; undefined: it is no experiment's. */
export function experimentOf(id: string | undefined): number | undefined {
    const found = /^(\d+)\.\d+/.exec(id ?? "");
    return found ? Number(found[1]) : undefined;
}

/** The colour that an experiment has wherever its slots are shown. */
export function tintOf(experimentId: number): string {
    return `var(--c${experimentId % 10})`;
}

// --- agents --------------------------------------------------------------------------------------

export type Health = "ENABLED" | "DRAINING" | "DISABLED" | "AWAY" | "LOST";

export function healthOf(agent: Agent): Health {
    if (agent.lost) return "LOST";
    if (agent.connected === false) return "AWAY";
    if (agent.draining) return "DRAINING";
    return agent.enabled === false ? "DISABLED" : "ENABLED";
}

export function slotsOf(agent: Agent): Slot[] {
    const slots = Object.entries(agent.slots ?? {});
    return slots.sort(([a], [b]) => Number(a) - Number(b)).map(([id, slot]) => ({ ...slot, id }));
}

/** What an agent's slots hold; of one that is lost, what they held. */
export function slotsShown(agent: Agent): Slot[] {
    const ran = (id: number) => agent.ran?.find((run) => run.slots.includes(id))?.allocationId;
    const slots = slotsOf(agent);
    if (!agent.lost) return slots;
    return slots.map((slot) => {
        const allocationId = ran(Number(slot.id));
        const past = { id: "", state: "STATE_TERMINATED", allocationId: allocationId ?? "" };
        return allocationId ? { ...slot, container: past } : slot;
    });
}

export const usedSlots = (agent: Agent) => slotsOf(agent).filter((slot) => slot.container).length;

/** What an administrator may do with an agent. */
export function agentActions(agent: Agent): Action[] {
    const path = `/agents/${encodeURIComponent(agent.id)}`;
    const used = count(usedSlots(agent), "slot");
    const call = (verb: "enable" | "disable", body: object, ...flags: string[]): Call => ({
        method: "POST",
        path: `${path}/${verb}`,
        body,
        muster: ["agent", verb, agent.id, ...flags],
    });
    const forget: Action = {
        name: `Forget ${agent.id}`,
        icon: "close",
        danger: "It is listed no more. If the machine comes back, it is a new one: enabled, as all of its slots.",
        done: `${agent.id} is forgotten`,
        call: { method: "DELETE", path, muster: ["agent", "forget", agent.id] },
    };
    const enable: Action = {
        name: `Enable ${agent.id}`,
        icon: "check",
        done: `${agent.id} takes work again`,
        call: call("enable", {}),
    };
    const drain: Action = {
        name: `Drain ${agent.id}`,
        icon: "pause",
        danger: `It is given no more work. What runs on its ${used} in use runs on to its end.`,
        done: `${agent.id} is given no more work`,
        call: call("disable", { drain: true }, "--drain"),
    };
    const disable: Action = {
        name: `Disable ${agent.id} now`,
        icon: "stop",
        danger: usedSlots(agent)
            ? `What runs on its ${used} in use is stopped, and starts again elsewhere from its newest checkpoint; a command runs to its end.`
            : "It is given no more work until it is enabled again.",
        done: `${agent.id} is out of service`,
        call: call("disable", {}),
    };
    if (agent.lost) return [forget];
    if (agent.enabled !== false) return [drain, disable];
    return agent.draining ? [enable, disable] : [enable];
}

/** Why its agent keeps a slot out of use; undefined: it does not. */
export function faultOf(slot: Slot): string | undefined {
    const { fault } = slot;
    return fault && fault.grade !== "noted" && !fault.overruled ? fault.reason : undefined;
}

/** Slots beside each other of which the same is to be said. */
export interface Run {
    first: number;
    count: number;
    allocationId?: string;
    experimentId?: number;
    isOff: boolean;
    fault?: string;
}

/** The slots as runs, none of which goes over the end of a row of `width`. */
export function runsOf(slots: readonly Slot[], width: number): Run[] {
    const runs: Run[] = [];
    slots.forEach((slot, i) => {
        const allocationId = slot.container?.allocationId;
        const isOff = slot.enabled === false;
        const last = runs.at(-1);
        const fault = faultOf(slot);
        const isSame =
            last &&
            last.allocationId === allocationId &&
            last.isOff === isOff &&
            last.fault === fault;
        if (isSame && i % width !== 0) {
            last.count++;
            return;
        }
        const run: Run = { first: i, count: 1, isOff };
        const experimentId = experimentOf(allocationId);
        if (allocationId) run.allocationId = allocationId;
        if (fault) run.fault = fault;
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
