// Administration. Users see only the tabs that they may use.

import type { ComponentType } from "preact";
import { isAdmin } from "../../lib/session";
import { navigate, queryParam, text } from "../../lib/url";
import { PageHead, Tabs } from "../../parts";
import { Agents } from "./agents";
import { Audit } from "./audit";
import { MasterLog, ClusterMessageTab } from "./master";
import { TeamsTab } from "./teams";
import { TemplatesTab } from "./templates";
import { TokensTab } from "./tokens";
import { Users } from "./users";
import { Webhooks } from "./webhooks";
import "./admin.css";

interface Panel {
    id: string;
    title: string;
    panel: ComponentType;
    onlyAdmin?: boolean;
}

const panels: readonly Panel[] = [
    { id: "users", title: "Users", panel: Users },
    { id: "teams", title: "Teams", panel: TeamsTab },
    { id: "tokens", title: "Tokens", panel: TokensTab },
    { id: "agents", title: "Agents", panel: Agents },
    { id: "webhooks", title: "Webhooks", panel: Webhooks },
    { id: "templates", title: "Templates", panel: TemplatesTab },
    { id: "audit", title: "Audit", panel: Audit, onlyAdmin: true },
    { id: "notice", title: "Cluster message", panel: ClusterMessageTab, onlyAdmin: true },
    { id: "log", title: "Master log", panel: MasterLog, onlyAdmin: true },
];

const tab = queryParam("tab", text("users"));

/** Changing the tab drops the other parameters, such as the search. */
const tabBinding = {
    get value() {
        return tab.value;
    },
    set value(id: string) {
        navigate(`/admin?tab=${id}`);
    },
};

export function Page() {
    const shownPanels = panels.filter((panel) => isAdmin() || !panel.onlyAdmin);
    const shown = shownPanels.find((panel) => panel.id === tab.value) ?? shownPanels[0]!;
    const Panel = shown.panel;
    return (
        <main>
            <PageHead title="Admin" />
            <Tabs tabs={shownPanels} bind={tabBinding} label="Administration" />
            <Panel key={shown.id} />
        </main>
    );
}
