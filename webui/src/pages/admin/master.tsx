// The cluster message, and the log of the master.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { runAction } from "../../lib/actions";
import { get, send, sleep, streamLines } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { whileVisible } from "../../lib/events/visibility";
import type { ClusterMessage, LogEntry } from "../../lib/types";
import { flag, queryParam, text } from "../../lib/url";
import {
    Button, Empty, ErrorBox, Field, FormDialog, Loaded, Search, Select, Switch, TextArea, Time,
} from "../../parts";
import { type LogLine, LogView } from "../../parts/log/log_view";
import { searchText } from "./list_table";

// --- the cluster message -------------------------------------------------------------------------

const durations = [
    { value: "", title: "until removed" },
    { value: "1h", title: "1 hour" },
    { value: "4h", title: "4 hours" },
    { value: "24h", title: "1 day" },
    { value: "168h", title: "1 week" },
];

function MessageForm({ before, onClose }: { before: string; onClose: () => void }) {
    const message = useSignal(before);
    const duration = useSignal("");
    const submit = async () => {
        const ends = duration.value ? { duration: duration.value } : {};
        await send("PUT", "/master/cluster_message", { message: message.value.trim(), ...ends });
    };
    return (
        <FormDialog title="Message to all users" submitLabel="Publish" doneText="Message published" onClose={onClose} submit={submit}>
            <Field label="Message">
                <TextArea bind={message} rows={3} />
            </Field>
            <Field label="Show for">
                <Select label="Time" hidesLabel bind={duration} options={durations} />
            </Field>
        </FormDialog>
    );
}

export function ClusterMessageTab() {
    const editing = useSignal(false);
    const load = useLoad((abort) =>
        get<{ clusterMessage?: ClusterMessage | null }>("/master/cluster_message", {}, abort), {
        topics: ["audit"],
        auditObjects: ["master"],
    });
    const remove = async () => {
        const call = {
            method: "DELETE" as const,
            path: "/master/cluster_message",
            muster: ["master", "message", "clear"],
        };
        if (await runAction({ name: "Remove the message", call, danger: "It disappears for all users." })) load.reload();
    };
    const message = load.data.value?.clusterMessage?.message ?? "";
    return (
        <>
            <Loaded load={load}>
                {({ clusterMessage: shown }) =>
                    shown?.message ? (
                        <section class="card stack" aria-label="Current message">
                            <p class="notes">{shown.message}</p>
                            <p class="muted">
                                From <Time at={shown.startTime} />
                                {shown.endTime && (
                                    <>
                                        {" "}
                                        to <Time at={shown.endTime} />
                                    </>
                                )}
                            </p>
                            <div class="line">
                                <Button onClick={() => (editing.value = true)}>Edit</Button>
                                <Button kind="danger" onClick={remove}>
                                    Remove
                                </Button>
                            </div>
                        </section>
                    ) : (
                        <Empty title="No message" icon="bookmark">
                            <p>A message is shown to all users, on this page and on the command line.</p>
                            <Button icon="plus" onClick={() => (editing.value = true)}>
                                New message
                            </Button>
                        </Empty>
                    )
                }
            </Loaded>
            {editing.value && (
                <MessageForm
                    before={message}
                    onClose={() => {
                        editing.value = false;
                        load.reload();
                    }}
                />
            )}
        </>
    );
}

// --- the log -------------------------------------------------------------------------------------

const MAX_LINES = 20_000;
const RETRY_S = 3;
const levels = ["trace", "debug", "info", "warning", "error", "critical"] as const;
const minLevel = queryParam("level", text("info"));
const following = queryParam("follow", flag(true));

/** msg="master is up" version=0.1.0 -> master is up version=0.1.0 */
function withoutKey(message: string): string {
    return message.replace(/^msg=(?:"((?:[^"\\]|\\.)*)"|(\S+))/, (_, quoted?: string, bare?: string) => quoted ?? bare ?? "");
}

function toLogLine(entry: LogEntry): LogLine {
    const word = entry.level.replace("LOG_LEVEL_", "").toLowerCase();
    const level = levels.find((one) => one === word) ?? "info";
    return { id: String(entry.id), time: entry.timestamp, level, text: withoutKey(entry.message) };
}

/** Reads the log from its beginning, and again after the connection was lost. */
async function followLog(
    onEntries: (found: { logEntry: LogEntry }[]) => void,
    abort: AbortSignal,
    onBroken: (error: unknown) => void,
): Promise<void> {
    while (!abort.aborted) {
        onBroken(undefined);
        try {
            await streamLines("/master/logs", { follow: true }, onEntries, abort);
        } catch (error) {
            if (abort.aborted) return;
            onBroken(error);
        }
        await sleep(RETRY_S, abort).catch(() => undefined);
    }
}

export function MasterLog() {
    const all = useSignal<readonly LogLine[]>([]);
    const error = useSignal<unknown>(undefined);
    useEffect(() => {
        const take = (found: { logEntry: LogEntry }[]) => {
            const lines = found.map((one) => toLogLine(one.logEntry));
            all.value = [...all.peek(), ...lines].slice(-MAX_LINES);
        };
        const broke = (failure: unknown) => {
            error.value = failure;
            all.value = failure ? all.peek() : [];
        };
        return whileVisible((abort) => void followLog(take, abort, broke)); // a hidden page must not keep a connection
    }, []);
    const lines = useComputed(() => {
        const from = levels.findIndex((one) => one === minLevel.value);
        const letters = searchText.value.toLowerCase();
        return all.value.filter(
            (line) => levels.indexOf(line.level) >= from && line.text.toLowerCase().includes(letters),
        );
    });
    return (
        <>
            <div class="line">
                <Search bind={searchText} label="Search the log" />
                <Select label="Minimum level" bind={minLevel} options={levels} />
                <Switch label="Follow" bind={following} />
            </div>
            {error.value !== undefined && <ErrorBox error={error.value} />}
            <LogView
                label="Master log"
                lines={lines}
                search={searchText.value}
                follow={following}
                height={640}
                empty={<p class="admin-empty muted">No lines match.</p>}
            />
        </>
    );
}
