// The details of an agent, and a table of its slots.

import type { Action } from "../../lib/actions";
import { agentActions, experimentIdOf, activeFault, agentHealth, displayedSlots } from "../../lib/cluster";
import { bytes } from "../../lib/format";
import { isAdmin } from "../../lib/session";
import type { Agent, Slot } from "../../lib/types";
import { ActionBar, ActionButton, Dialog, StateBadge, Time } from "../../parts";
import type { AllocationNames } from "./agent_card";

function slotAction(agent: Agent, slot: Slot): Action {
    const path = `/agents/${encodeURIComponent(agent.id)}/slots/${slot.id}`;
    const words = [agent.id, slot.id!];
    if (slot.enabled === false)
        return {
            name: `Enable slot ${slot.id}`,
            doneText: `Slot ${slot.id} of ${agent.id} is enabled`,
            call: { method: "POST", path: `${path}/enable`, muster: ["slot", "enable", ...words] },
        };
    return {
        name: `Drain slot ${slot.id}`,
        doneText: `Slot ${slot.id} of ${agent.id} takes no new work`,
        call: {
            method: "POST",
            path: `${path}/disable`,
            body: { drain: true },
            muster: ["slot", "disable", ...words, "--drain"],
        },
    };
}

/** The bus, the groups and the newest measurements of a GPU. */
function factsOf({ device, use }: Slot): string {
    const facts = [
        device?.pciBusId,
        device?.nvlinkGroup !== undefined && `NVLink ${device.nvlinkGroup}`,
        device?.numaGroup !== undefined && `NUMA node ${device.numaGroup}`,
        use?.gpu_util !== undefined && `${use.gpu_util} % utilization`,
        use?.gpu_used_memory !== undefined && `${bytes(use.gpu_used_memory)} of ${bytes(device?.memory ?? 0)}`,
        use?.gpu_temperature !== undefined && `${use.gpu_temperature} °C`,
        use?.gpu_power !== undefined && `${Math.round(use.gpu_power)} W`,
    ];
    return facts.filter(Boolean).join(" · ");
}

function stateOf(agent: Agent, slot: Slot): string {
    if (agent.lost) return "LOST";
    if (agent.connected === false) return "AWAY";
    if (slot.enabled === false) return slot.container ? "DRAINING" : "DISABLED";
    return slot.container ? "RUNNING" : "FREE";
}

function AgentFacts({ agent }: { agent: Agent }) {
    const facts: [string, string | undefined][] = [
        ["Host", agent.hostname],
        ["Address", agent.addresses?.join(", ")],
        ["Pool", agent.resourcePools?.join(", ")],
        ["Rack", agent.rack],
        ["Label", agent.label],
        ["Version", agent.version],
    ];
    return (
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
            <dt>Registered</dt>
            <dd>
                <Time at={agent.registeredTime} />
            </dd>
            {agent.connected === false && (
                <>
                    <dt>Last seen</dt>
                    <dd>
                        <Time at={agent.lastSeen} />
                    </dd>
                </>
            )}
        </dl>
    );
}

function SlotRow(props: { agent: Agent; slot: Slot; name: string | undefined; action: Action | undefined }) {
    const { agent, slot, name, action } = props;
    const id = experimentIdOf(slot.container?.allocationId);
    const facts = factsOf(slot);
    return (
        <tr>
            <td class="num">{slot.id}</td>
            <td title={slot.device?.uuid}>
                {slot.device?.brand}
                {facts && <div class="muted num">{facts}</div>}
            </td>
            <td>
                <StateBadge state={stateOf(agent, slot)} />
                {slot.fault && (
                    <div class={activeFault(slot) ? "" : "muted"}>
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
            {action && (
                <td>
                    <ActionButton action={action} />
                </td>
            )}
        </tr>
    );
}

function SlotTable(props: { agent: Agent; names: AllocationNames; onChanged: () => void }) {
    const { agent, names, onChanged } = props;
    const canChange = isAdmin() && !agent.lost;
    return (
        <table class="agent-slots">
            <thead>
                <tr>
                    <th scope="col">Slot</th>
                    <th scope="col">Device</th>
                    <th scope="col">State</th>
                    <th scope="col">{agent.lost ? "Last used by" : "Used by"}</th>
                    {canChange && (
                        <th scope="col">
                            <span class="hidden">Actions</span>
                        </th>
                    )}
                </tr>
            </thead>
            <tbody>
                {displayedSlots(agent).map((slot) => (
                    <SlotRow
                        key={slot.id}
                        agent={agent}
                        slot={slot}
                        name={names.get(slot.container?.allocationId ?? "")?.name}
                        action={canChange ? { ...slotAction(agent, slot), run: onChanged } : undefined}
                    />
                ))}
            </tbody>
        </table>
    );
}

export function AgentDialog(props: { agent: Agent; names: AllocationNames; onClose: () => void; onChanged: () => void }) {
    const { agent, names, onChanged } = props;
    const actions = isAdmin() ? agentActions(agent).map((action) => ({ ...action, run: onChanged })) : [];
    return (
        <Dialog title={`Agent ${agent.id}`} onClose={props.onClose} wide>
            <div class="stack">
                <div class="spread">
                    <StateBadge state={agentHealth(agent)} />
                    <ActionBar actions={actions} />
                </div>
                <AgentFacts agent={agent} />
                <SlotTable agent={agent} names={names} onChanged={onChanged} />
            </div>
        </Dialog>
    );
}
