// A text editor for configurations, with line numbers and marks at lines with errors. After typing, Tab indents
// by two spaces; Esc makes Tab leave the editor again.

import { useRef } from "preact/hooks";
import type { Diagnostic } from "../../lib/config/diagnostics";
import type { Binding } from "../form/field";
import "./editor.css";

export function Editor(props: {
    bind: Binding<string>;
    label: string;
    diagnostics?: readonly Diagnostic[];
    rows?: number;
}) {
    const { bind, label, diagnostics = [], rows = 22 } = props;
    const gutter = useRef<HTMLDivElement>(null);
    const tabLeaves = useRef(true);
    const lines = bind.value.split("\n").length;
    const onKey = (event: KeyboardEvent) => {
        if (event.key === "Escape" && !tabLeaves.current) {
            tabLeaves.current = true;
            event.preventDefault();
            event.stopPropagation();
            return;
        }
        if (event.key !== "Tab" || tabLeaves.current || event.shiftKey) {
            if (event.key.length === 1 || event.key === "Enter") tabLeaves.current = false;
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
                            diagnostics.some((mark) => mark.line === i + 1) ? "editor-error" : undefined
                        }
                    >
                        {i + 1}
                    </div>
                ))}
            </div>
            <textarea
                class="editor-text"
                aria-label={label}
                aria-invalid={diagnostics.length > 0}
                spellcheck={false}
                autocapitalize="off"
                autocomplete="off"
                wrap="off"
                rows={rows}
                value={bind.value}
                onInput={(event) => (bind.value = event.currentTarget.value)}
                onKeyDown={onKey}
                onScroll={(event) => (gutter.current!.scrollTop = event.currentTarget.scrollTop)}
            />
        </div>
    );
}
