// Submitting a new experiment: its configuration, which the master checks while one types, and files.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { get, send } from "../../lib/api";
import { copyText } from "../../lib/clipboard";
import { musterLine } from "../../lib/commands";
import { save } from "../../lib/download";
import { useLoad } from "../../lib/load";
import { toast, toastError } from "../../lib/notices";
import { projectOptions, readProjects } from "../../lib/projects";
import type { Project, Template } from "../../lib/types";
import { missing, readDrop, toWire } from "../../lib/uploads";
import { go } from "../../lib/url";
import { toYaml } from "../../lib/yaml";
import { Button, Field, Head, Icon, Loaded, Select } from "../../parts";
import { Code } from "../../parts/code";
import { Editor } from "../../parts/editor";
import { type Made, marksIn, useVerdict, Verdict } from "../../parts/verdict";
import { addDropped, begin, config, example, files, folder, openConfig, projectId, refused, template } from "./draft";
import { examples } from "./examples";
import { Files } from "./files";
import "./new_experiment.css";

const CONFIG_NAME = "experiment.yaml";

function Beginnings() {
    const input = useRef<HTMLInputElement>(null);
    const onChange = () => {
        const file = input.current!.files?.[0];
        if (file) openConfig(file).catch(toastError);
        input.current!.value = "";
    };
    return (
        <section class="new-beginnings" aria-label="Begin with">
            {examples.map((one) => (
                <button
                    key={one.id}
                    type="button"
                    class="new-beginning"
                    aria-pressed={example.value === one}
                    onClick={() => void begin(one)}
                >
                    <b>{one.title}</b>
                    <span class="muted">{one.about}</span>
                </button>
            ))}
            <input
                ref={input}
                type="file"
                hidden
                accept=".yaml,.yml,.json"
                aria-label="A configuration"
                onChange={onChange}
            />
            <button type="button" class="new-beginning" onClick={() => input.current!.click()}>
                <b>Open a YAML file</b>
                <span class="muted">or drop it on this page</span>
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

function Where({ projects, templates }: Choices) {
    const chosen = templates.find(({ name }) => name === template.value);
    return (
        <section class="card stack" aria-label="Project and template">
            <Field label="Project">
                <Select
                    label="Project"
                    quiet
                    at={projectId}
                    options={[{ value: "", title: "As the configuration says" }, ...projectOptions(projects)]}
                />
            </Field>
            {templates.length > 0 && (
                <Field label="Template" help="What the configuration leaves open is taken from it">
                    <Select
                        label="Template"
                        quiet
                        at={template}
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

const choices = () => ({
    config: config.value,
    ...(projectId.value ? { projectId: Number(projectId.value) } : {}),
    ...(template.value ? { template: template.value } : {}),
});

/** What submits the same once the configuration and the files lie in the current folder. */
function commandLine(isPaused: boolean): string {
    return musterLine({
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

function Submit({ verdict }: { verdict: Verdict }) {
    const doing = useSignal("");
    const submit = async (isPaused: boolean) => {
        doing.value = files.value.length ? "Sending the files…" : "Submitting…";
        try {
            const modelDefinition = await toWire(files.value);
            const body = { ...choices(), modelDefinition, activate: !isPaused };
            const { experiment } = await send<Made>("POST", "/experiments", body);
            toast(`Submitted as experiment ${experiment.id}`, "good");
            go(`/experiments/${experiment.id}`);
        } catch (error) {
            toastError(error);
        }
        doing.value = "";
    };
    const absent = missing(config.value, files.value);
    const isOff = verdict.kind === "bad" || !!refused.value || !!doing.value;
    return (
        <section class="card stack" aria-label="Submit">
            <Verdict of={verdict} />
            {absent && (
                <p>
                    <Icon name="warning" /> <code>{absent}</code> is not among the files.
                </p>
            )}
            <div class="line">
                <Button kind="main" icon="play" disabled={isOff} onClick={() => void submit(false)}>
                    Create
                </Button>
                <Button icon="pause" disabled={isOff} onClick={() => void submit(true)}>
                    Create paused
                </Button>
                {doing.value && (
                    <span class="muted" role="status">
                        {doing.value}
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
                    onClick={() => save(CONFIG_NAME, "application/yaml", config.value)}
                >
                    Save {CONFIG_NAME}
                </Button>
            </div>
        </section>
    );
}

export function Page() {
    const loaded = useLoad(readChoices);
    const verdict = useVerdict(choices);
    const isOver = useSignal(false);
    const onDrop = (event: DragEvent) => {
        event.preventDefault();
        isOver.value = false;
        if (event.dataTransfer) readDrop(event.dataTransfer).then(addDropped).catch(toastError);
    };
    const onDragOver = (event: DragEvent) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        isOver.value = true;
    };
    return (
        <main
            class={isOver.value ? "new-over" : undefined}
            onDrop={onDrop}
            onDragOver={onDragOver}
            onDragLeave={() => (isOver.value = false)}
        >
            <Head title="New experiment" crumbs={[{ title: "Experiments", href: "/experiments" }]} />
            <Beginnings />
            <div class="new-columns">
                <Editor label="Configuration" at={config} marks={marksIn(verdict.value)} />
                <div class="stack">
                    <Files />
                    <Loaded of={loaded}>{(all) => <Where {...all} />}</Loaded>
                    <Submit verdict={verdict.value} />
                </div>
            </div>
        </main>
    );
}
