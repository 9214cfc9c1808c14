// A version of a model: its origin, its details, and its download.

import { type Signal, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Action } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { bytes, count, formatMetric, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { errorText } from "../../lib/toasts";
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
import { DetailFields, detailsBody, detailsOf, Labels, NotesAndMetadata } from "./details_form";

const MAX_FOUND = 50;

const versionPath = (version: ModelVersion) =>
    `/models/${encodeURIComponent(version.model.name)}/versions/${version.version}`;

function Lineage({ version }: { version: ModelVersion }) {
    const { checkpoint } = version;
    const { experimentId, trialId, experimentConfig, searcherMetric } = checkpoint.training;
    const steps = checkpoint.stepsCompleted ?? Number(checkpoint.metadata["steps_completed"] ?? 0);
    const name = experimentConfig?.["name"];
    return (
        <ol class="lineage" aria-label="Origin of this version">
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
                        <div class="muted">metric {formatMetric(searcherMetric)}</div>
                    )}
                </li>
            )}
            <li>
                <h3>Checkpoint</h3>
                <span class="mono" title={checkpoint.uuid}>
                    {checkpoint.uuid.slice(0, 8)}
                </span>{" "}
                <Copy text={checkpoint.uuid} label="Copy the checkpoint UUID" />
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

function VersionMetrics({ version }: { version: ModelVersion }) {
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
                        <dd>{typeof value === "number" ? formatMetric(value) : JSON.stringify(value)}</dd>
                    </>
                ))}
            </dl>
        </div>
    );
}

function VersionFiles({ version }: { version: ModelVersion }) {
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

function EditVersionDialog({ version, onClose }: { version: ModelVersion; onClose: () => void }) {
    const details = useMemo(() => {
        const { name, comment, labels, notes, metadata } = version;
        return detailsOf({
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
            submitLabel="Save"
            doneText="Saved"
            onClose={onClose}
            submit={async () => send("PATCH", versionPath(version), detailsBody(details, "comment"))}
        >
            <DetailFields details={details} about="Comment" />
        </FormDialog>
    );
}

/** A choice among the checkpoints of an experiment, the best first. */
function CheckpointFinder({ bind }: { bind: Signal<string> }) {
    const experiment = useSignal("");
    const found = useLoad(async (abort) => {
        const id = Number(experiment.value);
        if (!id) return [];
        const query = { sortByAttr: "SORT_BY_SEARCHER_METRIC", states: "COMPLETED", limit: MAX_FOUND };
        const path = `/experiments/${id}/checkpoints`;
        return (await get<{ checkpoints: Checkpoint[] }>(path, query, abort)).checkpoints;
    });
    const options = (found.data.value ?? []).map(({ uuid, training, stepsCompleted }) => {
        const value = training.searcherMetric;
        const best = typeof value === "number" ? `, metric ${formatMetric(value)}` : "";
        return { value: uuid, title: `trial ${training.trialId}, step ${stepsCompleted ?? 0}${best}` };
    });
    const first = { value: "", title: options.length ? "Choose a checkpoint" : "No checkpoints" };
    return (
        <>
            <Field
                label="Experiment"
                help="Enter an experiment id to choose one of its checkpoints"
                error={found.error.value === undefined ? undefined : errorText(found.error.value)}
            >
                <TextInput bind={experiment} type="number" />
            </Field>
            {experiment.value && (
                <Field label="Checkpoints of the experiment">
                    <Select label="Checkpoint" hidesLabel bind={bind} options={[first, ...options]} />
                </Field>
            )}
        </>
    );
}

export function RegisterVersionDialog({ model, onClose }: { model: string; onClose: () => void }) {
    const uuid = useSignal("");
    const details = useMemo(() => detailsOf({}), []);
    const submit = async () =>
        send("POST", `/models/${encodeURIComponent(model)}/versions`, {
            checkpointUuid: uuid.value.trim(),
            ...detailsBody(details, "comment"),
        });
    return (
        <FormDialog
            title={`New version of ${model}`}
            submitLabel="Register"
            doneText="Registered"
            onClose={onClose}
            submit={submit}
        >
            <CheckpointFinder bind={uuid} />
            <Field label="Checkpoint UUID">
                <TextInput bind={uuid} required placeholder="00000000-0000-0000-0000-000000000000" />
            </Field>
            <DetailFields details={details} about="Comment" />
        </FormDialog>
    );
}

export function Version(props: {
    version: ModelVersion;
    refused: string | undefined;
    onChanged: () => void;
}) {
    const { version, refused } = props;
    const editing = useSignal(false);
    const { name } = version.model;
    const { uuid, state } = version.checkpoint;
    const actions: Action[] = [
        { name: "Edit version", disabledReason: refused, run: () => (editing.value = true) },
        {
            name: `Delete version ${version.version}`,
            disabledReason: refused,
            danger: "The version is removed from the registry. Its checkpoint stays as long as the retention policy keeps it.",
            call: {
                method: "DELETE",
                path: versionPath(version),
                muster: ["model", "delete-version", name, version.version],
            },
            run: props.onChanged,
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
                        label="Copy the muster command to download"
                    />
                    <ActionBar actions={refused ? [] : actions} />
                </div>
            </div>
            {version.comment && <p>{version.comment}</p>}
            {version.labels && version.labels.length > 0 && <Labels labels={version.labels} />}
            <Lineage version={version} />
            <NotesAndMetadata
                {...(version.notes ? { notes: version.notes } : {})}
                {...(version.metadata ? { metadata: version.metadata } : {})}
            />
            <div class="grid">
                <VersionMetrics version={version} />
                <VersionFiles version={version} />
            </div>
            {editing.value && (
                <EditVersionDialog
                    version={version}
                    onClose={() => {
                        editing.value = false;
                        props.onChanged();
                    }}
                />
            )}
        </section>
    );
}
