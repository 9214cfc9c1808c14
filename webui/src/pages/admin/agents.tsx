// Machines, and whether they are given work. What runs on them is shown by the page Cluster.

import type { Action } from "../../lib/actions";
import { get } from "../../lib/api";
import { number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { isAdmin } from "../../lib/session";
import type { Agent } from "../../lib/types";
import { Ago, Bar, Search, StateBadge } from "../../parts";
import type { Column } from "../../parts/table";
import { find, ListTable, menuColumn } from "./list";

function stateOf(agent: Agent): string {
    if (agent.connected === false) return "LOST";
    if (agent.draining) return "DRAINING";
    return agent.enabled === false ? "DISABLED" : "ENABLED";
}

function slotsOf(agent: Agent) {
    const all = Object.values(agent.slots ?? {});
    return { total: all.length, used: all.filter((slot) => slot.container).length };
}

function actionsOf(agent: Agent, changed: () => void): Action[] {
    const refused = isAdmin() ? undefined : "This takes an administrator";
    const path = `/agents/${encodeURIComponent(agent.id)}`;
    if (agent.enabled === false)
        return [
            {
                name: "Enable",
                refused,
                call: { method: "POST", path: `${path}/enable`, muster: ["agent", "enable", agent.id] },
                run: changed,
            },
        ];
    const disable = (drain: boolean) => ({
        method: "POST" as const,
        path: `${path}/disable`,
        body: { drain },
        muster: ["agent", "disable", agent.id, ...(drain ? ["--drain"] : [])],
    });
    return [
        { name: "Drain: no more work", refused, call: disable(true), run: changed },
        {
            name: "Disable at once",
            refused,
            danger: "What runs there ends now; trials go on elsewhere from their newest checkpoints.",
            call: disable(false),
            run: changed,
        },
    ];
}

function columnsFor(changed: () => void): Column<Agent>[] {
    return [
        { id: "id", title: "Agent", width: 180, sort: "id", value: (agent) => agent.id, cell: (agent) => agent.id },
        {
            id: "state",
            title: "State",
            width: 140,
            sort: "state",
            value: stateOf,
            cell: (agent) => <StateBadge state={stateOf(agent)} />,
        },
        {
            id: "slots",
            title: "Slots in use",
            width: 170,
            sort: "slots",
            value: (agent) => slotsOf(agent).total,
            cell: (agent) => {
                const { used, total } = slotsOf(agent);
                return (
                    <span class="num">
                        <Bar value={used} of={total} label={`${used} of ${total} slots in use`} />{" "}
                        {number(used)} of {number(total)}
                    </span>
                );
            },
        },
        { id: "pool", title: "Pool", width: 120, cell: (agent) => agent.resourcePools?.join(", ") },
        { id: "host", title: "Host", width: 150, cell: (agent) => agent.hostname },
        { id: "version", title: "Version", width: 90, cell: (agent) => agent.version },
        {
            id: "since",
            title: "Registered",
            width: 110,
            sort: "since",
            value: (agent) => agent.registeredTime,
            cell: (agent) => <Ago at={agent.registeredTime} />,
        },
        menuColumn((agent) => agent.id, (agent) => actionsOf(agent, changed)),
    ];
}

export function Agents() {
    const load = useLoad((abort) => get<{ agents: Agent[] }>("/agents", {}, abort), {
        topics: ["agents", "queue"],
    });
    return (
        <>
            <Search at={find} label="Agents by name or host" />
            <ListTable
                label="Agents"
                of={load}
                pick={({ agents }) => agents}
                columns={columnsFor(load.reload)}
                name={(agent) => agent.id}
                id={(agent) => agent.id}
                words={(agent) => `${agent.id} ${agent.hostname ?? ""}`}
            />
        </>
    );
}
