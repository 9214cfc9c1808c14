// Configuration templates for experiments.

import { useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { changeDeniedReason } from "../../lib/session";
import type { Template, Workspace } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { toYaml } from "../../lib/config/yaml";
import { Field, FormDialog, Search, Select, TextInput } from "../../parts";
import { Code } from "../../parts/config/code";
import { Editor } from "../../parts/config/editor";
import type { Column } from "../../parts/table/table";
import { diagnosticsOf, useConfigCheck, ConfigCheck } from "../../parts/config/config_check";
import { searchText, ListTable, menuColumn, NewButton, teamOptions } from "./list_table";

const chosenTemplate = queryParam("template", text());

interface Templates {
    templates: Template[];
    teams: Workspace[];
}

const EMPTY_CONFIG = "# Experiments inherit these values unless they set their own.\nresources:\n  slots_per_trial: 1\n";

function TemplateForm(props: {
    template: Template | undefined;
    teams: readonly Workspace[];
    onClose: () => void;
}) {
    const { template, teams } = props;
    const name = useSignal(template?.name ?? "");
    const config = useSignal(template ? toYaml(template.config) : EMPTY_CONFIG);
    const team = useSignal(String(teams[0]?.id ?? ""));
    const pathOf = (word: string) => `/templates/${encodeURIComponent(word)}`;
    const check = useConfigCheck(
        () => ({ config: config.value }),
        (asked, abort) => send("PUT", pathOf(template?.name ?? "new"), asked, abort),
    );
    const submit = async () => {
        const path = pathOf(name.value.trim());
        if (template) await send("PUT", path, { config: config.value });
        else await send("POST", path, { config: config.value, workspaceId: Number(team.value) });
    };
    return (
        <FormDialog
            title={template ? `Edit ${template.name}` : "New template"}
            submitLabel="Save"
            doneText="Saved"
            wide
            onClose={props.onClose}
            submit={submit}
        >
            {!template && (
                <>
                    <Field label="Name">
                        <TextInput bind={name} required />
                    </Field>
                    <Field label="Team">
                        <Select label="Team" hidesLabel bind={team} options={teamOptions(teams)} />
                    </Field>
                </>
            )}
            <Editor label="Configuration" bind={config} diagnostics={diagnosticsOf(check.value)} rows={16} />
            <ConfigCheck result={check.value} />
        </FormDialog>
    );
}

function templateColumns(teams: ReadonlyMap<number, string>, actions: (template: Template) => Action[]): Column<Template>[] {
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
    }, { topics: ["audit", "workspaces"], auditObjects: ["templates"] });
    const teams = load.data.value?.teams ?? [];
    const actions = (template: Template): Action[] => {
        const refused = changeDeniedReason(template.workspaceId);
        const path = `/templates/${encodeURIComponent(template.name)}`;
        return [
            { name: "Edit", disabledReason: refused, run: () => (open.value = template) },
            {
                name: "Delete",
                disabledReason: refused,
                danger: "Experiments that used the template do not change.",
                call: { method: "DELETE", path, muster: ["template", "delete", template.name] },
                run: load.reload,
            },
        ];
    };
    const shown = load.data.value?.templates.find((template) => template.name === chosenTemplate.value);
    const close = () => {
        open.value = null;
        load.reload();
    };
    return (
        <>
            <div class="spread">
                <Search bind={searchText} label="Find templates by name" />
                <NewButton name="New template" run={() => (open.value = "new")} />
            </div>
            <ListTable
                label="Templates"
                load={load}
                pick={({ templates }) => templates}
                columns={templateColumns(new Map(teams.map((team) => [team.id, team.name])), actions)}
                name={(template) => template.name}
                searchable={(template) => template.name}
                id={(template) => template.name}
                href={(template) => `/admin?tab=templates&template=${encodeURIComponent(template.name)}`}
                rowClass={(template) => (template === shown ? "table-selected" : undefined)}
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
