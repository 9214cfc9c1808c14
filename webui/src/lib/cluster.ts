// Agents, slots and jobs of the queue, for several pages.

import type { Action } from "./actions";
import { type Call, get } from "./api";
import { count } from "./format";
import type { Agent, Job, Slot } from "./types";

/**
 * The experiment of a trial's task or allocation, whose UUID has version 8: "2.5c0d8f3e-91ab-8c42-a7f0-000000000005" -> 2;
 * in older clusters also "2.5.1"; undefined: it belongs to no experiment.
 */
export function experimentIdOf(id: string | undefined): number | undefined {
    const found = /^(\d+)\.(\d+(-\d+)?(\.|$)|[0-9a-f]{8}-[0-9a-f]{4}-8)/.exec(id ?? "");
    return found ? Number(found[1]) : undefined;
}

/** The colour of a category, for example of an experiment by its id. */
export function categoryColour(index: number): string {
    return `var(--c${index % 10})`;
}

// --- agents --------------------------------------------------------------------------------------

export type AgentHealth = "ENABLED" | "DRAINING" | "DISABLED" | "AWAY" | "LOST";

export function agentHealth(agent: Agent): AgentHealth {
    if (agent.lost) return "LOST";
    if (agent.connected === false) return "AWAY";
    if (agent.draining) return "DRAINING";
    return agent.enabled === false ? "DISABLED" : "ENABLED";
}

export function agentSlots(agent: Agent): Slot[] {
    const slots = Object.entries(agent.slots ?? {});
    return slots.sort(([a], [b]) => Number(a) - Number(b)).map(([id, slot]) => ({ ...slot, id }));
}

/** The slots of an agent. The slots of a lost agent show their last allocations. */
export function displayedSlots(agent: Agent): Slot[] {
    const lastAllocation = (id: number) => agent.ran?.find((run) => run.slots.includes(id))?.allocationId;
    const slots = agentSlots(agent);
    if (!agent.lost) return slots;
    return slots.map((slot) => {
        const allocationId = lastAllocation(Number(slot.id));
        const past = { id: "", state: "STATE_TERMINATED", allocationId: allocationId ?? "" };
        return allocationId ? { ...slot, container: past } : slot;
    });
}

export const usedSlotCount = (agent: Agent) => agentSlots(agent).filter((slot) => slot.container).length;

/** The actions of an administrator on an agent. */
export function agentActions(agent: Agent): Action[] {
    const path = `/agents/${encodeURIComponent(agent.id)}`;
    const used = count(usedSlotCount(agent), "slot");
    const call = (verb: "enable" | "disable", body: object, ...flags: string[]): Call => ({
        method: "POST",
        path: `${path}/${verb}`,
        body,
        muster: ["agent", verb, agent.id, ...flags],
    });
    const forget: Action = {
        name: `Forget ${agent.id}`,
        icon: "close",
        danger: "The agent leaves the list. If the machine comes back, it registers as a new agent with all slots enabled.",
        doneText: `Forgot ${agent.id}`,
        call: { method: "DELETE", path, muster: ["agent", "forget", agent.id] },
    };
    const enable: Action = {
        name: `Enable ${agent.id}`,
        icon: "check",
        doneText: `${agent.id} is enabled`,
        call: call("enable", {}),
    };
    const drain: Action = {
        name: `Drain ${agent.id}`,
        icon: "pause",
        danger: `The agent takes no new work. Running work on its ${used} in use continues to its end.`,
        doneText: `${agent.id} takes no new work`,
        call: call("disable", { drain: true }, "--drain"),
    };
    const disable: Action = {
        name: `Disable ${agent.id} now`,
        icon: "stop",
        danger: usedSlotCount(agent)
            ? `Trials on its ${used} in use are stopped, and restart elsewhere from their newest checkpoint. Commands end.`
            : "The agent takes no work until it is enabled again.",
        doneText: `${agent.id} is disabled`,
        call: call("disable", {}),
    };
    if (agent.lost) return [forget];
    if (agent.enabled !== false) return [drain, disable];
    return agent.draining ? [enable, disable] : [enable];
}

/** The fault that keeps a slot out of use; undefined: none. */
export function activeFault(slot: Slot): string | undefined {
    const { fault } = slot;
    return fault && fault.grade !== "noted" && !fault.overruled ? fault.reason : undefined;
}

/** Adjacent slots with the same allocation, state and fault. */
export interface SlotRange {
    first: number;
    count: number;
    allocationId?: string;
    experimentId?: number;
    isOff: boolean;
    fault?: string;
}

/** The slots as ranges. No range crosses the end of a row. */
export function slotRanges(slots: readonly Slot[], rowLength: number): SlotRange[] {
    const ranges: SlotRange[] = [];
    slots.forEach((slot, i) => {
        const allocationId = slot.container?.allocationId;
        const isOff = slot.enabled === false;
        const last = ranges.at(-1);
        const fault = activeFault(slot);
        const isSame =
            last &&
            last.allocationId === allocationId &&
            last.isOff === isOff &&
            last.fault === fault;
        if (isSame && i % rowLength !== 0) {
            last.count++;
            return;
        }
        const range: SlotRange = { first: i, count: 1, isOff };
        const experimentId = experimentIdOf(allocationId);
        if (allocationId) range.allocationId = allocationId;
        if (fault) range.fault = fault;
        if (experimentId !== undefined) range.experimentId = experimentId;
        ranges.push(range);
    });
    return ranges;
}

// --- the queue -----------------------------------------------------------------------------------

export interface JobList {
    jobs: Job[];
    total: number;
}

export async function readJobs(
    query: { states?: string; resourcePool?: string; limit: number },
    abort: AbortSignal,
): Promise<JobList> {
    const response = await get<{ jobs: { full: Job }[]; pagination: { total: number } }>(
        "/job-queues-v2",
        query,
        abort,
    );
    return { jobs: response.jobs.map((job) => job.full), total: response.pagination.total };
}

/** The page of a job's experiment. Other tasks have no page. */
export function jobHref(job: Job): string | undefined {
    return job.type === "TYPE_EXPERIMENT" && job.name ? `/experiments/${job.entityId}` : undefined;
}

/** "#7 unet". The name is hidden if the user may not see the workspace. */
export function jobTitle(job: Job): string {
    if (!job.name) return "A job of another team";
    return job.type === "TYPE_EXPERIMENT" ? `#${job.entityId} ${job.name}` : job.name;
}
