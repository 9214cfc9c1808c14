// The form for a new experiment: its configuration, which the master checks while the user types, and its files.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { get, send } from "../../lib/api";
import { copyText } from "../../lib/clipboard";
import { musterCommand } from "../../lib/command_line";
import { saveFile } from "../../lib/download";
import { useLoad } from "../../lib/load";
import { toast, toastError } from "../../lib/toasts";
import { projectOptions, readProjects } from "../../lib/projects";
import type { Project, Template } from "../../lib/types";
import { missingDataPath, readDroppedFiles, toApiFiles } from "../../lib/upload/uploads";
import { navigate } from "../../lib/url";
import { toYaml } from "../../lib/config/yaml";
import { Button, Field, PageHead, Icon, Loaded, Select } from "../../parts";
import { Code } from "../../parts/config/code";
import { Editor } from "../../parts/config/editor";
import { type CreatedExperiment, diagnosticsOf, useConfigCheck, ConfigCheck } from "../../parts/config/config_check";
import {
    addDropped, startFrom, config, example, files, folder, openConfig, projectId, uploadError, template,
} from "./draft";
import { examples } from "./examples";
import { Files } from "./files";
import "./new_experiment.css";

const CONFIG_NAME = "experiment.yaml";

function StartingPoints() {
    const input = useRef<HTMLInputElement>(null);
    const onChange = () => {
        const file = input.current!.files?.[0];
        if (file) openConfig(file).catch(toastError);
        input.current!.value = "";
    };
    return (
        <section class="starting-points" aria-label="Start from">
            {examples.map((one) => (
                <button
                    key={one.id}
                    type="button"
                    class="starting-point"
                    aria-pressed={example.value === one}
                    onClick={() => void startFrom(one)}
                >
                    <b>{one.title}</b>
                    <span class="muted">{one.description}</span>
                </button>
            ))}
            <input
                ref={input}
                type="file"
                hidden
                accept=".yaml,.yml,.json"
                aria-label="Configuration file"
                onChange={onChange}
            />
            <button type="button" class="starting-point" onClick={() => input.current!.click()}>
                <b>Open a YAML file</b>
                <span class="muted">Or drop it on this page</span>
            </button>
        </section>
    );
}

interface Choices {
    projects: Project[];
    templates: Template[];
}

async function readChoices(abort: AbortSignal): Promise<Choices> {
    const [projects, { templates }] = await Promise.all([
        readProjects(abort),
        get<{ templates: Template[] }>("/templates", {}, abort),
    ]);
    return { projects, templates };
}

function ProjectAndTemplate({ projects, templates }: Choices) {
    const chosen = templates.find(({ name }) => name === template.value);
    return (
        <section class="card stack" aria-label="Project and template">
            <Field label="Project">
                <Select
                    label="Project"
                    hidesLabel
                    bind={projectId}
                    options={[{ value: "", title: "As in the configuration" }, ...projectOptions(projects)]}
                />
            </Field>
            {templates.length > 0 && (
                <Field label="Template" help="Values for everything that the configuration does not set">
                    <Select
                        label="Template"
                        hidesLabel
                        bind={template}
                        options={[
                            { value: "", title: "None" },
                            ...templates.map(({ name }) => ({ value: name, title: name })),
                        ]}
                    />
                </Field>
            )}
            {chosen && <Code text={toYaml(chosen.config)} label={`Template ${chosen.name}`} />}
        </section>
    );
}

const submission = () => ({
    config: config.value,
    ...(projectId.value ? { projectId: Number(projectId.value) } : {}),
    ...(template.value ? { template: template.value } : {}),
});

/** The command that submits the same experiment from a folder with the configuration and the files. */
function commandLine(isPaused: boolean): string {
    return musterCommand({
        method: "POST",
        path: "/experiments",
        muster: [
            ...["experiment", "create", CONFIG_NAME],
            ...(files.value.length ? [folder.value] : []),
            ...(projectId.value ? ["--project-id", projectId.value] : []),
            ...(template.value ? ["--template", template.value] : []),
            ...(isPaused ? ["--paused"] : []),
        ],
    })!;
}

function Submit({ check }: { check: ConfigCheck }) {
    const progress = useSignal("");
    const submit = async (isPaused: boolean) => {
        progress.value = files.value.length ? "Uploading files…" : "Submitting…";
        try {
            const modelDefinition = await toApiFiles(files.value);
            const body = { ...submission(), modelDefinition, activate: !isPaused };
            const { experiment } = await send<CreatedExperiment>("POST", "/experiments", body);
            toast(`Submitted experiment ${experiment.id}`, "good");
            navigate(`/experiments/${experiment.id}`);
        } catch (error) {
            toastError(error);
        }
        progress.value = "";
    };
    const missingPath = missingDataPath(config.value, files.value);
    const isDisabled = check.kind === "bad" || !!uploadError.value || !!progress.value;
    return (
        <section class="card stack" aria-label="Submit">
            <ConfigCheck result={check} />
            {missingPath && (
                <p>
                    <Icon name="warning" /> <code>{missingPath}</code> is missing from the files.
                </p>
            )}
            <div class="line">
                <Button kind="main" icon="play" disabled={isDisabled} onClick={() => void submit(false)}>
                    Create
                </Button>
                <Button icon="pause" disabled={isDisabled} onClick={() => void submit(true)}>
                    Create paused
                </Button>
                {progress.value && (
                    <span class="muted" role="status">
                        {progress.value}
                    </span>
                )}
            </div>
            <div class="line">
                <Button kind="quiet" icon="copy" onClick={() => void copyText(commandLine(false))}>
                    Copy as muster command
                </Button>
                <Button
                    kind="quiet"
                    icon="download"
                    onClick={() => saveFile(CONFIG_NAME, "application/yaml", config.value)}
                >
                    Save {CONFIG_NAME}
                </Button>
            </div>
        </section>
    );
}

export function Page() {
    const loaded = useLoad(readChoices);
    const check = useConfigCheck(submission);
    const isDragging = useSignal(false);
    const onDrop = (event: DragEvent) => {
        event.preventDefault();
        isDragging.value = false;
        if (event.dataTransfer) readDroppedFiles(event.dataTransfer).then(addDropped).catch(toastError);
    };
    const onDragOver = (event: DragEvent) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        isDragging.value = true;
    };
    return (
        <main
            class={isDragging.value ? "drop-target" : undefined}
            onDrop={onDrop}
            onDragOver={onDragOver}
            onDragLeave={() => (isDragging.value = false)}
        >
            <PageHead title="New experiment" crumbs={[{ title: "Experiments", href: "/experiments" }]} />
            <StartingPoints />
            <div class="new-columns">
                <Editor label="Configuration" bind={config} diagnostics={diagnosticsOf(check.value)} />
                <div class="stack">
                    <Files />
                    <Loaded load={loaded}>{(all) => <ProjectAndTemplate {...all} />}</Loaded>
                    <Submit check={check.value} />
                </div>
            </div>
        </main>
    );
}
