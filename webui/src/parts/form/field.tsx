// Inputs with labels. `bind` is an object with a value: a signal, or a parameter of the address.

import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";
import { Icon } from "../basic/icon";
import "./field.css";

export interface Binding<T> {
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
    bind: Binding<string>;
    label?: string;
    type?: "text" | "password" | "number";
    placeholder?: string;
    required?: boolean;
    autocomplete?: string;
    autofocus?: boolean;
    onEnter?: () => void;
}) {
    const { bind, label, onEnter, type = "text", ...rest } = props;
    return (
        <input
            class="input"
            {...rest}
            type={type as "text"}
            step={type === "number" ? "any" : undefined}
            value={bind.value}
            aria-label={label}
            onInput={(event) => (bind.value = event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Enter" && onEnter?.()}
        />
    );
}

/** An input with several lines. */
export function TextArea(props: { bind: Binding<string>; label?: string; rows?: number; placeholder?: string }) {
    const { bind, label, ...rest } = props;
    return (
        <textarea
            class="input"
            {...rest}
            value={bind.value}
            aria-label={label}
            onInput={(event) => (bind.value = event.currentTarget.value)}
        />
    );
}

const TYPING_PAUSE_MS = 250;

/** A search field. It sets the value shortly after the last key, or at once on Enter. The key / focuses the first one. */
export function Search({ bind, label }: { bind: Binding<string>; label: string }) {
    const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
    const setLater = (value: string, after: number) => {
        clearTimeout(timer.current);
        timer.current = setTimeout(() => (bind.value = value), after);
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
                value={bind.value}
                onInput={(event) => setLater(event.currentTarget.value, TYPING_PAUSE_MS)}
                onKeyDown={(event) => event.key === "Enter" && setLater(event.currentTarget.value, 0)}
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
    bind: Binding<string>;
    options: readonly (Option | string)[];
    /** Hides the label, except from screen readers. */
    hidesLabel?: boolean;
}) {
    const id = useId();
    return (
        <span class="select">
            <label for={id} class={props.hidesLabel ? "hidden" : "muted"}>
                {props.label}
            </label>
            <select
                id={id}
                class="input"
                value={props.bind.value}
                onChange={(event) => (props.bind.value = event.currentTarget.value)}
            >
                {props.options.map((option) => {
                    const { value, title } =
                        typeof option === "string" ? { value: option, title: option } : option;
                    return (
                        <option key={value} value={value} selected={value === props.bind.value}>
                            {title}
                        </option>
                    );
                })}
            </select>
        </span>
    );
}

export function Switch({ label, bind }: { label: string; bind: Binding<boolean> }) {
    return (
        <label class="switch">
            <input
                type="checkbox"
                checked={bind.value}
                onChange={(event) => (bind.value = event.currentTarget.checked)}
            />
            {label}
        </label>
    );
}
