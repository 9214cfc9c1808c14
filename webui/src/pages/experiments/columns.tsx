// The columns of the table of experiments.

import type { ReadonlySignal } from "@preact/signals";
import type { FilterField } from "../../lib/filter";
import { quoteName } from "../../lib/filter";
import { duration, formatMetric, millis, now, stateName } from "../../lib/format";
import { displayedState } from "../../lib/experiment/state";
import type { ColumnChoice } from "../../parts/table/column_chooser";
import { Time } from "../../parts/page/page";
import { Progress } from "../../parts/basic/meter";
import { StateBadge } from "../../parts/basic/state_badge";
import type { Column } from "../../parts/table/table";
import type { Row } from "./rows";
import { isValueColumn, labels, pinnedId } from "./state";

function durationSeconds(row: Row): number {
    const end = row.endTime ? millis(row.endTime) : now.value;
    return (end - millis(row.startTime)) / 1000;
}

function Duration({ row }: { row: Row }) {
    return <>{duration(durationSeconds(row))}</>;
}

function Labels({ row }: { row: Row }) {
    return (
        <>
            {row.labels?.map((label) => (
                <button
                    key={label}
                    type="button"
                    class="label"
                    title={`Show only experiments with the label ${label}`}
                    onClick={() => {
                        if (!labels.value.includes(label)) labels.value = [...labels.value, label];
                    }}
                >
                    {label}
                </button>
            ))}
        </>
    );
}

const isActive = (row: Row) =>
    /^(ACTIVE|QUEUED|PULLING|STARTING|RUNNING|STOPPING|PAUSED)/.test(stateName(row.state));

type ColumnDefinition = Omit<Column<Row>, "id"> & { group?: string };

const builtInColumns: Record<string, ColumnDefinition> = {
    state: {
        title: "State",
        width: 130,
        sort: "state",
        cell: (row) => <StateBadge state={displayedState(row)} note={row.failure} />,
        value: (row) => stateName(row.state),
    },
    owner: {
        title: "Owner",
        width: 120,
        sort: "owner",
        cell: (row) => row.displayName || row.username,
        value: (row) => row.username,
    },
    progress: {
        title: "Progress",
        width: 130,
        sort: "progress",
        cell: (row) =>
            isActive(row) ? (
                <Progress value={row.progress ?? 0} label={`Progress of ${row.name}`} />
            ) : (
                <span class="muted num">{Math.floor(100 * (row.progress ?? 0))} %</span>
            ),
        value: (row) => row.progress,
    },
    started: {
        title: "Submitted",
        width: 130,
        sort: "started",
        cell: (row) => <Time at={row.startTime} />,
        value: (row) => row.startTime,
    },
    ended: {
        title: "Ended",
        width: 130,
        sort: "ended",
        cell: (row) => <Time at={row.endTime} />,
        value: (row) => row.endTime,
    },
    ran: {
        title: "Ran",
        help: "The time in which at least one of its trials ran",
        width: 90,
        alignEnd: true,
        cell: (row) => (row.ranSeconds === undefined ? "" : duration(row.ranSeconds)),
        value: (row) => row.ranSeconds,
    },
    waited: {
        title: "Waited",
        help: "The time in which its trials only waited for slots; pauses do not count",
        width: 90,
        alignEnd: true,
        cell: (row) => (row.waitedSeconds === undefined ? "" : duration(row.waitedSeconds)),
        value: (row) => row.waitedSeconds,
    },
    duration: {
        title: "Duration",
        help: "From submission to end, including waiting and pauses",
        width: 100,
        alignEnd: true,
        sort: "duration",
        cell: (row) => <Duration row={row} />,
        value: durationSeconds,
    },
    labels: {
        title: "Labels",
        width: 220,
        cell: (row) => <Labels row={row} />,
        value: (row) => row.labels?.join(" "),
    },
    trials: {
        title: "Trials",
        width: 80,
        alignEnd: true,
        sort: "trials",
        cell: (row) => row.numTrials,
        value: (row) => row.numTrials,
    },
    searcher: {
        title: "Search",
        width: 120,
        sort: "searcher",
        cell: (row) => row.searcherType,
        value: (row) => row.searcherType,
    },
    workspace: {
        title: "Workspace",
        sort: "workspace",
        cell: (row) => row.workspaceName,
        value: (row) => row.workspaceName,
    },
    project: {
        title: "Project",
        sort: "project",
        cell: (row) => row.projectName,
        value: (row) => row.projectName,
    },
    resource_pool: {
        title: "Pool",
        sort: "resource_pool",
        cell: (row) => row.resourcePool,
        value: (row) => row.resourcePool,
    },
    forked_from: {
        title: "Forked from",
        width: 100,
        alignEnd: true,
        sort: "forked_from",
        cell: (row) =>
            row.forkedFrom ? <a href={`/experiments/${row.forkedFrom}`}>{row.forkedFrom}</a> : "–",
        value: (row) => row.forkedFrom,
    },
};

