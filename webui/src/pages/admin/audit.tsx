// Who changed what, and who was refused.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { get } from "../../lib/api";
import { useLive } from "../../lib/live";
import { pagedRows, reloadOn } from "../../lib/rows";
import type { AuditRow, Paged } from "../../lib/types";
import { param, text } from "../../lib/url";
import { Button, Search, Select, Time } from "../../parts";
import { type Column, Table } from "../../parts/table";

const who = param("user", text());
const path = param("path", text());
const method = param("method", text());
const status = param("status", text());
const age = param("since", text());

const ages = [
    { value: "", title: "any time" },
    { value: "1", title: "the last hour" },
    { value: "24", title: "the last day" },
    { value: "168", title: "the last week" },
    { value: "720", title: "the last 30 days" },
];
const methods = [{ value: "", title: "any" }, "POST", "PUT", "PATCH", "DELETE"];
const statuses = [
    { value: "", title: "any" },
    { value: "200", title: "200 done" },
    { value: "400", title: "400 invalid" },
    { value: "401", title: "401 not signed in" },
    { value: "403", title: "403 refused" },
    { value: "404", title: "404 not there" },
    { value: "409", title: "409 conflict" },
];

function query() {
    const hours = Number(age.value);
    return {
        user: who.value || undefined,
        path: path.value || undefined,
        method: method.value || undefined,
        status: status.value || undefined,
        since: hours ? new Date(Date.now() - hours * 3_600_000).toISOString() : undefined,
    };
}

const columns: Column<AuditRow>[] = [
    { id: "time", title: "Time", width: 130, cell: (row) => <Time at={row.time} /> },
    { id: "user", title: "User", width: 130, cell: (row) => row.username || <span class="muted">nobody</span> },
    {
        id: "status",
        title: "Status",
        width: 100,
        cell: (row) => (
            <span class={row.status >= 400 ? "bad num" : "num"}>
                {row.status} {row.status >= 400 ? "refused" : "done"}
            </span>
        ),
    },
    { id: "method", title: "Method", width: 80, cell: (row) => <span class="mono">{row.method}</span> },
    {
        id: "path",
        title: "Call",
        width: 320,
        cell: (row) => (
            <span class="mono" title={row.path}>
                {row.path.replace("/api/v1", "")}
            </span>
        ),
    },
    { id: "detail", title: "With", width: 320, cell: (row) => <span title={row.detail}>{row.detail}</span> },
    { id: "address", title: "From", width: 130, cell: (row) => row.address },
];

function makeRows() {
    let total = 0; // as the first page tells it
    return pagedRows<AuditRow>(
        async (page, abort) => {
            const answer = await get<{ audit: AuditRow[] } & Paged>("/audit", { ...query(), ...page }, abort);
            if (!page.cursor) total = answer.pagination.total;
            return { rows: answer.audit, total, next: answer.nextCursor };
        },
        (row) => String(row.id),
    );
}

export function Audit() {
    const rows = useMemo(makeRows, []);
    const isBehind = useSignal(false);
    const reload = () => {
        isBehind.value = false;
        rows.reload();
    };
    useEffect(() => reloadOn({ reload }, query), []);
    // What one reads stays where it is; at the top, new rows come in above.
    const look = () => (rows.isAtTop() ? reload() : (isBehind.value = true));
    const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
    const soon = () => {
        clearTimeout(timer.current);
        timer.current = setTimeout(look, 300);
    };
    useEffect(() => () => clearTimeout(timer.current), []);
    useLive({ topics: ["audit"] }, soon, soon);
    return (
        <>
            <div class="line">
                <Search at={who} label="User" />
                <Search at={path} label="Part of the call" />
                <Select label="Method" at={method} options={methods} />
                <Select label="Status" at={status} options={statuses} />
                <Select label="Of" at={age} options={ages} />
                {isBehind.value && (
                    <Button icon="refresh" onClick={reload}>
                        There is more: look again
                    </Button>
                )}
            </div>
            <Table
                label="Audit trail"
                columns={columns}
                rows={rows}
                height={640}
                empty={<p class="admin-none muted">Nothing was changed or refused.</p>}
            />
        </>
    );
}
