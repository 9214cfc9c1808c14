// Configurations: with numbers of lines, what is wrong with them, and what differs between two.

import type { ComponentChildren } from "preact";
import { diffLines } from "../lib/diff";
import type { Mark } from "../lib/marks";
import "./code.css";

/** A line of YAML or JSON in the parts that a reader looks for: key, text, number, comment. */
function painted(line: string): ComponentChildren {
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

export function Code(props: { text: string; label: string; marks?: readonly Mark[] }) {
    const lines = props.text.replace(/\n$/, "").split("\n");
    return (
        <div class="code" role="region" aria-label={props.label} tabIndex={0}>
            <table class="code-table" role="presentation">
                <tbody>
                    {lines.map((line, i) => {
                        const mark = props.marks?.find((one) => one.line === i + 1);
                        return (
                            <tr key={i} class={mark && "code-marked"}>
                                <td class="code-number-of" data-line={i + 1} />
                                <td class="code-line">
                                    {painted(line)}
                                    {mark && <div class="bad">{mark.message}</div>}
                                </td>
                            </tr>
                        );
                    })}
                </tbody>
            </table>
        </div>
    );
}

const KEPT = 3; // lines around a difference
const signs = { same: " ", gone: "−", new: "+" };

/** What differs, with some lines around it. */
export function Diff(props: { before: string; after: string; label: string; whole?: boolean }) {
    const lines = diffLines(props.before, props.after);
    const isNear = lines.map((_, i) =>
        lines.slice(Math.max(0, i - KEPT), i + KEPT + 1).some((line) => line.kind !== "same"),
    );
    if (!isNear.some(Boolean)) return <p class="muted">They are the same.</p>;
    return (
        <div class="code" role="region" aria-label={props.label} tabIndex={0}>
            <table class="code-table" role="presentation">
                <tbody>
                    {lines.map((line, i) => {
                        if (!props.whole && !isNear[i])
                            return isNear[i - 1] ? (
                                <tr key={i} class="code-cut">
                                    <td colSpan={4}>…</td>
                                </tr>
                            ) : null;
                        return (
                            <tr key={i} class={`code-${line.kind}`}>
                                <td class="code-number-of" data-line={line.before || ""} />
                                <td class="code-number-of" data-line={line.after || ""} />
                                <td class="code-sign">
                                    {signs[line.kind]}
                                    {line.kind !== "same" && (
                                        <span class="hidden">{line.kind} </span>
                                    )}
                                </td>
                                <td class="code-line">{painted(line.text)}</td>
                            </tr>
                        );
                    })}
                </tbody>
            </table>
        </div>
    );
}
