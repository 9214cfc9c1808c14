// Lines of a log, of which only those on the screen are in the document. Who uses it gets the lines
// and says which are shown; this draws them, tells when one comes near their ends, and follows new
// ones as long as one stands at the foot.

import { type ReadonlySignal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import "./log_view.css";

export interface LogLine {
    id: string;
    /** ISO. */
    time: string;
    level: "trace" | "debug" | "info" | "warning" | "error" | "critical";
    text: string;
    rank?: number;
    agent?: string;
}

export interface LogViewProps {
    label: string;
    lines: ReadonlySignal<readonly LogLine[]>;
    /** Marked in the texts. */
    search?: string;
    /** One is near the first line, or the last: there may be more. */
    onStart?: () => void;
    onEnd?: () => void;
    /** The line to go to, by its id, whenever it changes. */
    at?: string | undefined;
    /** Stays at the foot as lines come; set to false when one scrolls up. */
    follow?: { value: boolean };
    empty?: ComponentChildren;
    height?: number;
}

const ROW = 20;
const AROUND = 30;
const NEAR = 100; // rows from an end

const words = { trace: "TRACE", debug: "DEBUG", info: "", warning: "WARN", error: "ERROR", critical: "CRIT" };

/** The text with what was searched for in <mark>. */
function marked(text: string, search: string): ComponentChildren {
    if (!search) return text;
    const low = text.toLowerCase();
    const wanted = search.toLowerCase();
    const parts: ComponentChildren[] = [];
    let from = 0;
    for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, from)) {
        parts.push(text.slice(from, at), <mark>{text.slice(at, at + wanted.length)}</mark>);
        from = at + wanted.length;
    }
    return [...parts, text.slice(from)];
}

function Line({ line, search, isAt, top }: {
    line: LogLine;
    search: string;
    isAt: boolean;
    top: number;
}) {
    return (
        <div
            class={`log-line log-${line.level}${isAt ? " log-at" : ""}`}
            style={{ top: `${top}px` }}
            role="listitem"
        >
            <span class="log-time">{line.time.slice(11, 23)}</span>
            {line.rank !== undefined && <span class="log-rank">[{line.rank}]</span>}
            {words[line.level] && <span class="log-level">{words[line.level]}</span>}
            <span class="log-text">{marked(line.text, search)}</span>
        </div>
    );
}

export function LogView(props: LogViewProps) {
    const box = useRef<HTMLDivElement>(null);
    const span = useSignal({ from: 0, to: 100 });
    const first = useRef<string | undefined>(undefined);
    const lines = props.lines.value;
    const look = () => {
        if (!box.current) return;
        const { scrollTop, clientHeight } = box.current;
        const from = Math.max(0, Math.floor(scrollTop / ROW / 10) * 10 - AROUND);
        const to = Math.ceil((scrollTop + clientHeight) / ROW / 10) * 10 + AROUND;
        if (span.peek().from !== from || span.peek().to !== to) span.value = { from, to };
        if (from < NEAR) props.onStart?.();
        if (to > props.lines.peek().length - NEAR) props.onEnd?.();
    };
    const onScroll = () => {
        const { scrollTop, clientHeight, scrollHeight } = box.current!;
        const isFoot = scrollTop + clientHeight >= scrollHeight - ROW;
        if (props.follow && props.follow.value !== isFoot) props.follow.value = isFoot;
        look();
    };
    // Lines that come before the others push them down: one stays with those one reads.
    useLayoutEffect(() => {
        const was = first.current;
        first.current = lines[0]?.id;
        if (props.follow?.value) box.current!.scrollTop = lines.length * ROW;
        else if (was !== undefined && was !== first.current) {
            const moved = lines.findIndex((line) => line.id === was);
            if (moved > 0) box.current!.scrollTop += moved * ROW;
        }
        look();
    }, [lines]);
    useEffect(() => {
        const place = lines.findIndex((line) => line.id === props.at);
        if (place < 0) return;
        box.current!.scrollTop = place * ROW - box.current!.clientHeight / 3;
    }, [props.at]);
    const { from, to } = span.value;
    return (
        <div
            ref={box}
            class="log"
            style={{ height: `${props.height ?? 480}px` }}
            tabIndex={0}
            role="log"
            aria-label={props.label}
            aria-live="off"
            onScroll={onScroll}
        >
            <div role="list" class="log-all" style={{ height: `${lines.length * ROW}px` }}>
                {lines.slice(from, to).map((line, i) => (
                    <Line
                        key={line.id}
                        line={line}
                        search={props.search ?? ""}
                        isAt={line.id === props.at}
                        top={(from + i) * ROW}
                    />
                ))}
            </div>
            {lines.length === 0 && props.empty}
        </div>
    );
}
