// The agents, and whether they take work. The page Cluster shows what runs on them.

import type { Action } from "../../lib/actions";
import { get } from "../../lib/api";
import { agentActions, agentHealth, agentSlots, usedSlotCount } from "../../lib/cluster";
import { number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { isAdmin } from "../../lib/session";
import type { Agent } from "../../lib/types";
import { Ago, Bar, Search, StateBadge } from "../../parts";
import type { Column } from "../../parts/table/table";
import { searchText, ListTable, menuColumn } from "./list_table";

const slotCounts = (agent: Agent) => ({ total: agentSlots(agent).length, used: usedSlotCount(agent) });

function adminActions(agent: Agent, changed: () => void): Action[] {
    return isAdmin() ? agentActions(agent).map((action) => ({ ...action, run: changed })) : [];
}

function agentColumns(changed: () => void): Column<Agent>[] {
    return [
        { id: "id", title: "Agent", width: 180, sort: "id", value: (agent) => agent.id, cell: (agent) => agent.id },
        {
            id: "state",
            title: "State",
            width: 140,
            sort: "state",
            value: agentHealth,
            cell: (agent) => <StateBadge state={agentHealth(agent)} />,
        },
        {
            id: "slots",
            title: "Slots in use",
            width: 170,
            sort: "slots",
            value: (agent) => slotCounts(agent).total,
            cell: (agent) => {
                const { used, total } = slotCounts(agent);
                return (
                    <span class="num">
                        <Bar value={used} max={total} label={`${used} of ${total} slots in use`} />{" "}
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
        {
            id: "heard",
            title: "Last seen",
            width: 110,
            cell: (agent) => (agent.connected === false ? <Ago at={agent.lastSeen} /> : "now"),
        },
        menuColumn((agent) => agent.id, (agent) => adminActions(agent, changed)),
    ];
}

export function Agents() {
    const load = useLoad((abort) => get<{ agents: Agent[] }>("/agents", { lost: true }, abort), {
        topics: ["agents", "queue"],
    });
    return (
        <>
            <Search bind={searchText} label="Find agents by name or host" />
            <ListTable
                label="Agents"
                load={load}
                pick={({ agents }) => agents}
                columns={agentColumns(load.reload)}
                name={(agent) => agent.id}
                id={(agent) => agent.id}
                searchable={(agent) => `${agent.id} ${agent.hostname ?? ""}`}
            />
        </>
    );
}
