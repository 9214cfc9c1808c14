// An agent in full, and its slots one by one.

import type { Action } from "../../lib/actions";
import { agentActions, experimentOf, faultOf, healthOf, slotsShown } from "../../lib/cluster";
import { bytes } from "../../lib/format";
import { isAdmin } from "../../lib/session";
import type { Agent, Slot } from "../../lib/types";
import { ActionBar, ActionButton, Dialog, StateBadge, Time } from "../../parts";
import type { Names } from "./agent";

function slotAction(agent: Agent, slot: Slot): Action {
    const path = `/agents/${encodeURIComponent(agent.id)}/slots/${slot.id}`;
    const words = [agent.id, slot.id!];
    if (slot.enabled === false)
        return {
            name: `Enable slot ${slot.id}`,
            done: `Slot ${slot.id} of ${agent.id} takes work again`,
            call: { method: "POST", path: `${path}/enable`, muster: ["slot", "enable", ...words] },
        };
    return {
        name: `Drain slot ${slot.id}`,
        done: `Slot ${slot.id} of ${agent.id} is given no more work`,
        call: {
            method: "POST",
            path: `${path}/disable`,
            body: { drain: true },
            muster: ["slot", "disable", ...words, "--drain"],
        },
    };
}

/** What is known of a GPU beside its name. */
function factsOf({ device, use }: Slot): string {
    const facts = [
        device?.pciBusId,
        device?.nvlinkGroup !== undefined && `NVLink ${device.nvlinkGroup}`,
        device?.numaGroup !== undefined && `node ${device.numaGroup}`,
        use?.gpu_util !== undefined && `${use.gpu_util} % used`,
        use?.gpu_used_memory !== undefined && `${bytes(use.gpu_used_memory)} of ${bytes(device?.memory ?? 0)}`,
        use?.gpu_temperature !== undefined && `${use.gpu_temperature} °C`,
        use?.gpu_power !== undefined && `${Math.round(use.gpu_power)} W`,
    ];
    return facts.filter(Boolean).join(" · ");
}

const stateOf = (agent: Agent, slot: Slot) =>
    agent.lost
        ? "LOST"
        : slot.enabled === false
          ? slot.container
            ? "DRAINING"
            : "DISABLED"
        : slot.container
          ? "RUNNING"
          : "FREE";

export function AgentDialog(props: {
    agent: Agent;
    names: Names;
    onClose: () => void;
    onChanged: () => void;
}) {
    const { agent, names, onChanged } = props;
    const mayChange = isAdmin() && !agent.lost;
    const then = (action: Action): Action => ({ ...action, run: onChanged });
    const facts: [string, string | undefined][] = [
        ["Host", agent.hostname],
        ["Address", agent.addresses?.join(", ")],
        ["Pool", agent.resourcePools?.join(", ")],
        ["Rack", agent.rack],
        ["Label", agent.label],
        ["Version", agent.version],
    ];
    return (
        <Dialog title={`Agent ${agent.id}`} onClose={props.onClose} wide>
            <div class="stack">
                <div class="spread">
                    <StateBadge state={healthOf(agent)} />
                    <ActionBar actions={isAdmin() ? agentActions(agent).map(then) : []} />
                </div>
                <dl class="facts">
                    {facts.map(
                        ([name, value]) =>
                            value && (
                                <>
                                    <dt>{name}</dt>
                                    <dd>{value}</dd>
                                </>
                            ),
                    )}
                    <dt>Known since</dt>
                    <dd>
                        <Time at={agent.registeredTime} />
                    </dd>
                    {agent.connected === false && (
                        <>
                            <dt>Last heard</dt>
                            <dd>
                                <Time at={agent.lastSeen} />
                            </dd>
                        </>
                    )}
                </dl>
                <table class="agent-slots">
                    <thead>
                        <tr>
                            <th scope="col">Slot</th>
                            <th scope="col">Device</th>
                            <th scope="col">State</th>
                            <th scope="col">{agent.lost ? "Ran" : "Held by"}</th>
                            {mayChange && (
                                <th scope="col">
                                    <span class="hidden">Actions</span>
                                </th>
                            )}
                        </tr>
                    </thead>
                    <tbody>
                        {slotsShown(agent).map((slot) => {
                            const id = experimentOf(slot.container?.allocationId);
                            const name = names.get(slot.container?.allocationId ?? "")?.name;
                            return (
                                <tr key={slot.id}>
                                    <td class="num">{slot.id}</td>
                                    <td title={slot.device?.uuid}>
                                        {slot.device?.brand}
                                        {factsOf(slot) && (
                                            <div class="muted num">{factsOf(slot)}</div>
                                        )}
                                    </td>
                                    <td>
                                        <StateBadge state={stateOf(agent, slot)} />
                                        {slot.fault && (
                                            <div class={faultOf(slot) ? "" : "muted"}>
                                                {slot.fault.reason}
                                                {slot.fault.overruled && " (overruled)"}
                                            </div>
                                        )}
                                    </td>
                                    <td>
                                        {id !== undefined && name ? (
                                            <a href={`/experiments/${id}`}>
                                                #{id} {name}
                                            </a>
                                        ) : (
                                            (name ?? "")
                                        )}
                                    </td>
                                    {mayChange && (
                                        <td>
                                            <ActionButton action={then(slotAction(agent, slot))} />
                                        </td>
                                    )}
                                </tr>
                            );
                        })}
                    </tbody>
                </table>
            </div>
        </Dialog>
    );
}
