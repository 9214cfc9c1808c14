// The agents of each pool. Their slots have the colour and the id of the experiment that uses them.

import { type Signal, useSignal } from "@preact/signals";
import { get } from "../../lib/api";
import { experimentIdOf, agentHealth, agentSlots, categoryColour, usedSlotCount } from "../../lib/cluster";
import { count } from "../../lib/format";
import { useLoad } from "../../lib/load";
import type { Agent, Experiment } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { Bar, Empty, LinkButton, Loaded, Search, Select, stateText } from "../../parts";
import { AgentCard, type AllocationInfo, type HighlightedExperiment } from "./agent_card";
import { AgentDialog } from "./agent_dialog";

const pool = queryParam("pool", text());
const health = queryParam("health", text());
const search = queryParam("q", text());
const openAgentId = queryParam("agent", text());
const experimentParam = queryParam("experiment", text());

/** An experiment that uses slots. */
export interface SlotHolder {
    experimentId: number;
    name: string;
    slots: number;
    agents: number;
}

interface Allocation {
    allocationId: string;
    jobName: string;
}

interface ClusterData {
    agents: Agent[];
    names: Map<string, AllocationInfo>;
}

/** Adds the names and current states of the experiments that lost agents were running. */
async function addLostAllocations(
    agents: readonly Agent[],
    names: Map<string, AllocationInfo>,
    abort: AbortSignal,
): Promise<void> {
    const ran = agents.flatMap((agent) => (agent.lost ? (agent.ran ?? []) : []));
    const ids = [...new Set(ran.map((run) => experimentIdOf(run.allocationId)))].filter((id) => id !== undefined);
    if (ids.length === 0) return;
    const { experiments } = await get<{ experiments: Experiment[] }>(
        "/experiments",
        { filter: `id in (${ids.slice(0, 200).join(", ")})`, omit: "config" },
        abort,
    );
    for (const { allocationId } of ran) {
        const found = experiments.find((one) => one.id === experimentIdOf(allocationId));
        if (found) names.set(allocationId, { name: found.name, state: found.state });
    }
}

async function readCluster(abort: AbortSignal): Promise<ClusterData> {
    const [{ agents }, tasks] = await Promise.all([
        get<{ agents: Agent[] }>("/agents", { lost: true }, abort),
        get<{ allocationIdToSummary?: Record<string, Allocation> }>("/tasks", {}, abort),
    ]);
    const allocations = Object.values(tasks.allocationIdToSummary ?? {});
    const names = new Map<string, AllocationInfo>(allocations.map(({ allocationId, jobName }) => [allocationId, { name: jobName }]));
    await addLostAllocations(agents, names, abort);
    return { agents, names };
}

function slotHolders(agents: readonly Agent[], names: ClusterData["names"]): SlotHolder[] {
    const found = new Map<number, SlotHolder & { seen: Set<string> }>();
    for (const agent of agents)
        for (const slot of agentSlots(agent)) {
            const id = experimentIdOf(slot.container?.allocationId);
            if (id === undefined) continue;
            const name = names.get(slot.container!.allocationId!)?.name ?? "";
            const holder = found.get(id) ?? {
                experimentId: id,
                name,
                slots: 0,
                agents: 0,
                seen: new Set(),
            };
            holder.slots++;
            holder.agents = holder.seen.add(agent.id).size;
            found.set(id, holder);
        }
    return [...found.values()].sort((a, b) => b.slots - a.slots || a.experimentId - b.experimentId);
}

function SlotHolders({ holders, highlighted }: { holders: readonly SlotHolder[]; highlighted: Signal<HighlightedExperiment> }) {
    if (holders.length === 0) return null;
    const highlight = (id: HighlightedExperiment) => () => (highlighted.value = id);
    return (
        <ul class="slot-holders" aria-label="Experiments that use slots">
            {holders.map((holder) => (
                <li key={holder.experimentId}>
                    <a
                        class="slot-holder"
                        href={holder.name ? `/experiments/${holder.experimentId}` : "/queue"}
                        style={{ "--tint": categoryColour(holder.experimentId) }}
                        onPointerEnter={highlight(holder.experimentId)}
                        onPointerLeave={highlight(undefined)}
                        onFocus={highlight(holder.experimentId)}
                        onBlur={highlight(undefined)}
                    >
                        <span class="slot-holder-colour" aria-hidden="true" />
                        <b class="num">#{holder.experimentId}</b>
                        <span class="ellipsis">{holder.name || "(another team)"}</span>
                        <span class="muted num">
                            {count(holder.slots, "slot")} on {count(holder.agents, "agent")}
                        </span>
                    </a>
                </li>
            ))}
        </ul>
    );
}

