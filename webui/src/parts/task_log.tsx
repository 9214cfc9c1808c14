// The log of a trial: its end at first, more as one scrolls, new lines as they come; filters, a
// search, and a way from error to error. What is shown is decided by the address.

import { batch, signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { isAbort, link, type Query, stream } from "../lib/api";
import { follow } from "../lib/live";
import { toast, toastError } from "../lib/notices";
import type { TaskLog as Row } from "../lib/types";
import { param, text } from "../lib/url";
import { Button } from "./button";
import { Search, Select, Switch } from "./field";
import { LogView, type LogLine } from "./log_view";
import { Menu } from "./menu";
import { ErrorBox, Waiting } from "./page";

const PAGE = 1000;
const KEPT = 20_000; // lines here at most; those at the far end go first
const AROUND = 200; // lines behind one that is jumped to

const LEVELS = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
/** What programs write when something is wrong, whatever level the line has. */
const TROUBLE =
    "[Ee]rror|ERROR|[Ee]xception|Traceback|[Ff]atal|FATAL|[Pp]anic|out of memory|signal [0-9]";

const search = param("q", text());
const level = param("level", text());
const rank = param("rank", text());
const line = param("line", text());

type Wanted = Query & { searchText?: string };

function wanted(): Wanted {
    const from = LEVELS.indexOf(level.value);
    return {
        ...(search.value ? { searchText: search.value } : {}),
        ...(from > 0 ? { levels: LEVELS.slice(from).map((word) => `LOG_LEVEL_${word}`) } : {}),
        ...(rank.value ? { rankIds: rank.value } : {}),
    };
}

function lineOf(row: Row): LogLine {
    return {
        id: row.id,
        time: row.timestamp,
        level: row.level.replace("LOG_LEVEL_", "").toLowerCase() as LogLine["level"],
        text: (row.log ?? row.message).replace(/\n$/, ""),
        ...(row.rankId === undefined ? {} : { rank: row.rankId }),
        ...(row.agentId ? { agent: row.agentId } : {}),
    };
}

/** The lines that are here: always a stretch without gaps of what the filters let through. */
class Stretch {
    readonly lines = signal<readonly LogLine[]>([]);
    readonly error = signal<unknown>(undefined);
    readonly isKnown = signal(false);
    readonly ranks = signal<readonly number[]>([]);
    readonly follows = signal(true);
    hasStart = false;
    hasEnd = false;
    private busy = false;
    private more = false; // new lines came meanwhile
    private abort = new AbortController();

    constructor(private readonly path: string) {}

    stop = (): void => this.abort.abort();

    /** Rows of one call, the oldest first. */
    async read(query: Query): Promise<LogLine[]> {
        const lines: LogLine[] = [];
        const take = (rows: Row[]) => lines.push(...rows.map(lineOf));
        await stream<Row>(this.path, { limit: PAGE, ...query }, take, this.abort.signal);
        return query["orderBy"] === "ORDER_BY_DESC" ? lines.reverse() : lines;
    }

    async begin(at: string): Promise<void> {
        this.stop();
        this.abort = new AbortController();
        this.busy = false;
        await this.guard(async () => {
            const query: Query = { ...wanted(), orderBy: "ORDER_BY_DESC" };
            const last = at ? { before: Number(at) + AROUND } : {};
            const lines = await this.read({ ...query, ...last });
            batch(() => {
                this.hasStart = lines.length < PAGE;
                this.hasEnd = !at;
                this.follows.value = !at;
                this.lines.value = lines;
            });
        });
        this.isKnown.value = true;
    }

    older = (): void => {
        const first = this.lines.peek()[0];
        if (this.hasStart || !first) return;
        void this.guard(async () => {
            const query: Query = {
                ...wanted(),
                orderBy: "ORDER_BY_DESC",
                before: Number(first.id),
            };
            const lines = await this.read(query);
            this.hasStart = lines.length < PAGE;
            const all = [...lines, ...this.lines.peek()];
            if (all.length > KEPT) this.hasEnd = false;
            this.lines.value = all.slice(0, KEPT);
        });
    };

    newer = (): void => {
        if (!this.hasEnd && this.lines.peek().length) this.tail();
    };

    /** New lines have come. */
    tail = (): void => {
        if (this.busy) {
            this.more = true;
            return;
        }
        void this.guard(async () => {
            const last = this.lines.peek().at(-1);
            const lines = await this.read({ ...wanted(), after: Number(last?.id ?? 0) });
            this.hasEnd = lines.length < PAGE;
            if (!lines.length) return;
            const all = [...this.lines.peek(), ...lines];
            if (all.length > KEPT) this.hasStart = false;
            this.lines.value = all.slice(-KEPT);
        });
    };

    /** The nearest line before that tells of trouble; undefined: there is none. */
    async trouble(before: string): Promise<string | undefined> {
        const query: Query = {
            orderBy: "ORDER_BY_DESC",
            limit: 1,
            ...(rank.value ? { rankIds: rank.value } : {}),
        };
        if (before) query["before"] = Number(before);
        const found = await Promise.all([
            this.read({ ...query, levels: ["LOG_LEVEL_ERROR", "LOG_LEVEL_CRITICAL"] }),
            this.read({ ...query, searchText: TROUBLE, enableRegex: true }),
        ]);
        const ids = found.flat().map((one) => Number(one.id));
        return ids.length ? String(Math.max(...ids)) : undefined;
    }

    async readRanks(): Promise<void> {
        try {
            await stream<{ rankIds: number[] }>(
                `${this.path}/fields`,
                {},
                ([fields]) => (this.ranks.value = fields!.rankIds),
                this.abort.signal,
            );
        } catch {
            // Then there is no choice of ranks; the lines are there all the same.
        }
    }

    private async guard(work: () => Promise<void>): Promise<void> {
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
        if (this.more) {
            this.more = false;
            this.tail();
        }
    }
}

export function TaskLog({ trialId, height }: { trialId: number; height?: number }) {
    const path = `/trials/${trialId}/logs`;
    const log = useMemo(() => new Stretch(path), [path]);
    const question = JSON.stringify(wanted());
    const isSeeking = useSignal(false);
    useEffect(() => {
        const end = follow({ topics: ["logs"], trialId }, () => log.hasEnd && log.tail(), log.tail);
        void log.readRanks();
        return () => {
            end();
            log.stop();
        };
    }, [log]);
    useEffect(() => void log.begin(line.peek()), [log, question]);

    const seek = async (before: string) => {
        isSeeking.value = true;
        try {
            const id = await log.trouble(before);
            if (id === undefined) {
                toast(before ? "No error before this line." : "No line looks like an error.");
                return;
            }
            batch(() => {
                search.value = "";
                level.value = "";
                line.value = id;
            });
            await log.begin(id);
        } catch (error) {
            toastError(error);
        } finally {
            isSeeking.value = false;
        }
    };
    const toEnd = () => {
        line.value = "";
        void log.begin("");
    };
    const filters = { ...wanted() };
    return (
        <div class="stack">
            <div class="line">
                <Search at={search} label="Search the log" />
                <Select
                    label="Level"
                    at={level}
                    options={[
                        { value: "", title: "all" },
                        { value: "INFO", title: "info and worse" },
                        { value: "WARNING", title: "warnings and errors" },
                        { value: "ERROR", title: "errors" },
                    ]}
                />
                {log.ranks.value.length > 1 && (
                    <Select
                        label="Rank"
                        at={rank}
                        options={[
                            { value: "", title: "all" },
                            ...log.ranks.value.map((one) => ({
                                value: String(one),
                                title: String(one),
                            })),
                        ]}
                    />
                )}
                <Button
                    icon="warning"
                    disabled={isSeeking.value}
                    onClick={() => void seek(line.value)}
                >
                    {line.value ? "Error before" : "Last error"}
                </Button>
                <Switch
                    label="Follow"
                    at={{
                        get value() {
                            return log.follows.value;
                        },
                        set value(on) {
                            if (on) toEnd();
                            else log.follows.value = false;
                        },
                    }}
                />
                <Menu
                    label="Take the log along"
                    icon="download"
                    items={[
                        {
                            name: "Open as lines of JSON",
                            href: link(path, filters),
                            download: `trial-${trialId}.log.json`,
                        },
                        {
                            name: "Copy as a command",
                            call: {
                                method: "GET",
                                path,
                                muster: [
                                    "trial",
                                    "logs",
                                    trialId,
                                    ...(rank.value ? ["--rank", rank.value] : []),
                                ],
                            },
                        },
                    ]}
                />
            </div>
            {log.error.value !== undefined && <ErrorBox error={log.error.value} retry={log.tail} />}
            {log.isKnown.value ? (
                <LogView
                    label={`Log of trial ${trialId}`}
                    lines={log.lines}
                    search={search.value}
                    onStart={log.older}
                    onEnd={log.newer}
                    at={line.value || undefined}
                    follow={log.follows}
                    height={height ?? Math.max(280, innerHeight - 420)}
                    empty={
                        <p class="muted log-empty">
                            {question === "{}" ? "It has written nothing yet." : "No line fits."}
                        </p>
                    }
                />
            ) : (
                <Waiting />
            )}
        </div>
    );
}
