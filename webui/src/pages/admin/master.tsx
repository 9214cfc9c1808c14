// The notice to all users, and the master's own log.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { act } from "../../lib/actions";
import { get, send, sleep, stream } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { whileSeen } from "../../lib/seen";
import type { ClusterMessage, LogEntry } from "../../lib/types";
import { flag, param, text } from "../../lib/url";
import { Button, Empty, ErrorBox, Field, FormDialog, Loaded, Search, Select, Switch, TextArea, Time } from "../../parts";
import { type LogLine, LogView } from "../../parts/log_view";
import { find } from "./list";

// --- the notice ----------------------------------------------------------------------------------

const lasts = [
    { value: "", title: "until it is removed" },
    { value: "1h", title: "an hour" },
    { value: "4h", title: "4 hours" },
    { value: "24h", title: "a day" },
    { value: "168h", title: "a week" },
];

function NoticeForm({ before, onClose }: { before: string; onClose: () => void }) {
    const message = useSignal(before);
    const life = useSignal("");
    const submit = async () => {
        const ends = life.value ? { duration: life.value } : {};
        await send("PUT", "/master/cluster_message", { message: message.value.trim(), ...ends });
    };
    return (
        <FormDialog title="Notice to all users" verb="Show it" done="It is shown" onClose={onClose} submit={submit}>
            <Field label="Notice">
                <TextArea at={message} rows={3} />
            </Field>
            <Field label="Shown for">
                <Select label="Time" quiet at={life} options={lasts} />
            </Field>
        </FormDialog>
    );
}

export function Notice() {
    const editing = useSignal(false);
    const load = useLoad((abort) =>
        get<{ clusterMessage?: ClusterMessage | null }>("/master/cluster_message", {}, abort), {
        topics: ["audit"],
        of: ["master"],
    });
    const remove = async () => {
        const call = {
            method: "DELETE" as const,
            path: "/master/cluster_message",
            muster: ["master", "message", "clear"],
        };
        if (await act({ name: "Remove the notice", call, danger: "Nobody sees it any more." })) load.reload();
    };
    const message = load.data.value?.clusterMessage?.message ?? "";
    return (
        <>
            <Loaded of={load}>
                {({ clusterMessage: shown }) =>
                    shown?.message ? (
                        <section class="card stack" aria-label="The present notice">
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
                                <Button onClick={() => (editing.value = true)}>Change it</Button>
                                <Button kind="danger" onClick={remove}>
                                    Remove it
                                </Button>
                            </div>
                        </section>
                    ) : (
                        <Empty title="No notice" icon="bookmark">
                            <p>A notice is shown to everybody, here and on the command line.</p>
                            <Button icon="plus" onClick={() => (editing.value = true)}>
                                New notice
                            </Button>
                        </Empty>
                    )
                }
            </Loaded>
            {editing.value && (
                <NoticeForm
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

const KEPT = 20_000;
const RETRY_S = 3;
const levels = ["trace", "debug", "info", "warning", "error", "critical"] as const;
const least = param("level", text("info"));
const following = param("follow", flag(true));

/** msg="master is up" version=0.1.0 -> master is up version=0.1.0 */
function plain(message: string): string {
    return message.replace(/^msg=(?:"((?:[^"\\]|\\.)*)"|(\S+))/, (_, quoted?: string, bare?: string) => quoted ?? bare ?? "");
}

function lineOf(entry: LogEntry): LogLine {
    const word = entry.level.replace("LOG_LEVEL_", "").toLowerCase();
    const level = levels.find((one) => one === word) ?? "info";
    return { id: String(entry.id), time: entry.timestamp, level, text: plain(entry.message) };
}

/** Reads the log from its beginning, and again when the master was away. */
async function readOn(
    take: (found: { logEntry: LogEntry }[]) => void,
    abort: AbortSignal,
    broke: (error: unknown) => void,
): Promise<void> {
    while (!abort.aborted) {
        broke(undefined);
        try {
            await stream("/master/logs", { follow: true }, take, abort);
        } catch (error) {
            if (abort.aborted) return;
            broke(error);
        }
        await sleep(RETRY_S, abort).catch(() => undefined);
    }
}

export function Log() {
    const all = useSignal<readonly LogLine[]>([]);
    const error = useSignal<unknown>(undefined);
    useEffect(() => {
        const take = (found: { logEntry: LogEntry }[]) => {
            const lines = found.map((one) => lineOf(one.logEntry));
            all.value = [...all.peek(), ...lines].slice(-KEPT);
        };
        const broke = (failure: unknown) => {
            error.value = failure;
            all.value = failure ? all.peek() : [];
        };
        return whileSeen((abort) => void readOn(take, abort, broke)); // it takes a connection
    }, []);
    const lines = useComputed(() => {
        const from = levels.findIndex((one) => one === least.value);
        const letters = find.value.toLowerCase();
        return all.value.filter(
            (line) => levels.indexOf(line.level) >= from && line.text.toLowerCase().includes(letters),
        );
    });
    return (
        <>
            <div class="line">
                <Search at={find} label="Lines with" />
                <Select label="From level" at={least} options={levels} />
                <Switch label="Follow" at={following} />
            </div>
            {error.value !== undefined && <ErrorBox error={error.value} />}
            <LogView
                label="The master's log"
                lines={lines}
                search={find.value}
                follow={following}
                height={640}
                empty={<p class="admin-none muted">No lines like this.</p>}
            />
        </>
    );
}
