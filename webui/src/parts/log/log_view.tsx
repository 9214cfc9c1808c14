// A view of log lines. Only the visible lines are in the document. The caller provides the lines; the view
// reports when the user scrolls near their ends, and follows new lines while it is scrolled to the end.

import { type ReadonlySignal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import "./log_view.css";

export interface LogLine {
    id: string;
    /** In ISO 8601. */
    time: string;
    level: "trace" | "debug" | "info" | "warning" | "error" | "critical";
    text: string;
    rank?: number;
    agent?: string;
}

export interface LogViewProps {
    label: string;
    lines: ReadonlySignal<readonly LogLine[]>;
    /** The text to highlight. */
    search?: string;
    /** The user scrolls near the first or the last line, so more lines may be needed. */
    onStart?: () => void;
    onEnd?: () => void;
    /** The id of the line to scroll to, whenever it changes. */
    targetId?: string | undefined;
    /** Keeps the view at the end while lines arrive. Scrolling up sets it to false. */
    follow?: { value: boolean };
    empty?: ComponentChildren;
    height?: number;
}

const ROW_HEIGHT = 20;
const OVERSCAN = 30;
const LOAD_MARGIN = 100; // rows from an end at which more lines are requested

const levelNames = { trace: "TRACE", debug: "DEBUG", info: "", warning: "WARN", error: "ERROR", critical: "CRIT" };

/** The text with the matches of the search in <mark>. */
function highlightMatches(text: string, search: string): ComponentChildren {
    if (!search) return text;
    const lower = text.toLowerCase();
    const pattern = search.toLowerCase();
    const parts: ComponentChildren[] = [];
    let from = 0;
    for (let at = lower.indexOf(pattern); at >= 0; at = lower.indexOf(pattern, from)) {
        parts.push(text.slice(from, at), <mark>{text.slice(at, at + pattern.length)}</mark>);
        from = at + pattern.length;
    }
    return [...parts, text.slice(from)];
}

function LogRow({ line, search, isTarget, top }: {
    line: LogLine;
    search: string;
    isTarget: boolean;
    top: number;
}) {
    return (
        <div
            class={`log-line log-${line.level}${isTarget ? " log-target" : ""}`}
            style={{ top: `${top}px` }}
            role="listitem"
        >
            <span class="log-time">{line.time.slice(11, 23)}</span>
            {line.rank !== undefined && <span class="log-rank">[{line.rank}]</span>}
            {levelNames[line.level] && <span class="log-level">{levelNames[line.level]}</span>}
            <span class="log-text">{highlightMatches(line.text, search)}</span>
        </div>
    );
}

export function LogView(props: LogViewProps) {
    const box = useRef<HTMLDivElement>(null);
    const span = useSignal({ from: 0, to: 100 });
    const firstId = useRef<string | undefined>(undefined);
    const lines = props.lines.value;
    const update = () => {
        if (!box.current) return;
        const { scrollTop, clientHeight } = box.current;
        const from = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT / 10) * 10 - OVERSCAN);
        const to = Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT / 10) * 10 + OVERSCAN;
        if (span.peek().from !== from || span.peek().to !== to) span.value = { from, to };
        if (from < LOAD_MARGIN) props.onStart?.();
        if (to > props.lines.peek().length - LOAD_MARGIN) props.onEnd?.();
    };
    const onScroll = () => {
        const { scrollTop, clientHeight, scrollHeight } = box.current!;
        const isFoot = scrollTop + clientHeight >= scrollHeight - ROW_HEIGHT;
        if (props.follow && props.follow.value !== isFoot) props.follow.value = isFoot;
        update();
    };
    // Lines added at the start push the others down. The scroll position follows them.
    useLayoutEffect(() => {
        const before = firstId.current;
        firstId.current = lines[0]?.id;
        if (props.follow?.value) box.current!.scrollTop = lines.length * ROW_HEIGHT;
        else if (before !== undefined && before !== firstId.current) {
            const moved = lines.findIndex((line) => line.id === before);
            if (moved > 0) box.current!.scrollTop += moved * ROW_HEIGHT;
        }
        update();
    }, [lines]);
    useEffect(() => {
        const place = lines.findIndex((line) => line.id === props.targetId);
        if (place < 0) return;
        box.current!.scrollTop = place * ROW_HEIGHT - box.current!.clientHeight / 3;
    }, [props.targetId]);
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
            <div role="list" class="log-all" style={{ height: `${lines.length * ROW_HEIGHT}px` }}>
                {lines.slice(from, to).map((line, i) => (
                    <LogRow
                        key={line.id}
                        line={line}
                        search={props.search ?? ""}
                        isTarget={line.id === props.targetId}
                        top={(from + i) * ROW_HEIGHT}
                    />
                ))}
            </div>
            {lines.length === 0 && props.empty}
        </div>
    );
}
