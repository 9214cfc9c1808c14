// One agent as a card: its health, and its slots by who holds them.

import type { Action } from "../../lib/actions";
import { healthOf, type Run, runsOf, slotsOf, tintOf } from "../../lib/cluster";
import { count } from "../../lib/format";
import { isAdmin } from "../../lib/session";
import type { Agent } from "../../lib/types";
import { copyItems, Icon, Menu, StateBadge } from "../../parts";

const WIDTH = 8; // slots in a row

/** The experiment that stands out. */
export type Lit = number | undefined;

/** What may be done with an agent: nothing, but for an administrator. */
export function agentActions(agent: Agent): Action[] {
    if (!isAdmin()) return [];
    const path = `/agents/${encodeURIComponent(agent.id)}`;
    const used = slotsOf(agent).filter((slot) => slot.container).length;
    const enable: Action = {
        name: `Enable ${agent.id}`,
        icon: "check",
        done: `${agent.id} takes work again`,
        call: { method: "POST", path: `${path}/enable`, muster: ["agent", "enable", agent.id] },
    };
    const drain: Action = {
        name: `Drain ${agent.id}`,
        icon: "pause",
        danger: `It is given no more work. What runs on its ${count(used, "slot")} in use runs on to its end.`,
        done: `${agent.id} is given no more work`,
        call: {
            method: "POST",
            path: `${path}/disable`,
            body: { drain: true },
            muster: ["agent", "disable", agent.id, "--drain"],
        },
    };
    const disable: Action = {
        name: `Disable ${agent.id} now`,
        icon: "stop",
        danger: used
            ? `What runs on its ${count(used, "slot")} in use is stopped, and starts again elsewhere from its newest checkpoint.`
            : "It is given no more work until it is enabled again.",
        done: `${agent.id} is out of service`,
        call: {
            method: "POST",
            path: `${path}/disable`,
            body: {},
            muster: ["agent", "disable", agent.id],
        },
    };
    if (agent.enabled !== false) return [drain, disable];
    return agent.draining ? [enable, disable] : [enable];
}

function RunOfSlots({ run, name, lit }: { run: Run; name: string; lit: Lit }) {
    const { first, count: size, experimentId } = run;
    const where = size > 1 ? `slots ${first} to ${first + size - 1}` : `slot ${first}`;
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
                    <Icon name="slash" /> <span class="cut">{size > 1 ? `${size} off` : "off"}</span>
                </>
            ) : (
                <span class="cut">{size > 1 ? `${size} free` : "free"}</span>
            )}
        </span>
    );
}

/** What the state does not say: whether a drained machine may be switched off. */
function note(agent: Agent, used: number): string {
    if (agent.connected === false) return "its tasks are given up soon, and start elsewhere";
    if (!agent.draining) return "";
    return used ? `${count(used, "slot")} still at work` : "drained: it may be switched off";
}

export function AgentCard(props: {
    agent: Agent;
    names: ReadonlyMap<string, string>;
    lit: Lit;
    onOpen: () => void;
}) {
    const { agent, names, lit } = props;
    const slots = slotsOf(agent);
    const used = slots.filter((slot) => slot.container).length;
    const actions = agentActions(agent);
    const said = note(agent, used);
    return (
        <article class="card agent" aria-label={`Agent ${agent.id}`}>
            <div class="agent-head">
                <button type="button" class="agent-name cut" onClick={props.onOpen}>
                    {agent.id}
                </button>
                <StateBadge state={healthOf(agent)} />
                <span class="muted num agent-used">
                    {used}/{slots.length}
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
            {said && <p class="muted agent-note">{said}</p>}
            <div class="slots">
                {runsOf(slots, WIDTH).map((run) => (
                    <RunOfSlots
                        key={run.first}
                        run={run}
                        name={names.get(run.allocationId ?? "") ?? ""}
                        lit={lit}
                    />
                ))}
            </div>
        </article>
    );
}
