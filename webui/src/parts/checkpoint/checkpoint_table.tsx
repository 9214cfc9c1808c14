// The checkpoints of an experiment or a trial: the best one, their files, and the actions on them.

import { type Signal, useComputed, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { get } from "../../lib/api";
import { bytes, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { listRows, type Rows } from "../../lib/rows";
import { changeDeniedReason } from "../../lib/session";
import type { Checkpoint, Experiment, Paged } from "../../lib/types";
import { flag, queryParam, text } from "../../lib/url";
import { Switch } from "../form/field";
import { Dialog } from "../overlay/dialog";
import { Empty, Loaded } from "../page/page";
import { type Column, Table } from "../table/table";
import { hasMetric, useBestCheckpoint } from "./best_checkpoint";
import { checkpointColumns, isDeleted } from "./checkpoint_columns";
import { RegisterDialog } from "./register_dialog";

const PAGE_SIZE = 500;

const sort = queryParam("csort", text("-steps"));
const showsDeleted = queryParam("deleted", flag());

function FilesDialog({ checkpoint, onClose }: { checkpoint: Checkpoint; onClose: () => void }) {
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

function NoCheckpoint() {
    return (
        <Empty title="No checkpoints yet" icon="download">
            <p>A trial writes a checkpoint when it validates, when it pauses, and every trainer.checkpoint_every steps.</p>
        </Empty>
    );
}

type OpenedState = { kind: "register" | "files"; checkpoint: Checkpoint } | undefined;

function OpenedDialog({ open, workspaceId }: { open: Signal<OpenedState>; workspaceId: number }) {
    if (!open.value) return null;
    const { kind, checkpoint } = open.value;
    const close = () => (open.value = undefined);
    return kind === "files" ? (
        <FilesDialog checkpoint={checkpoint} onClose={close} />
    ) : (
        <RegisterDialog checkpoint={checkpoint} workspaceId={workspaceId} onClose={close} />
    );
}

function CheckpointList(props: {
    columns: readonly Column<Checkpoint>[];
    rows: Rows<Checkpoint>;
    loaded: number;
    total: number;
}) {
    const { columns, rows, loaded, total } = props;
    return (
        <>
            <div class="spread">
                <Switch label="Show deleted" bind={showsDeleted} />
                {total > loaded && (
                    <span class="muted">
                        The newest {number(loaded)} of {number(total)} checkpoints
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
                    <Empty title="No checkpoints left">
                        <p>The retention policy or a user deleted them.</p>
                    </Empty>
                }
            />
        </>
    );
}

export interface CheckpointTableProps {
    experiment: Pick<Experiment, "id" | "workspaceId" | "userId" | "config">;
    /** Shows only the checkpoints of this trial. */
    trialId?: number;
}

export function CheckpointTable({ experiment, trialId }: CheckpointTableProps) {
    const path = trialId ? `/trials/${trialId}` : `/experiments/${experiment.id}`;
    const load = useLoad(
        (abort) => get<{ checkpoints: Checkpoint[] } & Paged>(`${path}/checkpoints`, { limit: PAGE_SIZE }, abort),
        { topics: ["checkpoints"], experimentId: experiment.id },
    );
    const open = useSignal<OpenedState>(undefined);
    const all = useComputed(() => load.data.value?.checkpoints);
    const shown = useComputed(() =>
        showsDeleted.value ? all.value : all.value?.filter((checkpoint) => !isDeleted(checkpoint)),
    );
    const rows = useMemo(() => listRows(shown, (checkpoint) => checkpoint.uuid), []);
    const workspaceId = experiment.workspaceId ?? 1;
    const searcher = experiment.config?.["searcher"] as { metric?: string } | undefined;
    const best = useBestCheckpoint({ experimentId: experiment.id, trialId });
    const columns = checkpointColumns({
        menu: {
            deleteDeniedReason: changeDeniedReason(workspaceId, experiment.userId),
            registerDeniedReason: changeDeniedReason(workspaceId),
            onShowFiles: (checkpoint) => (open.value = { kind: "files", checkpoint }),
            onRegister: (checkpoint) => (open.value = { kind: "register", checkpoint }),
        },
        bestUuid: best && hasMetric(best) ? best.uuid : undefined,
        metricName: searcher?.metric,
        hasTrialColumn: !trialId,
    });
    return (
        <Loaded load={load}>
            {({ checkpoints, pagination }) =>
                checkpoints.length ? (
                    <div class="stack">
                        <CheckpointList
                            columns={columns}
                            rows={rows}
                            loaded={checkpoints.length}
                            total={pagination.total}
                        />
                        <OpenedDialog open={open} workspaceId={workspaceId} />
                    </div>
                ) : (
                    <NoCheckpoint />
                )
            }
        </Loaded>
    );
}