function AgentPool(props: {
    name: string;
    agents: readonly Agent[];
    names: ClusterData["names"];
    highlighted: HighlightedExperiment;
}) {
    const { name, agents, names, highlighted } = props;
    const present = agents.filter((agent) => !agent.lost);
    const lost = agents.length - present.length;
    const used = present.reduce((sum, agent) => sum + usedSlotCount(agent), 0);
    const all = present.reduce((sum, agent) => sum + agentSlots(agent).length, 0);
    const usage = `${used} of ${count(all, "slot")} in use`;
    return (
        <section class="stack" aria-label={`Pool ${name}`}>
            <div class="spread">
                <h2>
                    {name} <span class="muted">{count(present.length, "agent")}</span>
                    {lost > 0 && <span class="bad">, {lost} lost</span>}
                </h2>
                <span class="line num">
                    <Bar value={used} max={all} label={usage} /> {usage}
                </span>
            </div>
            <div class="agents">
                {agents.map((agent) => (
                    <AgentCard
                        key={agent.id}
                        agent={agent}
                        names={names}
                        highlighted={highlighted}
                        onOpen={() => openAgentId.push(agent.id)}
                    />
                ))}
            </div>
        </section>
    );
}

const poolOf = (agent: Agent) => agent.resourcePools?.[0] ?? "default";

function matchesFilters(agent: Agent): boolean {
    const words = [agent.id, agent.hostname, agent.label, agent.rack, ...(agent.addresses ?? [])];
    const pattern = search.value.trim().toLowerCase();
    return (
        (!pool.value || poolOf(agent) === pool.value) &&
        (!health.value || agentHealth(agent) === health.value) &&
        (!pattern || words.some((word) => word?.toLowerCase().includes(pattern)))
    );
}

function Filters({ agents }: { agents: readonly Agent[] }) {
    const pools = [...new Set(agents.map(poolOf))].sort();
    const states = [...new Set(agents.map(agentHealth))].sort();
    const tally = (state: string) => agents.filter((one) => agentHealth(one) === state).length;
    return (
        <div class="line">
            <Search bind={search} label="Find agents" />
            {pools.length > 1 && (
                <Select
                    label="Pool"
                    bind={pool}
                    options={[{ value: "", title: "All pools" }, ...pools]}
                />
            )}
            <Select
                label="Health"
                bind={health}
                options={[
                    { value: "", title: `All ${agents.length}` },
                    ...states.map((state) => ({
                        value: state,
                        title: `${stateText(state)}: ${tally(state)}`,
                    })),
                ]}
            />
        </div>
    );
}

export function Slots() {
    const cluster = useLoad(readCluster, { topics: ["agents", "queue", "experiments"] });
    const highlighted = useSignal<HighlightedExperiment>(undefined);
    return (
        <Loaded load={cluster}>
            {({ agents, names }) => {
                const shown = agents.filter(matchesFilters);
                const pools = [...new Set(shown.map(poolOf))].sort();
                const open = agents.find((agent) => agent.id === openAgentId.value);
                if (agents.length === 0)
                    return (
                        <Empty title="No agents connected yet" icon="cluster">
                            <LinkButton href="/">How to connect an agent</LinkButton>
                        </Empty>
                    );
                return (
                    <>
                        <Filters agents={agents} />
                        <SlotHolders holders={slotHolders(shown, names)} highlighted={highlighted} />
                        {pools.map((name) => (
                            <AgentPool
                                key={name}
                                name={name}
                                agents={shown.filter((agent) => poolOf(agent) === name)}
                                names={names}
                                highlighted={highlighted.value ?? (Number(experimentParam.value) || undefined)}
                            />
                        ))}
                        {shown.length === 0 && <p class="muted">No agents match.</p>}
                        {open && (
                            <AgentDialog
                                agent={open}
                                names={names}
                                onClose={() => (openAgentId.value = "")}
                                onChanged={cluster.reload}
                            />
                        )}
                    </>
                );
            }}
        </Loaded>
    );
}
