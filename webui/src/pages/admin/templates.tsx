// Configurations that experiments are put upon.

import { useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { mayChange } from "../../lib/session";
import type { Template, Workspace } from "../../lib/types";
import { param, text } from "../../lib/url";
import { toYaml } from "../../lib/yaml";
import { Field, FormDialog, Search, Select, TextInput } from "../../parts";
import { Code } from "../../parts/code";
import { Editor } from "../../parts/editor";
import type { Column } from "../../parts/table";
import { marksIn, useVerdict, Verdict } from "../../parts/verdict";
import { find, ListTable, menuColumn, NewButton, teamOptions } from "./list";

const chosen = param("template", text());

interface Templates {
    templates: Template[];
    teams: Workspace[];
}

const EMPTY = "# What experiments leave open is taken from here.\nresources:\n  slots_per_trial: 1\n";

function TemplateForm(props: {
    template: Template | undefined;
    teams: readonly Workspace[];
    onClose: () => void;
}) {
    const { template, teams } = props;
    const name = useSignal(template?.name ?? "");
    const config = useSignal(template ? toYaml(template.config) : EMPTY);
    const team = useSignal(String(teams[0]?.id ?? ""));
    const pathOf = (word: string) => `/templates/${encodeURIComponent(word)}`;
    const verdict = useVerdict(
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
            <Editor label="Configuration" at={config} marks={marksIn(verdict.value)} rows={16} />
            <Verdict of={verdict.value} />
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
    }, { topics: ["audit", "workspaces"], of: ["templates"] });
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
