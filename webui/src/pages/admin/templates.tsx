// Configurations that experiments are put upon.

import { useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { mayChange } from "../../lib/session";
import type { JsonObject, Template, Workspace } from "../../lib/types";
import { param, text } from "../../lib/url";
import { toYaml } from "../../lib/yaml";
import { Field, FormDialog, Search, Select, TextArea, TextInput } from "../../parts";
import { Code } from "../../parts/code";
import type { Column } from "../../parts/table";
import { find, ListTable, menuColumn, NewButton, teamOptions } from "./list";

const chosen = param("template", text());

interface Templates {
    templates: Template[];
    teams: Workspace[];
}

function readConfig(given: string): JsonObject {
    try {
        const value = JSON.parse(given) as unknown;
        if (value && typeof value === "object" && !Array.isArray(value)) return value as JsonObject;
    } catch (error) {
        throw new Error(`This is not JSON: ${(error as Error).message}.`);
    }
    throw new Error('A configuration is an object, like {"resources": {"slots_per_trial": 2}}.');
}

function TemplateForm(props: {
    template: Template | undefined;
    teams: readonly Workspace[];
    onClose: () => void;
}) {
    const { template, teams } = props;
    const name = useSignal(template?.name ?? "");
    const config = useSignal(JSON.stringify(template?.config ?? { resources: { slots_per_trial: 1 } }, null, 2));
    const team = useSignal(String(teams[0]?.id ?? ""));
    const submit = async () => {
        const read = readConfig(config.value);
        const path = `/templates/${encodeURIComponent(name.value.trim())}`;
        if (template) await send("PATCH", path, read);
        else await send("POST", path, { config: read, workspaceId: Number(team.value) });
    };
    return (
        <FormDialog
            title={template ? `Edit ${template.name}` : "New template"}
            verb="Save"
            done="Saved"
            wide
            onClose={props.onClose}
            submit={submit}
        >
            {!template && (
                <>
                    <Field label="Name">
                        <TextInput at={name} required />
                    </Field>
                    <Field label="Team">
                        <Select label="Team" quiet at={team} options={teamOptions(teams)} />
                    </Field>
                </>
            )}
            <Field label="Configuration" help="JSON; muster template set takes YAML">
                <TextArea at={config} rows={16} />
            </Field>
        </FormDialog>
    );
}

function columnsFor(teams: ReadonlyMap<number, string>, actions: (template: Template) => Action[]): Column<Template>[] {
    return [
        {
            id: "name",
            title: "Template",
            width: 240,
            sort: "name",
            value: (template) => template.name,
            cell: (template) => (
                <a href={`/admin?tab=templates&template=${encodeURIComponent(template.name)}`}>{template.name}</a>
            ),
        },
        { id: "team", title: "Team", width: 180, cell: (template) => teams.get(template.workspaceId) },
        {
            id: "sets",
            title: "Sets",
            width: 360,
            cell: (template) => Object.keys(template.config).join(", "),
        },
        menuColumn((template) => template.name, actions),
    ];
}

export function TemplatesTab() {
    const open = useSignal<Template | "new" | null>(null);
    const load = useLoad(async (abort): Promise<Templates> => {
        const [{ templates }, { workspaces }] = await Promise.all([
            get<{ templates: Template[] }>("/templates", {}, abort),
            get<{ workspaces: Workspace[] }>("/workspaces", { archived: false }, abort),
        ]);
        return { templates, teams: workspaces };
    });
    const teams = load.data.value?.teams ?? [];
    const actions = (template: Template): Action[] => {
        const refused = mayChange(template.workspaceId);
        const path = `/templates/${encodeURIComponent(template.name)}`;
        return [
            { name: "Edit", refused, run: () => (open.value = template) },
            {
                name: "Delete",
                refused,
                danger: "Experiments that were made with it stay as they are.",
                call: { method: "DELETE", path, muster: ["template", "delete", template.name] },
                run: load.reload,
            },
        ];
    };
    const shown = load.data.value?.templates.find((template) => template.name === chosen.value);
    const close = () => {
        open.value = null;
        load.reload();
    };
    return (
        <>
            <div class="spread">
                <Search at={find} label="Templates by name" />
                <NewButton name="New template" run={() => (open.value = "new")} />
            </div>
            <ListTable
                label="Templates"
                of={load}
                pick={({ templates }) => templates}
                columns={columnsFor(new Map(teams.map((team) => [team.id, team.name])), actions)}
                name={(template) => template.name}
                words={(template) => template.name}
                id={(template) => template.name}
                href={(template) => `/admin?tab=templates&template=${encodeURIComponent(template.name)}`}
                rowClass={(template) => (template === shown ? "table-chosen" : undefined)}
                height={360}
            />
            {shown && (
                <section class="stack" aria-label={`Template ${shown.name}`}>
                    <h2>{shown.name}</h2>
                    <Code text={toYaml(shown.config)} label={`Configuration of ${shown.name}`} />
                </section>
            )}
            {open.value && (
                <TemplateForm
                    template={open.value === "new" ? undefined : open.value}
                    teams={teams}
                    onClose={close}
                />
            )}
        </>
    );
}
