// The cluster: the slots in use now, the history of their use, and a simulation of more agents.

import { PageHead, Tabs } from "../../parts";
import { queryParam, text } from "../../lib/url";
import { History } from "./usage_history";
import { Slots } from "./slots";
import { WhatIf } from "./what_if";
import "./cluster.css";

const tab = queryParam("tab", text("slots"));
const tabs = [
    { id: "slots", title: "Slots" },
    { id: "history", title: "Usage history" },
    { id: "whatif", title: "What if" },
];

export function Page() {
    return (
        <main>
            <PageHead title="Cluster" />
            <Tabs tabs={tabs} bind={tab} label="Views of the cluster" />
            {tab.value === "history" ? (
                <History />
            ) : tab.value === "whatif" ? (
                <WhatIf />
            ) : (
                <Slots />
            )}
        </main>
    );
}
