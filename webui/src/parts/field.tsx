// Inputs with names. `at` is whatever has a value: a signal, or a parameter of the address.

import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";
import { Icon } from "./icon";
import "./field.css";

export interface At<T> {
    value: T;
}

export function Field(props: {
    label: string;
    error?: string | undefined;
    help?: ComponentChildren;
    children: ComponentChildren;
}) {
    return (
        <label class="field">
            <span class="field-label">{props.label}</span>
            {props.children}
            {props.help && <span class="field-help">{props.help}</span>}
            {props.error && (
                <span class="field-error" role="alert">
                    {props.error}
                </span>
            )}
        </label>
    );
}

export function TextInput(props: {
    at: At<string>;
    label?: string;
    type?: "text" | "password" | "number";
    placeholder?: string;
    required?: boolean;
    autocomplete?: string;
    autofocus?: boolean;
    onEnter?: () => void;
}) {
    const { at, label, onEnter, type = "text", ...rest } = props;
    return (
        <input
            class="input"
            {...rest}
            type={type as "text"}
            step={type === "number" ? "any" : undefined}
            value={at.value}
            aria-label={label}
            onInput={(event) => (at.value = event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Enter" && onEnter?.()}
        />
    );
}

/** Several lines. */
export function TextArea(props: { at: At<string>; label?: string; rows?: number; placeholder?: string }) {
    const { at, label, ...rest } = props;
    return (
        <textarea
            class="input"
            {...rest}
            value={at.value}
            aria-label={label}
            onInput={(event) => (at.value = event.currentTarget.value)}
        />
    );
}

const QUIET_MS = 250;

/** Sets `at` a moment after the last key, or at once by Enter. `/` goes to the first on the page. */
export function Search({ at, label }: { at: At<string>; label: string }) {
    const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
    const put = (value: string, after: number) => {
        clearTimeout(timer.current);
        timer.current = setTimeout(() => (at.value = value), after);
    };
    return (
        <span class="search">
            <Icon name="search" />
            <input
                class="input"
                type="search"
                data-search
                aria-label={label}
                placeholder={label}
                value={at.value}
                onInput={(event) => put(event.currentTarget.value, QUIET_MS)}
                onKeyDown={(event) => event.key === "Enter" && put(event.currentTarget.value, 0)}
            />
        </span>
    );
}

export interface Option {
    value: string;
    title: string;
}

export function Select(props: {
    label: string;
    at: At<string>;
    options: readonly (Option | string)[];
    /** Only for screen readers: the first option says it. */
    quiet?: boolean;
}) {
    const id = useId();
    return (
        <span class="select">
            <label for={id} class={props.quiet ? "hidden" : "muted"}>
                {props.label}
            </label>
            <select
                id={id}
                class="input"
                value={props.at.value}
                onChange={(event) => (props.at.value = event.currentTarget.value)}
            >
                {props.options.map((option) => {
                    const { value, title } =
                        typeof option === "string" ? { value: option, title: option } : option;
                    return (
                        <option key={value} value={value} selected={value === props.at.value}>
                            {title}
                        </option>
                    );
                })}
            </select>
        </span>
    );
}

export function Switch({ label, at }: { label: string; at: At<boolean> }) {
    return (
        <label class="switch">
            <input
                type="checkbox"
                checked={at.value}
                onChange={(event) => (at.value = event.currentTarget.checked)}
            />
            {label}
        </label>
    );
}
