// The list of experiments. The address holds its filters, its order and its columns.

import { type ReadonlySignal, useComputed, useSignal } from "@preact/signals";
import { useActions } from "../../lib/actions";
import { get } from "../../lib/api";
import { toCsv, saveFile } from "../../lib/download";
import type { FilterField } from "../../lib/filter";
import { number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { Button, Empty, PageHead, LinkButton, Switch } from "../../parts";
import { ColumnChooser } from "../../parts/table/column_chooser";
import { GettingStarted } from "../../parts/page/getting_started";
import { FilterInput, isFilterError } from "../../parts/table/filter_input";
import { type Column, Table } from "../../parts/table/table";
import { BulkActions } from "./bulk_actions";
import { columnChoices, makeColumns } from "./columns";
import { type Counts, FacetMenu, stateFacets } from "./facets";
import { newCount, readBaseline, type Row, useRows } from "./rows";
import {
    archived,
    columns,
    DEFAULT_COLUMNS,
    filter,
    isFiltered,
    labels,
    owners,
    pinnedId,
    projects,
    sort,
    states,
} from "./state";
import { SavedViews } from "./views";
import "./experiments.css";

interface FilterValues {
    fields: FilterField[];
    states: Counts[];
    users: Counts[];
    projects: Counts[];
}

/** Adds the values that completion offers for fields such as owner and label. */
function withValues(known: FilterValues, labelNames: readonly string[]): FilterField[] {
    const names: Record<string, readonly string[]> = {
        state: ["ACTIVE", "RUNNING", "QUEUED", "PAUSED", "COMPLETED", "CANCELED", "ERROR"],
        owner: known.users.map((one) => one.name),
        project: [...new Set(known.projects.map((one) => one.name))],
        workspace: [...new Set(known.projects.map((one) => one.workspaceName ?? ""))],
        label: labelNames,
    };
    return known.fields
        .filter((field) => !("lists" in field) || (field.lists as string[]).includes("experiments"))
        .map((field) => (names[field.name] ? { ...field, names: [...names[field.name]!] } : field));
}

function FacetMenus({ known, labelNames }: { known: FilterValues | undefined; labelNames: readonly string[] }) {
    const byName = ({ name, count }: Counts) => ({ value: name, title: name, count });
    return (
        <>
            <FacetMenu name="State" bind={states} facets={stateFacets(known?.states ?? [])} />
            <FacetMenu name="Owner" bind={owners} facets={(known?.users ?? []).map(byName)} />
            <FacetMenu
                name="Label"
                bind={labels}
                facets={labelNames.map((label) => ({ value: label, title: label }))}
            />
            <FacetMenu
                name="Project"
                bind={projects}
                facets={(known?.projects ?? []).map((one) => ({
                    value: String(one.id),
                    title: one.name,
                    group: one.workspaceName ?? "",
                    count: one.count,
                }))}
            />
            <Switch label="Archived" bind={archived} />
        </>
    );
}

function clearFilters(): void {
    filter.value = "";
    for (const facet of [states, owners, labels, projects]) facet.value = [];
}

function saveCsv(shown: readonly Column<Row>[], rows: Iterable<Row>): void {
    const head = ["name", ...shown.map((column) => column.id)];
    const lines = [...rows].map((row) => [
        row.name,
        ...shown.map((column) => column.value?.(row) ?? ""),
    ]);
    saveFile("experiments.csv", "text/csv", toCsv(head, lines));
}

/** The baseline row; null: none is pinned. */
const readPinned = (abort: AbortSignal) => (pinnedId.value ? readBaseline(pinnedId.value, abort) : Promise.resolve(null));

type Rows = ReturnType<typeof useRows>["rows"];

function ListHead(props: { rows: Rows; reload: () => void; fields: readonly FilterField[]; onSaveCsv: () => void }) {
    const { rows, reload, fields, onSaveCsv: onSave } = props;
    return (
        <PageHead title="Experiments">
            <span class="muted num" aria-live="polite">
                {rows.isCountMinimum.value ? "at least " : ""}
                {number(rows.count.value)}
            </span>
            {newCount.value > 0 && (
                <Button icon="refresh" kind="main" onClick={reload}>
                    {number(newCount.value)} new
                </Button>
            )}
            <ColumnChooser all={columnChoices(fields)} bind={columns} fallback={DEFAULT_COLUMNS} />
            <Button icon="download" label="Save the loaded rows as CSV" onClick={onSave} />
            <LinkButton href="/experiments/new" icon="plus" main>
                New experiment
            </LinkButton>
        </PageHead>
    );
}

function Baseline({ baseline }: { baseline: ReadonlySignal<Row | null | undefined> }) {
    const row = baseline.value;
    if (!row) return null;
    return (
        <p class="baseline">
            Baseline: <a href={`/experiments/${row.id}`}>{row.id}</a> {row.name}
            <Button kind="quiet" icon="close" label="Unpin" onClick={() => (pinnedId.value = 0)} />
        </p>
    );
}

function NoExperiments() {
    return isFiltered.value ? (
        <Empty title="No experiments match" icon="filter">
            <Button onClick={clearFilters}>Clear the filter</Button>
        </Empty>
    ) : (
        <div class="line first-use">
            <GettingStarted />
        </div>
    );
}

export function Page() {
    const { rows, reload } = useRows();
    const selected = useSignal<ReadonlySet<string>>(new Set());
    const filterValues = useLoad((abort) =>
        get<FilterValues>("/experiment/fields", { archived: archived.value ? undefined : false }, abort),
    );
    const labelList = useLoad((abort) => get<{ labels: string[] }>("/experiment/labels", {}, abort));
    const baseline = useLoad(readPinned).data;
    const labelNames = labelList.data.value?.labels ?? [];
    const filterFields = filterValues.data.value ? withValues(filterValues.data.value, labelNames) : [];
    const shown = useComputed(() => makeColumns(columns.value, baseline)).value;
    const onSave = () => saveCsv(shown, rows.loadedRows());
    useActions([
        { name: "Save the loaded rows as CSV", icon: "download", run: onSave },
        { name: "Clear the filter", icon: "close", run: clearFilters },
        { name: "Reload the list", key: "r", icon: "refresh", run: reload },
    ]);
    return (
        <main class="experiments">
            <ListHead rows={rows} reload={reload} fields={filterFields} onSaveCsv={onSave} />
            <SavedViews />
            <div class="list-filters">
                <FilterInput label="Filter experiments" bind={filter} fields={filterFields} error={rows.error.value} />
                <div class="line">
                    <FacetMenus known={filterValues.data.value} labelNames={labelNames} />
                    {isFiltered.value && (
                        <Button kind="quiet" icon="close" onClick={clearFilters}>
                            Clear
                        </Button>
                    )}
                </div>
            </div>
            <Baseline baseline={baseline} />
            <Table
                label="Experiments"
                columns={shown}
                rows={rows}
                sort={sort}
                selected={selected}
                hidesError={isFilterError(rows.error.value)}
                name={(row) => `${row.id} ${row.name}`}
                href={(row) => `/experiments/${row.id}`}
                empty={<NoExperiments />}
            />
            <BulkActions
                selected={selected}
                labels={labelNames}
                onDone={reload}
                onPin={(id) => {
                    pinnedId.value = id;
                    selected.value = new Set();
                }}
            />
        </main>
    );
}
