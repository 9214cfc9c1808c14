// Buttons and links that look like buttons.

import type { ComponentChildren } from "preact";
import { type Action, runAction } from "../../lib/actions";
import { Icon, type IconName, isIcon } from "./icon";
import "./button.css";

export interface ButtonProps {
    children?: ComponentChildren;
    onClick?: (event: MouseEvent) => unknown;
    icon?: IconName;
    kind?: "plain" | "main" | "danger" | "quiet";
    /** The accessible name of a button with only an icon. */
    label?: string;
    title?: string;
    disabled?: boolean;
    type?: "button" | "submit";
    pressed?: boolean;
    popovertarget?: string;
    id?: string;
}

export function Button(props: ButtonProps) {
    const { children, icon, kind = "plain", label, pressed, ...rest } = props;
    return (
        <button
            type="button"
            {...rest}
            class={`button button-${kind}${children ? "" : " button-bare"}`}
            aria-label={label}
            aria-pressed={pressed}
            title={props.title ?? label}
        >
            {icon && <Icon name={icon} />}
            {children}
        </button>
    );
}

/** A link that looks like a button. */
export function LinkButton(props: {
    href: string;
    children: ComponentChildren;
    icon?: IconName;
    main?: boolean;
    download?: boolean | string;
    /** The accessible name, if the content does not say enough. */
    label?: string;
}) {
    return (
        <a
            class={`button button-${props.main ? "main" : "plain"}`}
            href={props.href}
            download={props.download}
            aria-label={props.label}
            title={props.label}
        >
            {props.icon && <Icon name={props.icon} />}
            {props.children}
        </a>
    );
}

export function ActionButton({ action, main }: { action: Action; main?: boolean }) {
    const words = [action.disabledReason ?? "", action.key ? `Shortcut: ${action.key}` : ""];
    return (
        <button
            type="button"
            class={`button button-${main ? "main" : action.danger ? "danger" : "plain"}`}
            aria-disabled={action.disabledReason ? "true" : undefined}
            title={words.filter(Boolean).join(" · ") || undefined}
            onClick={() => void runAction(action)}
        >
            {isIcon(action.icon) && <Icon name={action.icon} />}
            {action.name}
        </button>
    );
}
