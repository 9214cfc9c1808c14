// Agents by pool, each with its slots in the colours and numbers of the experiments that hold them.

import { type Signal, useSignal } from "@preact/signals";
import { get } from "../../lib/api";
import { experimentOf, healthOf, slotsOf, tintOf, usedSlots } from "../../lib/cluster";
import { count } from "../../lib/format";
import { useLoad } from "../../lib/load";
import type { Agent, Experiment } from "../../lib/types";
import { param, text } from "../../lib/url";
import { Bar, Empty, LinkButton, Loaded, Search, Select, stateText } from "../../parts";
import { AgentCard, type Known, type Lit } from "./agent";
import { AgentDialog } from "./agent_dialog";

const pool = param("pool", text());
const health = param("health", text());
const search = param("q", text());
const opened = param("agent", text());
const chosen = param("experiment", text());

/** What holds slots, by its experiment. */
export interface Holder {
    experimentId: number;
    name: string;
    slots: number;
    agents: number;
}

interface Allocation {
    allocationId: string;
    name: string;
}

interface Cluster {
    agents: Agent[];
    names: Map<string, Known>;
}

/** What lost machines ran, and what has become of it. */
async function addPast(agents: readonly Agent[], names: Map<string, Known>, abort: AbortSignal): Promise<void> {
    const ran = agents.flatMap((agent) => (agent.lost ? (agent.ran ?? []) : []));
    const ids = [...new Set(ran.map((run) => experimentOf(run.allocationId)))].filter((id) => id !== undefined);
    if (ids.length === 0) return;
    const { experiments } = await get<{ experiments: Experiment[] }>(
        "/experiments",
        { filter: `id in (${ids.slice(0, 200).join(", ")})`, omit: "config" },
        abort,
    );
    for (const { allocationId } of ran) {
        const found = experiments.find((one) => one.id === experimentOf(allocationId));
        if (found) names.set(allocationId, { name: found.name, state: found.state });
    }
}

async function read(abort: AbortSignal): Promise<Cluster> {
    const [{ agents }, tasks] = await Promise.all([
        get<{ agents: Agent[] }>("/agents", { lost: true }, abort),
        get<{ allocationIdToSummary?: Record<string, Allocation> }>("/tasks", {}, abort),
    ]);
    const allocations = Object.values(tasks.allocationIdToSummary ?? {});
    const names = new Map<string, Known>(allocations.map(({ allocationId, name }) => [allocationId, { name }]));
    await addPast(agents, names, abort);
    return { agents, names };
}

function holdersOf(agents: readonly Agent[], names: Cluster["names"]): Holder[] {
    const found = new Map<number, Holder & { seen: Set<string> }>();
    for (const agent of agents)
        for (const slot of slotsOf(agent)) {
            const id = experimentOf(slot.container?.allocationId);
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

function Holders({ holders, lit }: { holders: readonly Holder[]; lit: Signal<Lit> }) {
    if (holders.length === 0) return null;
    const light = (id: Lit) => () => (lit.value = id);
    return (
        <ul class="holders" aria-label="What holds slots">
            {holders.map((holder) => (
                <li key={holder.experimentId}>
                    <a
                        class="holder"
                        href={holder.name ? `/experiments/${holder.experimentId}` : "/queue"}
                        style={{ "--tint": tintOf(holder.experimentId) }}
                        onPointerEnter={light(holder.experimentId)}
                        onPointerLeave={light(undefined)}
                        onFocus={light(holder.experimentId)}
                        onBlur={light(undefined)}
                    >
                        <span class="holder-mark" aria-hidden="true" />
                        <b class="num">#{holder.experimentId}</b>
                        <span class="cut">{holder.name || "of another team"}</span>
                        <span class="muted num">
                            {count(holder.slots, "slot")} on {count(holder.agents, "agent")}
                        </span>
                    </a>
                </li>
            ))}
        </ul>
    );
}

function PoolOfAgents(props: {
    name: string;
    agents: readonly Agent[];
    names: Cluster["names"];
    lit: Lit;
}) {
    const { name, agents, names, lit } = props;
    const there = agents.filter((agent) => !agent.lost);
    const lost = agents.length - there.length;
    const used = there.reduce((sum, agent) => sum + usedSlots(agent), 0);
    const all = there.reduce((sum, agent) => sum + slotsOf(agent).length, 0);
    const said = `${used} of ${count(all, "slot")} in use`;
    return (
        <section class="stack" aria-label={`Pool ${name}`}>
            <div class="spread">
                <h2>
                    {name} <span class="muted">{count(there.length, "agent")}</span>
                    {lost > 0 && <span class="bad">, {lost} lost</span>}
                </h2>
                <span class="line num">
                    <Bar value={used} of={all} label={said} /> {said}
                </span>
            </div>
            <div class="agents">
                {agents.map((agent) => (
                    <AgentCard
                        key={agent.id}
                        agent={agent}
                        names={names}
                        lit={lit}
                        onOpen={() => opened.push(agent.id)}
                    />
                ))}
            </div>
        </section>
    );
}

const poolOf = (agent: Agent) => agent.resourcePools?.[0] ?? "default";

function isShown(agent: Agent): boolean {
    const words = [agent.id, agent.hostname, agent.label, agent.rack, ...(agent.addresses ?? [])];
    const wanted = search.value.trim().toLowerCase();
    return (
        (!pool.value || poolOf(agent) === pool.value) &&
        (!health.value || healthOf(agent) === health.value) &&
        (!wanted || words.some((word) => word?.toLowerCase().includes(wanted)))
    );
}

function Filters({ agents }: { agents: readonly Agent[] }) {
    const pools = [...new Set(agents.map(poolOf))].sort();
    const states = [...new Set(agents.map(healthOf))].sort();
    const tally = (state: string) => agents.filter((one) => healthOf(one) === state).length;
    return (
        <div class="line">
            <Search at={search} label="Find agents" />
            {pools.length > 1 && (
                <Select
                    label="Pool"
                    at={pool}
                    options={[{ value: "", title: "All pools" }, ...pools]}
                />
            )}
            <Select
                label="Health"
                at={health}
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
    const cluster = useLoad(read, { topics: ["agents", "queue", "experiments"] });
    const lit = useSignal<Lit>(undefined);
    return (
        <Loaded of={cluster}>
            {({ agents, names }) => {
                const shown = agents.filter(isShown);
                const pools = [...new Set(shown.map(poolOf))].sort();
                const open = agents.find((agent) => agent.id === opened.value);
                if (agents.length === 0)
                    return (
                        <Empty title="No agent has connected yet" icon="cluster">
                            <LinkButton href="/">How to start one</LinkButton>
                        </Empty>
                    );
                return (
                    <>
                        <Filters agents={agents} />
                        <Holders holders={holdersOf(shown, names)} lit={lit} />
                        {pools.map((name) => (
                            <PoolOfAgents
                                key={name}
                                name={name}
                                agents={shown.filter((agent) => poolOf(agent) === name)}
                                names={names}
                                lit={lit.value ?? (Number(chosen.value) || undefined)}
                            />
                        ))}
                        {shown.length === 0 && <p class="muted">No agent fits.</p>}
                        {open && (
                            <AgentDialog
                                agent={open}
                                names={names}
                                onClose={() => (opened.value = "")}
                                onChanged={cluster.reload}
                            />
                        )}
                    </>
                );
            }}
        </Loaded>
    );
}
