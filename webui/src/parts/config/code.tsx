// Views of configurations: with line numbers and diagnostics, and as the difference of two.

import type { ComponentChildren } from "preact";
import { diffLines } from "../../lib/config/diff";
import type { Diagnostic } from "../../lib/config/diagnostics";
import "./code.css";

/** Highlights a line of YAML or JSON: key, text, number, comment. */
function highlightLine(line: string): ComponentChildren {
    const found = /^(\s*(?:- )?)("[^"]*"|[\w.$/-]+)(:)(\s.*|$)/.exec(line);
    const [lead, key, colon, rest] = found
        ? [found[1]!, found[2]!, found[3]!, found[4]!]
        : ["", "", "", line];
    const kind = /^\s*#/.test(rest)
        ? "code-comment"
        : /^\s*-?\d/.test(rest)
          ? "code-number"
          : found
            ? "code-text"
            : undefined;
    return (
        <>
            {lead}
            {key && <span class="code-key">{key}</span>}
            {colon}
            {kind ? <span class={kind}>{rest}</span> : rest}
        </>
    );
}

export function Code(props: { text: string; label: string; diagnostics?: readonly Diagnostic[] }) {
    const lines = props.text.replace(/\n$/, "").split("\n");
    return (
        <div class="code" role="region" aria-label={props.label} tabIndex={0}>
            <table class="code-table" role="presentation">
                <tbody>
                    {lines.map((line, i) => {
                        const diagnostic = props.diagnostics?.find((one) => one.line === i + 1);
                        return (
                            <tr key={i} class={diagnostic && "code-error"}>
                                <td class="code-line-number" data-line={i + 1} />
                                <td class="code-line">
                                    {highlightLine(line)}
                                    {diagnostic && <div class="bad">{diagnostic.message}</div>}
                                </td>
                            </tr>
                        );
                    })}
                </tbody>
            </table>
        </div>
    );
}

const CONTEXT_LINES = 3; // lines shown around a difference
const signs = { same: " ", removed: "−", added: "+" };

/** The changed lines, with some lines around them. */
export function Diff(props: { before: string; after: string; label: string; showsAll?: boolean }) {
    const lines = diffLines(props.before, props.after);
    const isNear = lines.map((_, i) =>
        lines.slice(Math.max(0, i - CONTEXT_LINES), i + CONTEXT_LINES + 1).some((line) => line.kind !== "same"),
    );
    if (!isNear.some(Boolean)) return <p class="muted">No differences.</p>;
    return (
        <div class="code" role="region" aria-label={props.label} tabIndex={0}>
            <table class="code-table" role="presentation">
                <tbody>
                    {lines.map((line, i) => {
                        if (!props.showsAll && !isNear[i])
                            return isNear[i - 1] ? (
                                <tr key={i} class="code-omitted">
                                    <td colSpan={4}>…</td>
                                </tr>
                            ) : null;
                        return (
                            <tr key={i} class={`code-${line.kind}`}>
                                <td class="code-line-number" data-line={line.before || ""} />
                                <td class="code-line-number" data-line={line.after || ""} />
                                <td class="code-sign">
                                    {signs[line.kind]}
                                    {line.kind !== "same" && (
                                        <span class="hidden">{line.kind} </span>
                                    )}
                                </td>
                                <td class="code-line">{highlightLine(line.text)}</td>
                            </tr>
                        );
                    })}
                </tbody>
            </table>
        </div>
    );
}
