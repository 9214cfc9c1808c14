// What administrators look after, and what others may of it: each sees the tabs that are for them.

import type { ComponentType } from "preact";
import { isAdmin } from "../../lib/session";
import { go, param, text } from "../../lib/url";
import { Head, Tabs } from "../../parts";
import { Agents } from "./agents";
import { Audit } from "./audit";
import { Log, Notice } from "./master";
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
    { id: "notice", title: "Notice", panel: Notice, onlyAdmin: true },
    { id: "log", title: "Master's log", panel: Log, onlyAdmin: true },
];

const tab = param("tab", text("users"));

/** Another tab begins with its own view: nothing searched, nothing chosen. */
const turn = {
    get value() {
        return tab.value;
    },
    set value(id: string) {
        go(`/admin?tab=${id}`);
    },
};

export function Page() {
    const offered = panels.filter((panel) => isAdmin() || !panel.onlyAdmin);
    const shown = offered.find((panel) => panel.id === tab.value) ?? offered[0]!;
    const Panel = shown.panel;
    return (
        <main>
            <Head title="Admin" />
            <Tabs tabs={offered} at={turn} label="What to look after" />
            <Panel key={shown.id} />
        </main>
    );
}
