// Checkpoints of an experiment or a trial: which is best, what is in it, and what to do with it.

import { useComputed, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Action } from "../lib/actions";
import { get, send } from "../lib/api";
import { copyText } from "../lib/clipboard";
import { bytes, metric, number, stateWord } from "../lib/format";
import { useLoad } from "../lib/load";
import { toast } from "../lib/notices";
import { listRows } from "../lib/rows";
import { mayChange } from "../lib/session";
import type { Checkpoint, Experiment, Model, Paged } from "../lib/types";
import { flag, param, text } from "../lib/url";
import { DownloadCheckpoint, isRated, sizeOf, useBest } from "./checkpoint";
import { Dialog } from "./dialog";
import { Field, Switch, TextInput } from "./field";
import { FormDialog } from "./form";
import { Menu, type MenuItem } from "./menu";
import { Ago, Empty, Loaded } from "./page";
import { StateBadge } from "./state";
import { type Column, Table } from "./table";

const PAGE = 500;

const sort = param("csort", text("-steps"));
const showsDeleted = param("deleted", flag());

const isThere = (checkpoint: Checkpoint) => stateWord(checkpoint.state) !== "DELETED";

// --- into the registry ---------------------------------------------------------------------------

function Register(props: { checkpoint: Checkpoint; workspaceId: number; onClose: () => void }) {
    const { checkpoint, workspaceId, onClose } = props;
    const models = useLoad((abort) => get<{ models: Model[] }>("/models", { limit: 200 }, abort));
    const name = useSignal("");
    const comment = useSignal("");
    const model = name.value.trim();
    const register = async () => {
        if (!models.data.value?.models.some((one) => one.name === model))
            await send("POST", "/models", { name: model, workspaceId });
        const body = { checkpointUuid: checkpoint.uuid, comment: comment.value };
        const path = `/models/${encodeURIComponent(model)}/versions`;
        const made = await send<{ modelVersion: { version: number } }>("POST", path, body);
        toast(`Registered as version ${made.modelVersion.version} of ${model}`, "good");
    };
    return (
        <FormDialog
            title="Register as a version of a model"
            verb="Register"
            submit={register}
            onClose={onClose}
        >
            <p class="muted">
                Checkpoint <span class="mono">{checkpoint.uuid}</span>, step{" "}
                {number(checkpoint.stepsCompleted ?? 0)}
            </p>
            <Field label="Model" help="A new name makes a new model.">
                <input
                    class="input"
                    list="models-there"
                    required
                    value={name.value}
                    onInput={(event) => (name.value = event.currentTarget.value)}
                />
            </Field>
            <datalist id="models-there">
                {models.data.value?.models.map((one) => <option key={one.id} value={one.name} />)}
            </datalist>
            <Field label="Comment">
                <TextInput at={comment} />
            </Field>
        </FormDialog>
    );
}

// --- the table -----------------------------------------------------------------------------------

function Files({ checkpoint, onClose }: { checkpoint: Checkpoint; onClose: () => void }) {
    const files = Object.entries(checkpoint.resources).filter(([path]) => !path.endsWith("/"));
    return (
        <Dialog title={`Files of checkpoint ${checkpoint.uuid.slice(0, 8)}`} onClose={onClose} wide>
            <dl class="facts mono">
                {files.map(([path, size]) => (
                    <>
                        <dt key={path}>{bytes(size)}</dt>
                        <dd>{path}</dd>
                    </>
                ))}
            </dl>
            <p class="muted mono">{checkpoint.uuid}</p>
        </Dialog>
    );
}

export interface CheckpointTableProps {
    experiment: Pick<Experiment, "id" | "workspaceId" | "userId" | "config">;
    /** Only of this trial. */
    trialId?: number;
}

