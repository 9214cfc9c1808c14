// Webhooks: addresses that the master notifies of events.

import { useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { isAdmin } from "../../lib/session";
import type { Trigger, Webhook, Workspace } from "../../lib/types";
import { Field, FormDialog, Search, Select, stateText, Switch, TextInput } from "../../parts";
import type { Column } from "../../parts/table/table";
import { searchText, ListTable, menuColumn, NewButton, teamOptions } from "./list_table";

interface WebhookList {
    webhooks: Webhook[];
    teams: Workspace[];
}

const TRIGGER_PREFIX = "TRIGGER_TYPE_";

function triggerText({ triggerType, condition }: Trigger): string {
    const of = (name: string) => String(condition?.[name] ?? "");
    switch (triggerType.replace(TRIGGER_PREFIX, "")) {
        case "EXPERIMENT_STATE_CHANGE":
            return stateText(of("state"));
        case "TASK_LOG":
            return `log line matches ${of("regex")}`;
        case "METRIC_THRESHOLD_EXCEEDED":
            return `${of("metric")} ${of("above") ? `above ${of("above")}` : `below ${of("below")}`}`;
        case "CLUSTER_ALERT":
            return "alert of the cluster";
        default:
            return "custom alert";
    }
}

const states = ["COMPLETED", "ERROR", "CANCELED"] as const;

function WebhookForm({ teams, onClose }: { teams: readonly Workspace[]; onClose: () => void }) {
    const name = useSignal("");
    const url = useSignal("");
    const type = useSignal("DEFAULT");
    const team = useSignal(isAdmin() ? "" : String(teams[0]?.id ?? ""));
    const isForAll = useSignal(true);
    const isStateChosen = {
        COMPLETED: useSignal(true),
        ERROR: useSignal(true),
        CANCELED: useSignal(false),
    };
    const alerts = useSignal(false);
    const clusterAlerts = useSignal(false);
    const logPattern = useSignal("");
    const submit = async () => {
        const kind = (word: string, condition: object) => ({ triggerType: TRIGGER_PREFIX + word, condition });
        const triggers = [
            ...states
                .filter((state) => isStateChosen[state].value)
                .map((state) => kind("EXPERIMENT_STATE_CHANGE", { state })),
            ...(logPattern.value ? [kind("TASK_LOG", { regex: logPattern.value })] : []),
            ...(alerts.value ? [kind("CUSTOM", {})] : []),
            ...(clusterAlerts.value && !team.value ? [kind("CLUSTER_ALERT", {})] : []),
        ];
        await send("POST", "/webhooks", {
            ...(name.value.trim() ? { name: name.value.trim() } : {}),
            url: url.value.trim(),
            webhookType: `WEBHOOK_TYPE_${type.value}`,
            mode: `WEBHOOK_MODE_${isForAll.value ? "WORKSPACE" : "SPECIFIC"}`,
            ...(team.value ? { workspaceId: Number(team.value) } : {}),
            triggers,
        });
    };
    const scopes = [...(isAdmin() ? [{ value: "", title: "Whole cluster" }] : []), ...teamOptions(teams)];
    return (
        <FormDialog title="New webhook" submitLabel="Create" doneText="Webhook created" onClose={onClose} submit={submit}>
            <Field label="URL">
                <TextInput bind={url} required placeholder="https://example.com/hook" />
            </Field>
            <Field label="Name">
                <TextInput bind={name} />
            </Field>
            <Field label="Format">
                <Select
                    label="Format"
                    hidesLabel
                    bind={type}
                    options={[
                        { value: "DEFAULT", title: "JSON with signature" },
                        { value: "SLACK", title: "Slack message" },
                    ]}
                />
            </Field>
            <Field label="Scope">
                <Select label="Team" hidesLabel bind={team} options={scopes} />
            </Field>
            <Switch label="All experiments in the scope, not only those that name this webhook" bind={isForAll} />
            <fieldset class="admin-fieldset">
                <legend>Notify when an experiment has</legend>
                {states.map((state) => (
                    <Switch key={state} label={stateText(state).toLowerCase()} bind={isStateChosen[state]} />
                ))}
                <Switch label="sent a custom alert" bind={alerts} />
            </fieldset>
            {!team.value && (
                <Switch label="Notify when trouble of the cluster begins or ends (a lost agent, a filling disk, ..)" bind={clusterAlerts} />
            )}
            <Field label="Notify when a log line matches" help="A regular expression, or empty">
                <TextInput bind={logPattern} placeholder="out of memory" />
            </Field>
        </FormDialog>
    );
}

function AddressForm({ hook, onClose }: { hook: Webhook; onClose: () => void }) {
    const url = useSignal(hook.url);
    return (
        <FormDialog
            title={`URL of ${hook.name}`}
            submitLabel="Save"
            doneText="Saved"
            onClose={onClose}
            submit={async () => send("PATCH", `/webhooks/${hook.id}`, { url: url.value.trim() })}
        >
            <Field label="URL">
                <TextInput bind={url} required />
            </Field>
        </FormDialog>
    );
}

function webhookColumns(teams: ReadonlyMap<number, string>, actions: (hook: Webhook) => Action[]): Column<Webhook>[] {
    return [
        { id: "name", title: "Name", width: 150, sort: "name", value: (hook) => hook.name, cell: (hook) => hook.name },
        {
            id: "url",
            title: "URL",
            width: 300,
            sort: "url",
            value: (hook) => hook.url,
            cell: (hook) => <span title={hook.url}>{hook.url}</span>,
        },
        {
            id: "on",
            title: "Events",
            width: 260,
            cell: (hook) => {
                const text = (hook.triggers ?? []).map(triggerText).join(", ");
                return <span title={text}>{text}</span>;
            },
        },
        {
            id: "team",
            title: "Scope",
            width: 140,
            cell: (hook) => (hook.workspaceId ? teams.get(hook.workspaceId) : "Whole cluster"),
        },
        {
            id: "form",
            title: "Format",
            width: 80,
            cell: (hook) => (hook.webhookType.endsWith("SLACK") ? "Slack" : "JSON"),
        },
        menuColumn((hook) => hook.name, actions),
    ];
}

export function Webhooks() {
    const open = useSignal<Webhook | "new" | null>(null);
    const load = useLoad(async (abort): Promise<WebhookList> => {
        const [{ webhooks }, { workspaces }] = await Promise.all([
            get<{ webhooks: Webhook[] }>("/webhooks", {}, abort),
            get<{ workspaces: Workspace[] }>("/workspaces", { archived: false }, abort),
        ]);
        return { webhooks, teams: workspaces };
    }, { topics: ["audit", "workspaces"], auditObjects: ["webhooks"] });
    const teams = load.data.value?.teams ?? [];
    const actions = (hook: Webhook): Action[] => [
        {
            name: "Send a test",
            doneText: "Test delivered",
            call: { method: "POST", path: `/webhooks/${hook.id}/test`, muster: ["webhook", "test", hook.name] },
        },
        { name: "Edit URL", run: () => (open.value = hook) },
        {
            name: "Delete",
            danger: "Undelivered notifications are dropped.",
            call: { method: "DELETE", path: `/webhooks/${hook.id}`, muster: ["webhook", "delete", hook.name] },
            run: load.reload,
        },
    ];
    const close = () => {
        open.value = null;
        load.reload();
    };
    return (
        <>
            <div class="spread">
                <Search bind={searchText} label="Find webhooks by name or URL" />
                <NewButton name="New webhook" run={() => (open.value = "new")} />
            </div>
            <ListTable
                label="Webhooks"
                load={load}
                pick={({ webhooks }) => webhooks}
                columns={webhookColumns(new Map(teams.map((team) => [team.id, team.name])), actions)}
                name={(hook) => hook.name}
                searchable={(hook) => `${hook.name} ${hook.url}`}
                id={(hook) => String(hook.id)}
            />
            {open.value === "new" && <WebhookForm teams={teams} onClose={close} />}
            {open.value && open.value !== "new" && <AddressForm hook={open.value} onClose={close} />}
        </>
    );
}
