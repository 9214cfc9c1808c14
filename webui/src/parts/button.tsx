// Buttons, and the controls that act on an action.

import type { ComponentChildren } from "preact";
import { type Action, act } from "../lib/actions";
import { Icon, type IconName, isIcon } from "./icon";
import "./button.css";

export interface ButtonProps {
    children?: ComponentChildren;
    onClick?: (event: MouseEvent) => unknown;
    icon?: IconName;
    kind?: "plain" | "main" | "danger" | "quiet";
    /** Its name, when there is only an icon. */
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
    /** Its name, where what it shows is not enough of one. */
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
    const words = [action.refused ?? "", action.key ? `key: ${action.key}` : ""];
    return (
        <button
            type="button"
            class={`button button-${main ? "main" : action.danger ? "danger" : "plain"}`}
            aria-disabled={action.refused ? "true" : undefined}
            title={words.filter(Boolean).join(" · ") || undefined}
            onClick={() => void act(action)}
        >
            {isIcon(action.icon) && <Icon name={action.icon} />}
            {action.name}
        </button>
    );
}