export function CheckpointTable({ experiment, trialId }: CheckpointTableProps) {
    const path = trialId ? `/trials/${trialId}` : `/experiments/${experiment.id}`;
    const load = useLoad(
        (abort) =>
            get<{ checkpoints: Checkpoint[] } & Paged>(
                `${path}/checkpoints`,
                { limit: PAGE },
                abort,
            ),
        { topics: ["checkpoints"], experimentId: experiment.id },
    );
    const registering = useSignal<Checkpoint | undefined>(undefined);
    const listing = useSignal<Checkpoint | undefined>(undefined);
    const all = useComputed(() => load.data.value?.checkpoints);
    const shown = useComputed(() => (showsDeleted.value ? all.value : all.value?.filter(isThere)));
    const rows = useMemo(() => listRows(shown, (checkpoint) => checkpoint.uuid), []);
    const workspaceId = experiment.workspaceId ?? 1;
    const refused = mayChange(workspaceId, experiment.userId);
    const searcher = experiment.config?.["searcher"] as { metric?: string } | undefined;
    const found = useBest({ experimentId: experiment.id, trialId });
    const best = found && isRated(found) ? found.uuid : undefined;
    const itemsOf = (checkpoint: Checkpoint): MenuItem[] => {
        const { uuid } = checkpoint;
        const remove: Action = {
            name: "Delete",
            danger: `The files of checkpoint ${uuid} go; what it says of itself stays.`,
            refused,
            call: {
                method: "DELETE",
                path: "/checkpoints",
                body: { checkpointUuids: [uuid] },
                muster: ["checkpoint", "delete", uuid, "--yes"],
            },
        };
        return [
            { name: "Files", run: () => (listing.value = checkpoint) },
            {
                name: "Register as a model",
                icon: "registry",
                refused: mayChange(workspaceId),
                run: () => (registering.value = checkpoint),
            },
            "-",
            {
                name: "Copy the muster command to download",
                icon: "copy",
                run: () => copyText(`muster checkpoint download ${uuid} --to ${uuid.slice(0, 8)}`),
            },
            { name: "Copy the uuid", icon: "copy", run: () => copyText(uuid) },
            "-",
            remove,
        ];
    };
    const columns: Column<Checkpoint>[] = [
        {
            id: "uuid",
            title: "Checkpoint",
            width: 150,
            cell: (row) => (
                <span class="line">
                    <span class="mono" title={row.uuid}>
                        {row.uuid.slice(0, 8)}
                    </span>
                    {row.uuid === best && <strong class="good">★ best</strong>}
                </span>
            ),
        },
        {
            id: "do",
            title: "Download",
            width: 170,
            cell: (row) =>
                isThere(row) && (
                    <span class="line">
                        <DownloadCheckpoint checkpoint={row} />
                        <Menu
                            kind="quiet"
                            icon="more"
                            label={`Checkpoint ${row.uuid.slice(0, 8)}`}
                            items={itemsOf(row)}
                        />
                    </span>
                ),
        },
        ...(trialId
            ? []
            : [
                  {
                      id: "trial",
                      title: "Trial",
                      width: 80,
                      sort: "trial",
                      value: (row: Checkpoint) => row.training.trialId,
                      cell: (row: Checkpoint) => (
                          <a href={`/trials/${row.training.trialId}`}>{row.training.trialId}</a>
                      ),
                  },
              ]),
        {
            id: "steps",
            title: "Step",
            width: 90,
            end: true,
            sort: "steps",
            value: (row) => row.stepsCompleted,
            cell: (row) => number(row.stepsCompleted ?? 0),
        },
        {
            id: "metric",
            title: searcher?.metric ?? "Metric",
            width: 150,
            end: true,
            sort: "metric",
            value: (row) => row.training.searcherMetric,
            cell: (row) => metric(row.training.searcherMetric),
        },
        {
            id: "size",
            title: "Size",
            width: 90,
            end: true,
            sort: "size",
            value: sizeOf,
            cell: (row) => bytes(sizeOf(row)),
        },
        {
            id: "state",
            title: "State",
            width: 130,
            sort: "state",
            value: (row) => row.state,
            cell: (row) => <StateBadge state={row.state} />,
        },
        {
            id: "reported",
            title: "Saved",
            width: 100,
            sort: "reported",
            value: (row) => row.reportTime,
            cell: (row) => <Ago at={row.reportTime} />,
        },
    ];
    return (
        <Loaded of={load}>
            {({ checkpoints, pagination }) =>
                checkpoints.length ? (
                    <div class="stack">
                        <div class="spread">
                            <Switch label="Show deleted ones" at={showsDeleted} />
                            {pagination.total > checkpoints.length && (
                                <span class="muted">
                                    The newest {number(checkpoints.length)} of{" "}
                                    {number(pagination.total)} checkpoints
                                </span>
                            )}
                        </div>
                        <Table
                            label="Checkpoints"
                            columns={columns}
                            rows={rows}
                            sort={sort}
                            height={640}
                            empty={
                                <Empty title="None is kept">
                                    <p>
                                        Its policy of checkpoints left none, or somebody deleted
                                        them.
                                    </p>
                                </Empty>
                            }
                        />
                        {registering.value && (
                            <Register
                                checkpoint={registering.value}
                                workspaceId={workspaceId}
                                onClose={() => (registering.value = undefined)}
                            />
                        )}
                        {listing.value && (
                            <Files
                                checkpoint={listing.value}
                                onClose={() => (listing.value = undefined)}
                            />
                        )}
                    </div>
                ) : (
                    <Empty title="No checkpoint yet" icon="download">
                        <p>
                            One is written when a trial validates, pauses, or every
                            trainer.checkpoint_every steps.
                        </p>
                    </Empty>
                )
            }
        </Loaded>
    );
}
