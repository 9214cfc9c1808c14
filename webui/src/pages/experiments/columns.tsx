// What stands in each column.

import type { ReadonlySignal } from "@preact/signals";
import type { FilterField } from "../../lib/filter";
import { quoteName } from "../../lib/filter";
import { duration, metric, millis, now, stateWord } from "../../lib/format";
import { shownState } from "../../lib/runs";
import type { ColumnChoice } from "../../parts/columns";
import { Time } from "../../parts/page";
import { Progress } from "../../parts/meter";
import { StateBadge } from "../../parts/state";
import type { Column } from "../../parts/table";
import type { Row } from "./rows";
import { isValue, labels, pin } from "./state";

function secondsOf(row: Row): number {
    const end = row.endTime ? millis(row.endTime) : now.value;
    return (end - millis(row.startTime)) / 1000;
}

function Duration({ row }: { row: Row }) {
    return <>{duration(secondsOf(row))}</>;
}

function Labels({ row }: { row: Row }) {
    return (
        <>
            {row.labels?.map((label) => (
                <button
                    key={label}
                    type="button"
                    class="label"
                    title={`Only experiments with the label ${label}`}
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
    /^(ACTIVE|QUEUED|PULLING|STARTING|RUNNING|STOPPING|PAUSED)/.test(stateWord(row.state));

type Built = Omit<Column<Row>, "id"> & { group?: string };

const built: Record<string, Built> = {
    state: {
        title: "State",
        width: 130,
        sort: "state",
        cell: (row) => <StateBadge state={shownState(row)} note={row.failure} />,
        value: (row) => stateWord(row.state),
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
    duration: {
        title: "Duration",
        help: "From its submission to its end, with what it waited",
        width: 100,
        end: true,
        sort: "duration",
        cell: (row) => <Duration row={row} />,
        value: secondsOf,
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
        end: true,
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
        end: true,
        sort: "forked_from",
        cell: (row) =>
            row.forkedFrom ? <a href={`/experiments/${row.forkedFrom}`}>{row.forkedFrom}</a> : "–",
        value: (row) => row.forkedFrom,
    },
};

// --- numbers, and how far they are from the baseline's --------------------------------------------

type Baseline = ReadonlySignal<Row | null | undefined>;

function Delta(props: { value: number; base: number | string | null | undefined }) {
    const { value, base } = props;
    if (typeof base !== "number" || value === base) return null;
    const far = value - base;
    return (
        <span class="delta" title={`${metric(base)} in the baseline`}>
            {far > 0 ? "▲" : "▼"} {metric(Math.abs(far))}
        </span>
    );
}

function numberColumn(
    title: string,
    name: string,
    of: (row: Row) => number | string | null | undefined,
    baseline: Baseline,
): Built {
    return {
        title,
        width: pin.value ? 160 : 120,
        end: true,
        sort: name,
        value: of,
        cell: (row) => {
            const value = of(row);
            if (typeof value !== "number") return value ?? "–";
            const base = baseline.value;
            return (
                <>
                    {base && base.id !== row.id && <Delta value={value} base={of(base)} />}
                    {metric(value)}
                </>
            );
        },
    };
}

function titleOf(id: string): string {
    const [group, ...rest] = id.split(".");
    const name = rest.join(".").replaceAll('"', "").replace(/\.(min|max)$/, " $1");
    return group === "training" ? `train ${name}` : name || id;
}

function first(baseline: Baseline): Column<Row> {
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
            const help = "The best value of what its search looks at";
            return [{ id, ...numberColumn("Best metric", id, of, baseline), help }];
        }
        if (isValue(id)) {
            const of = (row: Row) => row.values[id];
            return [{ id, ...numberColumn(titleOf(id), id, of, baseline), help: id }];
        }
        return built[id] ? [{ id, ...built[id] }] : [];
    });
    return [first(baseline), ...made];
}

/** All columns there could be. */
export function choices(fields: readonly FilterField[]): ColumnChoice[] {
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
        ...Object.entries(built).map(([id, column]) => ({ id, title: column.title })),
        { id: "metric", title: "Best metric" },
        { id: "slots", title: "Slots" },
        ...names,
    ];
}
