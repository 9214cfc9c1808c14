// A field for configurations: lines with numbers, and what is wrong beside them. Tab indents by two
// as long as one has typed something; Esc, then Tab, leaves.

import { useRef } from "preact/hooks";
import type { Mark } from "../lib/marks";
import type { At } from "./field";
import "./editor.css";

export function Editor(props: {
    at: At<string>;
    label: string;
    marks?: readonly Mark[];
    rows?: number;
}) {
    const { at, label, marks = [], rows = 22 } = props;
    const gutter = useRef<HTMLDivElement>(null);
    const leaves = useRef(true);
    const lines = at.value.split("\n").length;
    const onKey = (event: KeyboardEvent) => {
        if (event.key === "Escape" && !leaves.current) {
            leaves.current = true;
            event.preventDefault();
            event.stopPropagation();
            return;
        }
        if (event.key !== "Tab" || leaves.current || event.shiftKey) {
            if (event.key.length === 1 || event.key === "Enter") leaves.current = false;
            return;
        }
        event.preventDefault();
        document.execCommand("insertText", false, "  ");
    };
    return (
        <div class="editor" style={{ "--rows": rows }}>
            <div ref={gutter} class="editor-gutter" aria-hidden="true">
                {Array.from({ length: lines }, (_, i) => (
                    <div
                        key={i}
                        class={
                            marks.some((mark) => mark.line === i + 1) ? "editor-wrong" : undefined
                        }
                    >
                        {i + 1}
                    </div>
                ))}
            </div>
            <textarea
                class="editor-text"
                aria-label={label}
                aria-invalid={marks.length > 0}
                spellcheck={false}
                autocapitalize="off"
                autocomplete="off"
                wrap="off"
                rows={rows}
                value={at.value}
                onInput={(event) => (at.value = event.currentTarget.value)}
                onKeyDown={onKey}
                onScroll={(event) => (gutter.current!.scrollTop = event.currentTarget.scrollTop)}
            />
        </div>
    );
}
