// The audit trail: all changes, and all refused calls.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { get } from "../../lib/api";
import { useEvents } from "../../lib/events/subscribe";
import { pagedRows, reloadOn } from "../../lib/rows";
import type { AuditRow, Paged } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { Button, Search, Select, Time } from "../../parts";
import { type Column, Table } from "../../parts/table/table";

const userName = queryParam("user", text());
const path = queryParam("path", text());
const method = queryParam("method", text());
const status = queryParam("status", text());
const age = queryParam("since", text());

const ages = [
    { value: "", title: "any time" },
    { value: "1", title: "last hour" },
    { value: "24", title: "last day" },
    { value: "168", title: "last week" },
    { value: "720", title: "last 30 days" },
];
const methods = [{ value: "", title: "any" }, "POST", "PUT", "PATCH", "DELETE"];
const statuses = [
    { value: "", title: "any" },
    { value: "200", title: "200 OK" },
    { value: "400", title: "400 invalid or wrong state" },
    { value: "401", title: "401 not signed in" },
    { value: "403", title: "403 forbidden" },
    { value: "404", title: "404 not found" },
    { value: "409", title: "409 conflict" },
];

function auditQuery() {
    const hours = Number(age.value);
    return {
        user: userName.value || undefined,
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
                {row.status} {row.status >= 400 ? "refused" : "OK"}
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
    { id: "detail", title: "Details", width: 320, cell: (row) => <span title={row.detail}>{row.detail}</span> },
    { id: "address", title: "From", width: 130, cell: (row) => row.address },
];

function auditRows() {
    let total = 0; // from the first page
    return pagedRows<AuditRow>(
        async (page, abort) => {
            const answer = await get<{ audit: AuditRow[] } & Paged>("/audit", { ...auditQuery(), ...page }, abort);
            if (!page.cursor) total = answer.pagination.total;
            return { rows: answer.audit, total, next: answer.nextCursor };
        },
        (row) => String(row.id),
    );
}

export function Audit() {
    const rows = useMemo(auditRows, []);
    const hasNewRows = useSignal(false);
    const reload = () => {
        hasNewRows.value = false;
        rows.reload();
    };
    useEffect(() => reloadOn({ reload }, auditQuery), []);
    // New rows appear at once only while the table is scrolled to the top, so that rows do not move while they
    // are read.
    const onChange = () => (rows.isAtTop() ? reload() : (hasNewRows.value = true));
    const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
    const scheduleChange = () => {
        clearTimeout(timer.current);
        timer.current = setTimeout(onChange, 300);
    };
    useEffect(() => () => clearTimeout(timer.current), []);
    useEvents({ topics: ["audit"] }, scheduleChange, scheduleChange);
    return (
        <>
            <div class="line">
                <Search bind={userName} label="User" />
                <Search bind={path} label="Path contains" />
                <Select label="Method" bind={method} options={methods} />
                <Select label="Status" bind={status} options={statuses} />
                <Select label="Time" bind={age} options={ages} />
                {hasNewRows.value && (
                    <Button icon="refresh" onClick={reload}>
                        Show new entries
                    </Button>
                )}
            </div>
            <Table
                label="Audit trail"
                columns={columns}
                rows={rows}
                height={640}
                empty={<p class="admin-empty muted">No entries.</p>}
            />
        </>
    );
}
