// Addresses outside that are told when something happens.

import { useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { isAdmin } from "../../lib/session";
import type { Trigger, Webhook, Workspace } from "../../lib/types";
import { Field, FormDialog, Search, Select, stateText, Switch, TextInput } from "../../parts";
import type { Column } from "../../parts/table";
import { find, ListTable, menuColumn, NewButton, teamOptions } from "./list";

interface Hooks {
    webhooks: Webhook[];
    teams: Workspace[];
}

const KIND = "TRIGGER_TYPE_";

function triggerText({ triggerType, condition }: Trigger): string {
    const of = (name: string) => String(condition?.[name] ?? "");
    switch (triggerType.replace(KIND, "")) {
        case "EXPERIMENT_STATE_CHANGE":
            return stateText(of("state"));
        case "TASK_LOG":
            return `a line like ${of("regex")}`;
        case "METRIC_THRESHOLD_EXCEEDED":
            return `${of("metric")} ${of("above") ? `above ${of("above")}` : `below ${of("below")}`}`;
        default:
            return "an alert of a program";
    }
}

const states = ["COMPLETED", "ERROR", "CANCELED"] as const;

function NewHook({ teams, onClose }: { teams: readonly Workspace[]; onClose: () => void }) {
    const name = useSignal("");
    const url = useSignal("");
    const type = useSignal("DEFAULT");
    const team = useSignal(isAdmin() ? "" : String(teams[0]?.id ?? ""));
    const all = useSignal(true);
    const on = {
        COMPLETED: useSignal(true),
        ERROR: useSignal(true),
        CANCELED: useSignal(false),
    };
    const alerts = useSignal(false);
    const line = useSignal("");
    const submit = async () => {
        const kind = (word: string, condition: object) => ({ triggerType: KIND + word, condition });
        const triggers = [
            ...states
                .filter((state) => on[state].value)
                .map((state) => kind("EXPERIMENT_STATE_CHANGE", { state })),
            ...(line.value ? [kind("TASK_LOG", { regex: line.value })] : []),
            ...(alerts.value ? [kind("CUSTOM", {})] : []),
        ];
        await send("POST", "/webhooks", {
            ...(name.value.trim() ? { name: name.value.trim() } : {}),
            url: url.value.trim(),
            webhookType: `WEBHOOK_TYPE_${type.value}`,
            mode: `WEBHOOK_MODE_${all.value ? "WORKSPACE" : "SPECIFIC"}`,
            ...(team.value ? { workspaceId: Number(team.value) } : {}),
            triggers,
        });
    };
    const places = [...(isAdmin() ? [{ value: "", title: "the whole cluster" }] : []), ...teamOptions(teams)];
    return (
        <FormDialog title="New webhook" verb="Make it" done="It will be told" onClose={onClose} submit={submit}>
            <Field label="Address">
                <TextInput at={url} required placeholder="https://example.com/hook" />
            </Field>
            <Field label="Name">
                <TextInput at={name} />
            </Field>
            <Field label="What it is sent">
                <Select
                    label="Form"
                    quiet
                    at={type}
                    options={[
                        { value: "DEFAULT", title: "JSON with a signature" },
                        { value: "SLACK", title: "a message for Slack" },
                    ]}
                />
            </Field>
            <Field label="Of">
                <Select label="Team" quiet at={team} options={places} />
            </Field>
            <Switch label="Of all experiments there, not only of those that name it" at={all} />
            <fieldset class="admin-set">
                <legend>It is told when an experiment has</legend>
                {states.map((state) => (
                    <Switch key={state} label={stateText(state).toLowerCase()} at={on[state]} />
                ))}
                <Switch label="sent an alert of its program" at={alerts} />
            </fieldset>
            <Field label="And when a line of a log is like" help="A regular expression; empty: none">
                <TextInput at={line} placeholder="out of memory" />
            </Field>
        </FormDialog>
    );
}

function EditHook({ hook, onClose }: { hook: Webhook; onClose: () => void }) {
    const url = useSignal(hook.url);
    return (
        <FormDialog
            title={`Address of ${hook.name}`}
            verb="Save"
            done="Saved"
            onClose={onClose}
            submit={async () => send("PATCH", `/webhooks/${hook.id}`, { url: url.value.trim() })}
        >
            <Field label="Address">
                <TextInput at={url} required />
            </Field>
        </FormDialog>
    );
}

function columnsFor(teams: ReadonlyMap<number, string>, actions: (hook: Webhook) => Action[]): Column<Webhook>[] {
    return [
        { id: "name", title: "Name", width: 150, sort: "name", value: (hook) => hook.name, cell: (hook) => hook.name },
        {
            id: "url",
            title: "Address",
            width: 300,
            sort: "url",
            value: (hook) => hook.url,
            cell: (hook) => <span title={hook.url}>{hook.url}</span>,
        },
        {
            id: "on",
            title: "Told of",
            width: 260,
            cell: (hook) => {
                const text = (hook.triggers ?? []).map(triggerText).join(", ");
                return <span title={text}>{text}</span>;
            },
        },
        {
            id: "team",
            title: "Of",
            width: 140,
            cell: (hook) => (hook.workspaceId ? teams.get(hook.workspaceId) : "the whole cluster"),
        },
        {
            id: "form",
            title: "Form",
            width: 80,
            cell: (hook) => (hook.webhookType.endsWith("SLACK") ? "Slack" : "JSON"),
        },
        menuColumn((hook) => hook.name, actions),
    ];
}

export function Webhooks() {
    const open = useSignal<Webhook | "new" | null>(null);
    const load = useLoad(async (abort): Promise<Hooks> => {
        const [{ webhooks }, { workspaces }] = await Promise.all([
            get<{ webhooks: Webhook[] }>("/webhooks", {}, abort),
            get<{ workspaces: Workspace[] }>("/workspaces", { archived: false }, abort),
        ]);
        return { webhooks, teams: workspaces };
    }, { topics: ["audit", "workspaces"], of: ["webhooks"] });
    const teams = load.data.value?.teams ?? [];
    const actions = (hook: Webhook): Action[] => [
        {
            name: "Send a test",
            done: "It took the test",
            call: { method: "POST", path: `/webhooks/${hook.id}/test`, muster: ["webhook", "test", hook.name] },
        },
        { name: "Change the address", run: () => (open.value = hook) },
        {
            name: "Delete",
            danger: "What it was not told yet is dropped too.",
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
                <Search at={find} label="Webhooks by name or address" />
                <NewButton name="New webhook" run={() => (open.value = "new")} />
            </div>
            <ListTable
                label="Webhooks"
                of={load}
                pick={({ webhooks }) => webhooks}
                columns={columnsFor(new Map(teams.map((team) => [team.id, team.name])), actions)}
                name={(hook) => hook.name}
                words={(hook) => `${hook.name} ${hook.url}`}
                id={(hook) => String(hook.id)}
            />
            {open.value === "new" && <NewHook teams={teams} onClose={close} />}
            {open.value && open.value !== "new" && <EditHook hook={open.value} onClose={close} />}
        </>
    );
}