// --- numbers, and their differences from the baseline ----------------------------------------------

type Baseline = ReadonlySignal<Row | null | undefined>;

function Delta(props: { value: number; base: number | string | null | undefined }) {
    const { value, base } = props;
    if (typeof base !== "number" || value === base) return null;
    const far = value - base;
    return (
        <span class="delta" title={`Baseline: ${formatMetric(base)}`}>
            {far > 0 ? "▲" : "▼"} {formatMetric(Math.abs(far))}
        </span>
    );
}

function numberColumn(
    title: string,
    name: string,
    of: (row: Row) => number | string | null | undefined,
    baseline: Baseline,
): ColumnDefinition {
    return {
        title,
        width: pinnedId.value ? 160 : 120,
        alignEnd: true,
        sort: name,
        value: of,
        cell: (row) => {
            const value = of(row);
            if (typeof value !== "number") return value ?? "–";
            const base = baseline.value;
            return (
                <>
                    {base && base.id !== row.id && <Delta value={value} base={of(base)} />}
                    {formatMetric(value)}
                </>
            );
        },
    };
}

function valueTitle(id: string): string {
    const [group, ...rest] = id.split(".");
    const name = rest.join(".").replaceAll('"', "").replace(/\.(min|max)$/, " $1");
    return group === "training" ? `train ${name}` : name || id;
}

function nameColumn(baseline: Baseline): Column<Row> {
    return {
        id: "id",
        title: "Experiment",
        width: 300,
        sort: "id",
        value: (row) => row.id,
        cell: (row) => (
            <span class="experiment-name">
                <span class="muted num">{row.id}</span>
                <a href={`/experiments/${row.id}`} title={row.name}>
                    {row.name}
                </a>
                {baseline.value?.id === row.id && <span class="chip-small">baseline</span>}
                {row.archived && <span class="chip-small">archived</span>}
            </span>
        ),
    };
}

export function makeColumns(ids: readonly string[], baseline: Baseline): Column<Row>[] {
    const made = ids.flatMap((id): Column<Row>[] => {
        if (id === "metric") {
            const of = (row: Row) => row.bestTrialSearcherMetric;
            const help = "The best value of the searcher's metric";
            return [{ id, ...numberColumn("Best metric", id, of, baseline), help }];
        }
        if (isValueColumn(id)) {
            const of = (row: Row) => row.values[id];
            return [{ id, ...numberColumn(valueTitle(id), id, of, baseline), help: id }];
        }
        return builtInColumns[id] ? [{ id, ...builtInColumns[id] }] : [];
    });
    return [nameColumn(baseline), ...made];
}

/** All available columns. */
export function columnChoices(fields: readonly FilterField[]): ColumnChoice[] {
    const names = fields.flatMap((field) =>
        (field.names ?? []).flatMap((name): ColumnChoice[] => {
            if (field.type === "hparam")
                return [{ id: quoteName(field.name, name), title: name, group: "hyperparameter" }];
            if (field.type !== "metric") return [];
            const id = quoteName(field.name, name);
            return ["", ".min", ".max"].map((pick) => ({
                id: id + pick,
                title: `${name}${pick.replace(".", " ")}`,
                group: field.name,
            }));
        }),
    );
    return [
        ...Object.entries(builtInColumns).map(([id, column]) => ({ id, title: column.title })),
        { id: "metric", title: "Best metric" },
        { id: "slots", title: "Slots" },
        ...names,
    ];
}
