// The machines: who has which slots now, who had them, and what more of them would do.

import { Head, Tabs } from "../../parts";
import { param, text } from "../../lib/url";
import { History } from "./history";
import { Slots } from "./slots";
import { WhatIf } from "./what_if";
import "./cluster.css";

const tab = param("tab", text("slots"));
const tabs = [
    { id: "slots", title: "Slots" },
    { id: "history", title: "History of use" },
    { id: "whatif", title: "What if" },
];

export function Page() {
    return (
        <main>
            <Head title="Cluster" />
            <Tabs tabs={tabs} at={tab} label="Views of the cluster" />
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
