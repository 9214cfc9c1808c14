// The columns of the table of checkpoints, and the menu of a checkpoint.

import type { Action } from "../../lib/actions";
import { copyText } from "../../lib/clipboard";
import { bytes, formatMetric, number, stateName } from "../../lib/format";
import type { Checkpoint } from "../../lib/types";
import { Menu, type MenuItem } from "../overlay/menu";
import { Ago } from "../page/page";
import { StateBadge } from "../basic/state_badge";
import type { Column } from "../table/table";
import { DownloadCheckpoint, checkpointSize } from "./best_checkpoint";

export const isDeleted = (checkpoint: Checkpoint) => stateName(checkpoint.state) === "DELETED";

const shortName = ({ uuid }: Checkpoint) => uuid.slice(0, 8);

export interface CheckpointMenuProps {
    deleteDeniedReason: string | undefined;
    registerDeniedReason: string | undefined;
    onShowFiles: (checkpoint: Checkpoint) => void;
    onRegister: (checkpoint: Checkpoint) => void;
}

function menuItems(checkpoint: Checkpoint, props: CheckpointMenuProps): MenuItem[] {
    const { uuid } = checkpoint;
    const remove: Action = {
        name: "Delete",
        danger: `The files of checkpoint ${uuid} are deleted. Its record stays.`,
        disabledReason: props.deleteDeniedReason,
        call: {
            method: "DELETE",
            path: "/checkpoints",
            body: { checkpointUuids: [uuid] },
            muster: ["checkpoint", "delete", uuid, "--yes"],
        },
    };
    return [
        { name: "Show files", run: () => props.onShowFiles(checkpoint) },
        {
            name: "Register as a model",
            icon: "registry",
            disabledReason: props.registerDeniedReason,
            run: () => props.onRegister(checkpoint),
        },
        "-",
        {
            name: "Copy the muster command to download",
            icon: "copy",
            run: () => copyText(`muster checkpoint download ${uuid} --to ${shortName(checkpoint)}`),
        },
        { name: "Copy the UUID", icon: "copy", run: () => copyText(uuid) },
        "-",
        remove,
    ];
}

const trialColumn: Column<Checkpoint> = {
    id: "trial",
    title: "Trial",
    width: 80,
    sort: "trial",
    value: (row) => row.training.trialId,
    cell: (row) => <a href={`/trials/${row.training.trialId}`}>{row.training.trialId}</a>,
};

const stateColumns: readonly Column<Checkpoint>[] = [
    {
        id: "size",
        title: "Size",
        width: 90,
        alignEnd: true,
        sort: "size",
        value: checkpointSize,
        cell: (row) => bytes(checkpointSize(row)),
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

export function checkpointColumns(props: {
    menu: CheckpointMenuProps;
    bestUuid: string | undefined;
    metricName: string | undefined;
    hasTrialColumn: boolean;
}): Column<Checkpoint>[] {
    return [
        {
            id: "uuid",
            title: "Checkpoint",
            width: 150,
            cell: (row) => (
                <span class="line">
                    <span class="mono" title={row.uuid}>
                        {shortName(row)}
                    </span>
                    {row.uuid === props.bestUuid && <strong class="good">★ best</strong>}
                </span>
            ),
        },
        {
            id: "do",
            title: "Download",
            width: 170,
            cell: (row) =>
                !isDeleted(row) && (
                    <span class="line">
                        <DownloadCheckpoint checkpoint={row} />
                        <Menu
                            kind="quiet"
                            icon="more"
                            label={`Checkpoint ${shortName(row)}`}
                            items={menuItems(row, props.menu)}
                        />
                    </span>
                ),
        },
        ...(props.hasTrialColumn ? [trialColumn] : []),
        {
            id: "steps",
            title: "Step",
            width: 90,
            alignEnd: true,
            sort: "steps",
            value: (row) => row.stepsCompleted,
            cell: (row) => number(row.stepsCompleted ?? 0),
        },
        {
            id: "metric",
            title: props.metricName ?? "Metric",
            width: 150,
            alignEnd: true,
            sort: "metric",
            value: (row) => row.training.searcherMetric,
            cell: (row) => formatMetric(row.training.searcherMetric),
        },
        ...stateColumns,
    ];
}
