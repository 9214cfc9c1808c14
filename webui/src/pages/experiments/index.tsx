// All experiments: narrowed, sorted and shown as the address says.

import { useComputed, useSignal } from "@preact/signals";
import { useActions } from "../../lib/actions";
import { get } from "../../lib/api";
import { csv, save } from "../../lib/download";
import type { FilterField } from "../../lib/filter";
import { number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { Button, Empty, Head, LinkButton, Switch } from "../../parts";
import { ColumnChooser } from "../../parts/columns";
import { Greeting } from "../../parts/greeting";
import { FilterInput, isFault } from "../../parts/filter_input";
import { type Column, Table } from "../../parts/table";
import { Bulk } from "./bulk";
import { choices, makeColumns } from "./columns";
import { type Counts, FacetMenu, stateFacets } from "./facets";
import { fresh, readBaseline, type Row, useRows } from "./rows";
import {
    archived,
    columns,
    FALLBACK,
    filter,
    isNarrowed,
    labels,
    owners,
    pin,
    projects,
    sort,
    states,
} from "./state";
import { Views } from "./views";
import "./experiments.css";

interface Known {
    fields: FilterField[];
    states: Counts[];
    users: Counts[];
    projects: Counts[];
}

/** Values that a filter may compare with, where the language's own table has none. */
function withNames(known: Known, labelNames: readonly string[]): FilterField[] {
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

function Narrow({ known, labelNames }: { known: Known | undefined; labelNames: readonly string[] }) {
    const byName = ({ name, count }: Counts) => ({ value: name, title: name, count });
    return (
        <>
            <FacetMenu name="State" at={states} facets={stateFacets(known?.states ?? [])} />
            <FacetMenu name="Owner" at={owners} facets={(known?.users ?? []).map(byName)} />
            <FacetMenu
                name="Label"
                at={labels}
                facets={labelNames.map((label) => ({ value: label, title: label }))}
            />
            <FacetMenu
                name="Project"
                at={projects}
                facets={(known?.projects ?? []).map((one) => ({
                    value: String(one.id),
                    title: one.name,
                    group: one.workspaceName ?? "",
                    count: one.count,
                }))}
            />
            <Switch label="Archived" at={archived} />
        </>
    );
}

function clear(): void {
    filter.value = "";
    for (const facet of [states, owners, labels, projects]) facet.value = [];
}

function saveCsv(shown: readonly Column<Row>[], rows: Iterable<Row>): void {
    const head = ["name", ...shown.map((column) => column.id)];
    const lines = [...rows].map((row) => [
        row.name,
        ...shown.map((column) => column.value?.(row) ?? ""),
    ]);
    save("experiments.csv", "text/csv", csv(head, lines));
}

export function Page() {
    const { rows, reload } = useRows();
    const selected = useSignal<ReadonlySet<string>>(new Set());
    const known = useLoad((abort) =>
        get<Known>("/experiment/fields", { archived: archived.value ? undefined : false }, abort),
    );
    const labelList = useLoad((abort) => get<{ labels: string[] }>("/experiment/labels", {}, abort));
    const base = useLoad((abort) => (pin.value ? readBaseline(pin.value, abort) : nothing()));
    const baseline = base.data;
    const labelNames = labelList.data.value?.labels ?? [];
    const fields = known.data.value ? withNames(known.data.value, labelNames) : [];
    const shown = useComputed(() => makeColumns(columns.value, baseline)).value;
    const total = rows.count.value;

    useActions([
        {
            name: "Save the rows that are here as CSV",
            icon: "download",
            run: () => saveCsv(shown, rows.known()),
        },
        { name: "Clear the filter", icon: "close", run: clear },
        { name: "Read the list anew", key: "r", icon: "refresh", run: reload },
    ]);

    return (
        <main class="experiments">
            <Head title="Experiments">
                <span class="muted num" aria-live="polite">
                    {rows.least.value ? "at least " : ""}
                    {number(total)}
                </span>
                {fresh.value > 0 && (
                    <Button icon="refresh" kind="main" onClick={reload}>
                        {number(fresh.value)} new
                    </Button>
                )}
                <ColumnChooser
                    all={choices(fields)}
                    at={columns}
                    fallback={FALLBACK}
                />
                <Button
                    icon="download"
                    label="Save the rows that are here as CSV"
                    onClick={() => saveCsv(shown, rows.known())}
                />
                <LinkButton href="/experiments/new" icon="plus" main>
                    New experiment
                </LinkButton>
            </Head>
            <Views />
            <div class="narrow">
                <FilterInput
                    label="Filter of experiments"
                    at={filter}
                    fields={fields}
                    error={rows.error.value}
                />
                <div class="line">
                    <Narrow known={known.data.value} labelNames={labelNames} />
                    {isNarrowed.value && (
                        <Button kind="quiet" icon="close" onClick={clear}>
                            Clear
                        </Button>
                    )}
                </div>
            </div>
            {baseline.value && (
                <p class="baseline">
                    Baseline: <a href={`/experiments/${baseline.value.id}`}>{baseline.value.id}</a>{" "}
                    {baseline.value.name}
                    <Button kind="quiet" icon="close" label="Unpin" onClick={() => (pin.value = 0)} />
                </p>
            )}
            <Table
                label="Experiments"
                columns={shown}
                rows={rows}
                sort={sort}
                selected={selected}
                hidesError={isFault(rows.error.value)}
                name={(row) => `${row.id} ${row.name}`}
                href={(row) => `/experiments/${row.id}`}
                empty={
                    isNarrowed.value ? (
                        <Empty title="No experiment is like that" icon="filter">
                            <Button onClick={clear}>Clear the filter</Button>
                        </Empty>
                    ) : (
                        <div class="line welcome">
                            <Greeting />
                        </div>
                    )
                }
            />
            <Bulk
                selected={selected}
                labels={labelNames}
                onDone={reload}
                onPin={(id) => {
                    pin.value = id;
                    selected.value = new Set();
                }}
            />
        </main>
    );
}

const nothing = () => Promise.resolve(null);
