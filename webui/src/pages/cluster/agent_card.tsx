// An agent as a card: its health, and its slots with the experiments that use them.

import {
    agentActions, experimentIdOf, agentHealth, type SlotRange, slotRanges, displayedSlots, categoryColour,
    usedSlotCount,
} from "../../lib/cluster";
import { count } from "../../lib/format";
import { isAdmin } from "../../lib/session";
import type { Agent } from "../../lib/types";
import { Ago, copyItems, Icon, Menu, StateBadge, Time } from "../../parts";

const SLOTS_PER_ROW = 8; // as many as the grid .slots has columns

/** The id of the highlighted experiment. */
export type HighlightedExperiment = number | undefined;

/** The name and state of an allocation, which runs or ran. */
export interface AllocationInfo {
    name: string;
    /** The state of the experiment, for allocations of a lost agent. */
    state?: string;
}
export type AllocationNames = ReadonlyMap<string, AllocationInfo>;

interface SlotRangeProps {
    range: SlotRange;
    name: string;
    highlighted: HighlightedExperiment;
    /** Whether the agent is lost, so the slots show their last allocations. */
    isPast: boolean;
}

function SlotRangeView({ range, name, highlighted, isPast }: SlotRangeProps) {
    const { first, count: size, experimentId } = range;
    const slots = size > 1 ? `slots ${first} to ${first + size - 1}` : `slot ${first}`;
    const description = range.fault ? `${slots}: ${range.fault}` : slots;
    const style = { "--span": size };
    if (experimentId !== undefined) {
        const label = `#${experimentId} ${name || "(another team)"}: ${description}`;
        const isDim = highlighted !== undefined && highlighted !== experimentId;
        const inside = (
            <>
                <b class="num">
                    <span class="slot-hash">#</span>
                    {experimentId}
                </b>{" "}
                {size > 1 && <span class="ellipsis">{name}</span>}
            </>
        );
        const tintedStyle = { ...style, "--tint": categoryColour(experimentId) };
        const heldClass = `slot slot-held${isDim ? " slot-dim" : ""}`;
        return name ? (
            <a
                class={heldClass}
                style={tintedStyle}
                href={`/experiments/${experimentId}`}
                title={label}
                aria-label={label}
            >
                {inside}
            </a>
        ) : (
            <span class={heldClass} style={tintedStyle} title={label}>
                {inside}
            </span>
        );
    }
    if (range.allocationId)
        return (
            <span class="slot slot-held" style={style} title={`${description}: ${name || "a task"}`}>
                <span class="ellipsis">{name || "task"}</span>
            </span>
        );
    return (
        <span class={`slot ${range.isOff ? "slot-off" : "slot-free"}`} style={style} title={description}>
            {range.isOff ? (
                <>
                    <Icon name="slash" />{" "}
                    <span class="ellipsis">
                        {range.fault ? "fault" : size > 1 ? `${size} off` : "off"}
                    </span>
                </>
            ) : (
                <span class="ellipsis">{isPast ? "was free" : size > 1 ? `${size} free` : "free"}</span>
            )}
        </span>
    );
}

/** Details of the agent's health: when it was last seen, and whether a drained agent may be switched off. */
function HealthNote({ agent, names }: { agent: Agent; names: AllocationNames }) {
    const health = agentHealth(agent);
    const used = usedSlotCount(agent);
    if (health === "AWAY")
        return (
            <p class="muted agent-note">
                Last seen <Ago at={agent.lastSeen} />. Its tasks will soon restart elsewhere.
            </p>
        );
    if (health === "LOST")
        return (
            <p class="agent-note">
                Last seen <Time at={agent.lastSeen} /> (<Ago at={agent.lastSeen} />).{" "}
                {agent.ran?.length ? "It was running:" : "It was idle."}
                {agent.ran?.map(({ allocationId, slots }) => {
                    const id = experimentIdOf(allocationId);
                    const known = names.get(allocationId);
                    return (
                        <span key={allocationId} class="line agent-allocation">
                            {id !== undefined && known ? (
                                <a href={`/experiments/${id}`}>
                                    #{id} {known.name}
                                </a>
                            ) : (
                                <span>a task</span>
                            )}
                            <span class="muted">on {count(slots.length, "slot")}</span>
                            {known?.state && (
                                <>
                                    <span class="muted">now</span> <StateBadge state={known.state} />
                                </>
                            )}
                        </span>
                    );
                })}
            </p>
        );
    if (!agent.draining || agent.connected === false) return null;
    return (
        <p class="muted agent-note">
            {used ? `${count(used, "slot")} still in use` : "Drained: the machine may be switched off"}
        </p>
    );
}

export function AgentCard(props: {
    agent: Agent;
    names: AllocationNames;
    highlighted: HighlightedExperiment;
    onOpen: () => void;
}) {
    const { agent, names, highlighted } = props;
    const slots = displayedSlots(agent);
    const actions = isAdmin() ? agentActions(agent) : [];
    return (
        <article class={`card agent${agent.lost ? " agent-lost" : ""}`} aria-label={`Agent ${agent.id}`}>
            <div class="agent-head">
                <button type="button" class="agent-name ellipsis" onClick={props.onOpen}>
                    {agent.id}
                </button>
                <StateBadge state={agentHealth(agent)} />
                <span class="muted num agent-used">
                    {usedSlotCount(agent)}/{slots.length}
                </span>
                <Menu
                    label={`More actions for ${agent.id}`}
                    icon="more"
                    kind="quiet"
                    items={[
                        { name: "Slots and details", icon: "cluster", run: props.onOpen },
                        ...actions,
                        ...(actions.length ? ["-" as const, ...copyItems(actions)] : []),
                    ]}
                />
            </div>
            <HealthNote agent={agent} names={names} />
            <div class="slots">
                {slotRanges(slots, SLOTS_PER_ROW).map((run) => (
                    <SlotRangeView
                        key={run.first}
                        range={run}
                        name={names.get(run.allocationId ?? "")?.name ?? ""}
                        highlighted={highlighted}
                        isPast={agent.lost ?? false}
                    />
                ))}
            </div>
        </article>
    );
}
