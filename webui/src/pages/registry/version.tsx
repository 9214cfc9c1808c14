// One version of a model: where it comes from, what it is, and how to take it along.

import { type Signal, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { bytes, count, metric, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { errorText } from "../../lib/notices";
import type { Checkpoint, ModelVersion } from "../../lib/types";
import {
    ActionBar,
    Ago,
    Copy,
    Field,
    FormDialog,
    LinkButton,
    Select,
    StateBadge,
    TextInput,
} from "../../parts";
import { Described, Labels, WordFields, wordsBody, wordsOf } from "./words";

const FOUND = 50;

const pathOf = (version: ModelVersion) =>
    `/models/${encodeURIComponent(version.model.name)}/versions/${version.version}`;

function Lineage({ version }: { version: ModelVersion }) {
    const { checkpoint } = version;
    const { experimentId, trialId, experimentConfig, searcherMetric } = checkpoint.training;
    const steps = checkpoint.stepsCompleted ?? Number(checkpoint.metadata["steps_completed"] ?? 0);
    const name = experimentConfig?.["name"];
    return (
        <ol class="lineage" aria-label="Where this version comes from">
            {experimentId !== undefined && (
                <li>
                    <h3>Experiment</h3>
                    <a href={`/experiments/${experimentId}`}>
                        {typeof name === "string" ? name : "experiment"} {experimentId}
                    </a>
                </li>
            )}
            {trialId !== undefined && (
                <li>
                    <h3>Trial</h3>
                    <a href={`/trials/${trialId}`}>Trial {trialId}</a>
                    {typeof searcherMetric === "number" && (
                        <div class="muted">metric {metric(searcherMetric)}</div>
                    )}
                </li>
            )}
            <li>
                <h3>Checkpoint</h3>
                <span class="mono" title={checkpoint.uuid}>
                    {checkpoint.uuid.slice(0, 8)}
                </span>{" "}
                <Copy text={checkpoint.uuid} label="Copy the checkpoint's name" />
                <div class="muted">after {count(steps, "step")}</div>
            </li>
            <li>
                <h3>Version</h3>
                {version.version} {version.name}
                <div class="muted">
                    {version.username}, <Ago at={version.creationTime} />
                </div>
            </li>
        </ol>
    );
}

function Measured({ version }: { version: ModelVersion }) {
    const { training } = version.checkpoint;
    const found = {
        ...(training.trainingMetrics?.avgMetrics ?? {}),
        ...(training.validationMetrics?.avgMetrics ?? {}),
    };
    const rows = Object.entries({ ...training.hparams, ...found });
    if (rows.length === 0) return null;
    return (
        <div>
            <h3>Settings and metrics</h3>
            <dl class="facts num">
                {rows.map(([name, value]) => (
                    <>
                        <dt>{name}</dt>
                        <dd>{typeof value === "number" ? metric(value) : JSON.stringify(value)}</dd>
                    </>
                ))}
            </dl>
        </div>
    );
}

function Files({ version }: { version: ModelVersion }) {
    const files = Object.entries(version.checkpoint.resources ?? {});
    const total = files.reduce((sum, [, size]) => sum + Number(size), 0);
    return (
        <div>
            <h3>
                {count(files.length, "file")}, {bytes(total)}
            </h3>
            <dl class="facts num model-files" tabIndex={0} aria-label="Files of the checkpoint">
                {files.map(([name, size]) => (
                    <>
                        <dt class="mono">{name}</dt>
                        <dd>{bytes(size)}</dd>
                    </>
                ))}
            </dl>
        </div>
    );
}

function EditVersion({ version, onClose }: { version: ModelVersion; onClose: () => void }) {
    const words = useMemo(() => {
        const { name, comment, labels, notes, metadata } = version;
        return wordsOf({
            ...(name ? { name } : {}),
            ...(comment ? { about: comment } : {}),
            ...(labels ? { labels } : {}),
            ...(notes ? { notes } : {}),
            ...(metadata ? { metadata } : {}),
        });
    }, []);
    return (
        <FormDialog
            title={`Version ${version.version} of ${version.model.name}`}
            verb="Save"
            done="Saved"
            onClose={onClose}
            submit={async () => send("PATCH", pathOf(version), wordsBody(words, "comment"))}
        >
            <WordFields words={words} about="Comment" />
        </FormDialog>
    );
}

/** The checkpoints of an experiment, the best first. */
function Finder({ at }: { at: Signal<string> }) {
    const experiment = useSignal("");
    const found = useLoad(async (abort) => {
        const id = Number(experiment.value);
        if (!id) return [];
        const query = { sortByAttr: "SORT_BY_SEARCHER_METRIC", states: "COMPLETED", limit: FOUND };
        const path = `/experiments/${id}/checkpoints`;
        return (await get<{ checkpoints: Checkpoint[] }>(path, query, abort)).checkpoints;
    });
    const options = (found.data.value ?? []).map(({ uuid, training, stepsCompleted }) => {
        const value = training.searcherMetric;
        const best = typeof value === "number" ? `, metric ${metric(value)}` : "";
        return { value: uuid, title: `trial ${training.trialId}, step ${stepsCompleted ?? 0}${best}` };
    });
    const first = { value: "", title: options.length ? "choose" : "none" };
    return (
        <>
            <Field
                label="Experiment"
                help="Its number; its checkpoints are then offered, the best first"
                error={found.error.value === undefined ? undefined : errorText(found.error.value)}
            >
                <TextInput at={experiment} type="number" />
            </Field>
            {experiment.value && (
                <Field label="Its checkpoints">
                    <Select label="Checkpoint" quiet at={at} options={[first, ...options]} />
                </Field>
            )}
        </>
    );
}

export function RegisterVersion({ model, onClose }: { model: string; onClose: () => void }) {
    const uuid = useSignal("");
    const words = useMemo(() => wordsOf({}), []);
    const submit = async () =>
        send("POST", `/models/${encodeURIComponent(model)}/versions`, {
            checkpointUuid: uuid.value.trim(),
            ...wordsBody(words, "comment"),
        });
    return (
        <FormDialog
            title={`New version of ${model}`}
            verb="Register it"
            done="Registered"
            onClose={onClose}
            submit={submit}
        >
            <Finder at={uuid} />
            <Field label="Checkpoint">
                <TextInput at={uuid} required placeholder="00000000-0000-0000-0000-000000000000" />
            </Field>
            <WordFields words={words} about="Comment" />
        </FormDialog>
    );
}

export function Version(props: {
    version: ModelVersion;
    refused: string | undefined;
    changed: () => void;
}) {
    const { version, refused } = props;
    const editing = useSignal(false);
    const { name } = version.model;
    const { uuid, state } = version.checkpoint;
    const actions: Action[] = [
        { name: "Edit version", refused, run: () => (editing.value = true) },
        {
            name: `Delete version ${version.version}`,
            refused,
            danger: "It leaves the registry; its checkpoint stays as long as its trial's policy keeps it.",
            call: {
                method: "DELETE",
                path: pathOf(version),
                muster: ["model", "delete-version", name, version.version],
            },
            run: props.changed,
        },
    ];
    return (
        <section class="card stack" aria-label={`Version ${version.version}`}>
            <div class="spread">
                <h2>
                    Version {number(version.version)}
                    {version.name && ` · ${version.name}`}
                </h2>
                <div class="line">
                    {state !== "STATE_COMPLETED" && <StateBadge state={state} />}
                    <LinkButton href={`/checkpoints/${uuid}`} icon="download" download main>
                        Download
                    </LinkButton>
                    <Copy
                        text={`muster checkpoint download ${uuid}`}
                        label="Copy the muster command that downloads it"
                    />
                    <ActionBar actions={refused ? [] : actions} />
                </div>
            </div>
            {version.comment && <p>{version.comment}</p>}
            {version.labels && version.labels.length > 0 && <Labels labels={version.labels} />}
            <Lineage version={version} />
            <Described
                {...(version.notes ? { notes: version.notes } : {})}
                {...(version.metadata ? { metadata: version.metadata } : {})}
            />
            <div class="grid">
                <Measured version={version} />
                <Files version={version} />
            </div>
            {editing.value && (
                <EditVersion
                    version={version}
                    onClose={() => {
                        editing.value = false;
                        props.changed();
                    }}
                />
            )}
        </section>
    );
}
