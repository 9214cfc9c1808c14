// One agent as a card: its health, and its slots by who holds them.

import { agentActions, experimentOf, healthOf, type Run, runsOf, slotsShown, tintOf, usedSlots } from "../../lib/cluster";
import { count } from "../../lib/format";
import { isAdmin } from "../../lib/session";
import type { Agent } from "../../lib/types";
import { Ago, copyItems, Icon, Menu, StateBadge, Time } from "../../parts";

const WIDTH = 8; // slots in a row

/** The experiment that stands out. */
export type Lit = number | undefined;

/** What is known of what runs, or ran, by its allocation. */
export interface Known {
    name: string;
    /** Of the experiment, where it is not plain: of what a lost machine ran. */
    state?: string;
}
export type Names = ReadonlyMap<string, Known>;

function RunOfSlots({ run, name, lit, isPast }: { run: Run; name: string; lit: Lit; isPast: boolean }) {
    const { first, count: size, experimentId } = run;
    const slots = size > 1 ? `slots ${first} to ${first + size - 1}` : `slot ${first}`;
    const where = run.fault ? `${slots}: ${run.fault}` : slots;
    const style = { "--span": size };
    if (experimentId !== undefined) {
        const said = `#${experimentId} ${name || "of another team"}: ${where}`;
        const isDim = lit !== undefined && lit !== experimentId;
        const inside = (
            <>
                <b class="num">
                    <span class="slot-hash">#</span>
                    {experimentId}
                </b>{" "}
                {size > 1 && <span class="cut">{name}</span>}
            </>
        );
        const look = { ...style, "--tint": tintOf(experimentId) };
        const kind = `slot slot-held${isDim ? " slot-dim" : ""}`;
        return name ? (
            <a
                class={kind}
                style={look}
                href={`/experiments/${experimentId}`}
                title={said}
                aria-label={said}
            >
                {inside}
            </a>
        ) : (
            <span class={kind} style={look} title={said}>
                {inside}
            </span>
        );
    }
    if (run.allocationId)
        return (
            <span class="slot slot-held" style={style} title={`${where}: ${name || "a task"}`}>
                <span class="cut">{name || "task"}</span>
            </span>
        );
    return (
        <span class={`slot ${run.isOff ? "slot-off" : "slot-free"}`} style={style} title={where}>
            {run.isOff ? (
                <>
                    <Icon name="slash" />{" "}
                    <span class="cut">
                        {run.fault ? "fault" : size > 1 ? `${size} off` : "off"}
                    </span>
                </>
            ) : (
                <span class="cut">{isPast ? "was free" : size > 1 ? `${size} free` : "free"}</span>
            )}
        </span>
    );
}

/** What the state does not say: whether a drained machine may be switched off; when one was last heard. */
function Note({ agent, names }: { agent: Agent; names: Names }) {
    const health = healthOf(agent);
    const used = usedSlots(agent);
    if (health === "AWAY")
        return (
            <p class="muted agent-note">
                last heard <Ago at={agent.lastSeen} />; its tasks are given up soon, and start elsewhere
            </p>
        );
    if (health === "LOST")
        return (
            <p class="agent-note">
                Last heard <Time at={agent.lastSeen} /> (<Ago at={agent.lastSeen} />).{" "}
                {agent.ran?.length ? "It ran:" : "Nothing ran there."}
                {agent.ran?.map(({ allocationId, slots }) => {
                    const id = experimentOf(allocationId);
                    const known = names.get(allocationId);
                    return (
                        <span key={allocationId} class="line agent-ran">
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
    if (!agent.draining) return null;
    return (
        <p class="muted agent-note">
            {used ? `${count(used, "slot")} still at work` : "drained: it may be switched off"}
        </p>
    );
}

export function AgentCard(props: {
    agent: Agent;
    names: Names;
    lit: Lit;
    onOpen: () => void;
}) {
    const { agent, names, lit } = props;
    const slots = slotsShown(agent);
    const actions = isAdmin() ? agentActions(agent) : [];
    return (
        <article class={`card agent${agent.lost ? " agent-lost" : ""}`} aria-label={`Agent ${agent.id}`}>
            <div class="agent-head">
                <button type="button" class="agent-name cut" onClick={props.onOpen}>
                    {agent.id}
                </button>
                <StateBadge state={healthOf(agent)} />
                <span class="muted num agent-used">
                    {usedSlots(agent)}/{slots.length}
                </span>
                <Menu
                    label={`More for ${agent.id}`}
                    icon="more"
                    kind="quiet"
                    items={[
                        { name: "Slots and details", icon: "cluster", run: props.onOpen },
                        ...actions,
                        ...(actions.length ? ["-" as const, ...copyItems(actions)] : []),
                    ]}
                />
            </div>
            <Note agent={agent} names={names} />
            <div class="slots">
                {runsOf(slots, WIDTH).map((run) => (
                    <RunOfSlots
                        key={run.first}
                        run={run}
                        name={names.get(run.allocationId ?? "")?.name ?? ""}
                        lit={lit}
                        isPast={agent.lost ?? false}
                    />
                ))}
            </div>
        </article>
    );
}
