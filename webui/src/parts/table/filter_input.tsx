// An input for the filter language, with completion. It applies the filter on Enter and when it loses the focus.
// An error that the master finds is shown below, marked at its position.

import { useSignal } from "@preact/signals";
import { useEffect, useId, useRef } from "preact/hooks";
import { ApiError } from "../../lib/api";
import { complete, errorColumn, type FilterField, type Suggestion } from "../../lib/filter";
import type { Binding } from "../form/field";
import { Icon } from "../basic/icon";
import "./filter_input.css";

/** Returns whether an error is about the filter itself. The input shows such an error, so the table need not. */
export function isFilterError(error: unknown): error is ApiError {
    return error instanceof ApiError && error.status === 400;
}

function FilterError({ text, error }: { text: string; error: unknown }) {
    if (!isFilterError(error)) return null;
    const column = errorColumn(error.message);
    return (
        <div class="filter-error" role="alert">
            {column !== undefined && (
                <code class="filter-error-text">
                    {text.slice(0, column)}
                    <mark>{text.slice(column) || " "}</mark>
                </code>
            )}
            <span class="bad">{error.message}</span>
        </div>
    );
}

/** The text in the input, the caret, and the suggestions for it. */
function useCompletion(bind: Binding<string>, fields: readonly FilterField[]) {
    const input = useRef<HTMLInputElement>(null);
    const typed = useSignal(bind.value);
    const caret = useSignal(0);
    const isOpen = useSignal(false);
    const chosen = useSignal(-1);
    useEffect(() => void (typed.value = bind.value), [bind.value]);

    const completion = isOpen.value ? complete(fields, typed.value, caret.value) : undefined;
    const update = () => {
        typed.value = input.current!.value;
        caret.value = input.current!.selectionStart ?? typed.value.length;
        chosen.value = -1;
        isOpen.value = true;
    };
    const apply = () => {
        isOpen.value = false;
        bind.value = typed.value.trim();
    };
    const insert = (suggestion: Suggestion) => {
        if (!completion) return;
        const before = typed.value.slice(0, completion.from) + suggestion.text;
        const rest = typed.value.slice(completion.to).replace(/^ ?/, " ");
        input.current!.value = before + rest;
        input.current!.setSelectionRange(before.length + 1, before.length + 1);
        update();
    };
    return { input, typed, isOpen, chosen, suggestions: completion?.suggestions ?? [], update, apply, insert };
}

type FilterCompletion = ReturnType<typeof useCompletion>;

function onKey(event: KeyboardEvent, { typed, isOpen, chosen, suggestions, apply, insert }: FilterCompletion): void {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const suggestion = suggestions[chosen.value];
    if (step && suggestions.length) {
        chosen.value = (chosen.value + step + suggestions.length) % suggestions.length;
    } else if (event.key === "Enter") {
        if (suggestion) insert(suggestion);
        else apply();
    } else if (event.key === "Tab" && suggestions.length && !event.shiftKey && typed.value) {
        insert(suggestion ?? suggestions[0]!);
    } else if (event.key === "Escape" && isOpen.value) {
        isOpen.value = false;
    } else {
        return;
    }
    event.preventDefault();
}

function Suggestions({ id, completion }: { id: string; completion: FilterCompletion }) {
    return (
        <ul id={id} class="filter-list" role="listbox" aria-label="Suggestions">
            {completion.suggestions.map((suggestion, i) => (
                <li
                    key={suggestion.text}
                    id={`${id}-${i}`}
                    class="filter-line"
                    role="option"
                    aria-selected={i === completion.chosen.value}
                    onMouseDown={(event) => {
                        event.preventDefault();
                        completion.insert(suggestion);
                    }}
                >
                    <code>{suggestion.text}</code>
                    <span class="muted ellipsis">{suggestion.help}</span>
                </li>
            ))}
        </ul>
    );
}

export function FilterInput(props: {
    label: string;
    bind: Binding<string>;
    fields: readonly FilterField[];
    error?: unknown;
}) {
    const { bind, fields } = props;
    const id = useId();
    const completion = useCompletion(bind, fields);
    const { chosen, suggestions, update } = completion;
    return (
        <div class="filter">
            <div class="search">
                <Icon name="filter" />
                <input
                    ref={completion.input}
                    class="input mono"
                    spellcheck={false}
                    autocomplete="off"
                    data-search
                    role="combobox"
                    aria-label={props.label}
                    aria-expanded={suggestions.length > 0}
                    aria-controls={id}
                    aria-autocomplete="list"
                    aria-activedescendant={chosen.value >= 0 ? `${id}-${chosen.value}` : undefined}
                    placeholder="state = RUNNING and validation.loss < 0.3"
                    value={completion.typed.value}
                    onInput={update}
                    onClick={update}
                    onFocus={update}
                    onKeyDown={(event) => onKey(event, completion)}
                    onBlur={completion.apply}
                />
            </div>
            <Suggestions id={id} completion={completion} />
            <FilterError text={bind.value} error={props.error} />
        </div>
    );
}
