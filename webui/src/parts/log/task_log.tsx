// The log of a trial, with filters, a search and a jump from error to error. It opens at its end, loads more while
// the user scrolls, and follows new lines. The address holds the filters.

import { batch, signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { isAbort, apiUrl, type Query, streamLines } from "../../lib/api";
import { followEvents } from "../../lib/events/subscribe";
import { toast, toastError } from "../../lib/toasts";
import type { TaskLog as Row } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { Button } from "../basic/button";
import { Search, Select, Switch } from "../form/field";
import { LogView, type LogLine } from "./log_view";
import { Menu, type MenuItem } from "../overlay/menu";
import { ErrorBox, Loading } from "../page/page";

const PAGE_SIZE = 1000;
const MAX_LINES = 20_000; // kept in the page; the lines at the far end are dropped first
const LINES_AFTER_TARGET = 200; // loaded after the line that the user jumps to

const LEVELS = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
/** A regular expression for lines that look like errors, whatever their level. */
const ERROR_PATTERN =
    "[Ee]rror|ERROR|[Ee]xception|Traceback|[Ff]atal|FATAL|[Pp]anic|out of memory|signal [0-9]";

const search = queryParam("q", text());
const level = queryParam("level", text());
const rank = queryParam("rank", text());
const targetLine = queryParam("line", text());

type LogQuery = Query & { searchText?: string };

function logQuery(): LogQuery {
    const from = LEVELS.indexOf(level.value);
    return {
        ...(search.value ? { searchText: search.value } : {}),
        ...(from > 0 ? { levels: LEVELS.slice(from).map((word) => `LOG_LEVEL_${word}`) } : {}),
        ...(rank.value ? { rankIds: rank.value } : {}),
    };
}

function toLogLine(row: Row): LogLine {
    return {
        id: row.id,
        time: row.timestamp,
        level: row.level.replace("LOG_LEVEL_", "").toLowerCase() as LogLine["level"],
        text: (row.log ?? row.message).replace(/\n$/, ""),
        ...(row.rankId === undefined ? {} : { rank: row.rankId }),
        ...(row.agentId ? { agent: row.agentId } : {}),
    };
}

/** The loaded part of the log: consecutive lines among those that match the filters. */
class LogWindow {
    readonly lines = signal<readonly LogLine[]>([]);
    readonly error = signal<unknown>(undefined);
    readonly isLoaded = signal(false);
    readonly ranks = signal<readonly number[]>([]);
    readonly follows = signal(true);
    hasStart = false;
    hasEnd = false;
    private busy = false;
    private hasNewLines = false; // an event announced lines during a call
    private abort = new AbortController();

    constructor(private readonly path: string) {}

    stop = (): void => this.abort.abort();

    /** The lines of one call, the oldest first. */
    async read(query: Query): Promise<LogLine[]> {
        const lines: LogLine[] = [];
        const take = (rows: Row[]) => lines.push(...rows.map(toLogLine));
        await streamLines<Row>(this.path, { limit: PAGE_SIZE, ...query }, take, this.abort.signal);
        return query["orderBy"] === "ORDER_BY_DESC" ? lines.reverse() : lines;
    }

    async begin(at: string): Promise<void> {
        this.stop();
        this.abort = new AbortController();
        this.busy = false;
        await this.runExclusively(async () => {
            const query: Query = { ...logQuery(), orderBy: "ORDER_BY_DESC" };
            const last = at ? { before: Number(at) + LINES_AFTER_TARGET } : {};
            const lines = await this.read({ ...query, ...last });
            batch(() => {
                this.hasStart = lines.length < PAGE_SIZE;
                this.hasEnd = !at;
                this.follows.value = !at;
                this.lines.value = lines;
            });
        });
        this.isLoaded.value = true;
    }

    older = (): void => {
        const first = this.lines.peek()[0];
        if (this.hasStart || !first) return;
        void this.runExclusively(async () => {
            const query: Query = {
                ...logQuery(),
                orderBy: "ORDER_BY_DESC",
                before: Number(first.id),
            };
            const lines = await this.read(query);
            this.hasStart = lines.length < PAGE_SIZE;
            const all = [...lines, ...this.lines.peek()];
            if (all.length > MAX_LINES) this.hasEnd = false;
            this.lines.value = all.slice(0, MAX_LINES);
        });
    };

    newer = (): void => {
        if (!this.hasEnd && this.lines.peek().length) this.tail();
    };

    /** Loads the lines after the last one. */
    tail = (): void => {
        if (this.busy) {
            this.hasNewLines = true;
            return;
        }
        void this.runExclusively(async () => {
            const last = this.lines.peek().at(-1);
            const lines = await this.read({ ...logQuery(), after: Number(last?.id ?? 0) });
            this.hasEnd = lines.length < PAGE_SIZE;
            if (!lines.length) return;
            const all = [...this.lines.peek(), ...lines];
            if (all.length > MAX_LINES) this.hasStart = false;
            this.lines.value = all.slice(-MAX_LINES);
        });
    };

    /** The id of the nearest line before `before` that looks like an error; undefined: there is none. */
    async findError(before: string): Promise<string | undefined> {
        const query: Query = {
            orderBy: "ORDER_BY_DESC",
            limit: 1,
            ...(rank.value ? { rankIds: rank.value } : {}),
        };
        if (before) query["before"] = Number(before);
        const found = await Promise.all([
            this.read({ ...query, levels: ["LOG_LEVEL_ERROR", "LOG_LEVEL_CRITICAL"] }),
            this.read({ ...query, searchText: ERROR_PATTERN, enableRegex: true }),
        ]);
        const ids = found.flat().map((one) => Number(one.id));
        return ids.length ? String(Math.max(...ids)) : undefined;
    }

    async readRanks(): Promise<void> {
        try {
            await streamLines<{ rankIds: number[] }>(
                `${this.path}/fields`,
                {},
                ([fields]) => (this.ranks.value = fields!.rankIds),
                this.abort.signal,
            );
        } catch {
            // Without ranks the view has no filter by rank. The lines are shown anyway.
        }
    }

    /** Runs one call at a time, and keeps its error. */
    private async runExclusively(work: () => Promise<void>): Promise<void> {
        if (this.busy) return;
        this.busy = true;
        const { abort } = this;
        try {
            await work();
            this.error.value = undefined;
        } catch (error) {
            if (abort.signal.aborted || isAbort(error)) return;
            this.error.value = error;
        }
        this.busy = false;
        if (this.hasNewLines) {
            this.hasNewLines = false;
            this.tail();
        }
    }
}

// --- the view ------------------------------------------------------------------------------------

/** Loads the log while the component is there; `findError` goes to the nearest error before a line. */
function useTaskLog(trialId: number) {
    const path = `/trials/${trialId}/logs`;
    const log = useMemo(() => new LogWindow(path), [path]);
    const filters = JSON.stringify(logQuery());
    const isSearching = useSignal(false);
    useEffect(() => {
        const end = followEvents({ topics: ["logs"], trialId }, () => log.hasEnd && log.tail(), log.tail);
        void log.readRanks();
        return () => {
            end();
            log.stop();
        };
    }, [log]);
    useEffect(() => void log.begin(targetLine.peek()), [log, filters]);
    const findError = async (before: string) => {
        isSearching.value = true;
        try {
            const id = await log.findError(before);
            if (id === undefined) {
                toast(before ? "No error before this line" : "No errors found");
                return;
            }
            batch(() => {
                search.value = "";
                level.value = "";
                targetLine.value = id;
            });
            await log.begin(id);
        } catch (error) {
            toastError(error);
        } finally {
            isSearching.value = false;
        }
    };
    return { path, log, isFiltered: filters !== "{}", isSearching, findError };
}

const levelOptions = [
    { value: "", title: "all" },
    { value: "INFO", title: "info and above" },
    { value: "WARNING", title: "warnings and errors" },
    { value: "ERROR", title: "errors" },
];

function RankSelect({ ranks }: { ranks: readonly number[] }) {
    const options = ranks.map(String).map((value) => ({ value, title: value }));
    return <Select label="Rank" bind={rank} options={[{ value: "", title: "all" }, ...options]} />;
}

/** A switch for following the log. Turning it on jumps to the end. */
function followSwitch(log: LogWindow) {
    return {
        get value() {
            return log.follows.value;
        },
        set value(on: boolean) {
            if (!on) {
                log.follows.value = false;
                return;
            }
            targetLine.value = "";
            void log.begin("");
        },
    };
}

function exportItems(path: string, trialId: number): MenuItem[] {
    const ranks = rank.value ? ["--rank", rank.value] : [];
    return [
        { name: "Download as JSON lines", href: apiUrl(path, logQuery()), download: `trial-${trialId}.log.json` },
        { name: "Copy as a command", call: { method: "GET", path, muster: ["trial", "logs", trialId, ...ranks] } },
    ];
}

export function TaskLog({ trialId, height }: { trialId: number; height?: number }) {
    const { path, log, isFiltered, isSearching, findError } = useTaskLog(trialId);
    return (
        <div class="stack">
            <div class="line">
                <Search bind={search} label="Search the log" />
                <Select label="Level" bind={level} options={levelOptions} />
                {log.ranks.value.length > 1 && <RankSelect ranks={log.ranks.value} />}
                <Button icon="warning" disabled={isSearching.value} onClick={() => void findError(targetLine.value)}>
                    {targetLine.value ? "Previous error" : "Last error"}
                </Button>
                <Switch label="Follow" bind={followSwitch(log)} />
                <Menu label="Export the log" icon="download" items={exportItems(path, trialId)} />
            </div>
            {log.error.value !== undefined && <ErrorBox error={log.error.value} retry={log.tail} />}
            {log.isLoaded.value ? (
                <LogView
                    label={`Log of trial ${trialId}`}
                    lines={log.lines}
                    search={search.value}
                    onStart={log.older}
                    onEnd={log.newer}
                    targetId={targetLine.value || undefined}
                    follow={log.follows}
                    height={height ?? Math.max(280, innerHeight - 420)}
                    empty={<p class="muted log-empty">{isFiltered ? "No lines match." : "The log is empty so far."}</p>}
                />
            ) : (
                <Loading />
            )}
        </div>
    );
}
