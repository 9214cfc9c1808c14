// A line of the filter language: what may follow is offered as one types, and where the master found
// a fault is shown below. It counts once Enter is pressed or the focus leaves.

import { useSignal } from "@preact/signals";
import { useEffect, useId, useRef } from "preact/hooks";
import { ApiError } from "../lib/api";
import { complete, faultColumn, type FilterField, type Suggestion } from "../lib/filter";
import type { At } from "./field";
import { Icon } from "./icon";
import "./filter_input.css";

/** Whether an error is about what was written here, which then shows it. */
export function isFault(error: unknown): error is ApiError {
    return error instanceof ApiError && error.status === 400;
}

function Fault({ text, error }: { text: string; error: unknown }) {
    if (!isFault(error)) return null;
    const column = faultColumn(error.message);
    return (
        <div class="fault" role="alert">
            {column !== undefined && (
                <code class="fault-place">
                    {text.slice(0, column)}
                    <mark>{text.slice(column) || " "}</mark>
                </code>
            )}
            <span class="bad">{error.message}</span>
        </div>
    );
}

export function FilterInput(props: {
    label: string;
    at: At<string>;
    fields: readonly FilterField[];
    error?: unknown;
}) {
    const { at, fields } = props;
    const input = useRef<HTMLInputElement>(null);
    const id = useId();
    const typed = useSignal(at.value);
    const caret = useSignal(0);
    const isOpen = useSignal(false);
    const chosen = useSignal(-1);
    useEffect(() => void (typed.value = at.value), [at.value]);

    const found = isOpen.value ? complete(fields, typed.value, caret.value) : undefined;
    const list = found?.suggestions ?? [];
    const look = () => {
        typed.value = input.current!.value;
        caret.value = input.current!.selectionStart ?? typed.value.length;
        chosen.value = -1;
        isOpen.value = true;
    };
    const apply = () => {
        isOpen.value = false;
        at.value = typed.value.trim();
    };
    const take = (one: Suggestion) => {
        if (!found) return;
        const before = typed.value.slice(0, found.from) + one.text;
        const rest = typed.value.slice(found.to).replace(/^ ?/, " ");
        input.current!.value = before + rest;
        input.current!.setSelectionRange(before.length + 1, before.length + 1);
        look();
    };
    const onKey = (event: KeyboardEvent) => {
        const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
        const one = list[chosen.value];
        if (step && list.length) {
            chosen.value = (chosen.value + step + list.length) % list.length;
        } else if (event.key === "Enter") {
            if (one) take(one);
            else apply();
        } else if (event.key === "Tab" && list.length && !event.shiftKey && typed.value) {
            take(one ?? list[0]!);
        } else if (event.key === "Escape" && isOpen.value) {
            isOpen.value = false;
        } else {
            return;
        }
        event.preventDefault();
    };
    return (
        <div class="filter">
            <div class="search">
                <Icon name="filter" />
                <input
                    ref={input}
                    class="input mono"
                    spellcheck={false}
                    autocomplete="off"
                    data-search
                    role="combobox"
                    aria-label={props.label}
                    aria-expanded={list.length > 0}
                    aria-controls={id}
                    aria-autocomplete="list"
                    aria-activedescendant={chosen.value >= 0 ? `${id}-${chosen.value}` : undefined}
                    placeholder="state = RUNNING and validation.loss < 0.3"
                    value={typed.value}
                    onInput={look}
                    onClick={look}
                    onFocus={look}
                    onKeyDown={onKey}
                    onBlur={apply}
                />
            </div>
            <ul id={id} class="filter-list" role="listbox" aria-label="What may follow">
                {list.map((one, i) => (
                    <li
                        key={one.text}
                        id={`${id}-${i}`}
                        class="filter-line"
                        role="option"
                        aria-selected={i === chosen.value}
                        onMouseDown={(event) => {
                            event.preventDefault();
                            take(one);
                        }}
                    >
                        <code>{one.text}</code>
                        <span class="muted cut">{one.help}</span>
                    </li>
                ))}
            </ul>
            <Fault text={at.value} error={props.error} />
        </div>
    );
}
