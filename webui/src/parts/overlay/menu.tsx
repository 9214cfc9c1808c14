// Buttons with menus, as popovers of the browser: they are above everything, and close on Esc or a click outside.

import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { type Action, runAction } from "../../lib/actions";
import { copyText } from "../../lib/clipboard";
import { curlCommand, musterCommand } from "../../lib/command_line";
import { Button } from "../basic/button";
import { Icon, type IconName, isIcon } from "../basic/icon";
import "./menu.css";

const GAP = 4;

/** Puts the popover below its button, or above it if there is more room. */
function positionPopover(button: Element, popover: HTMLElement): void {
    const at = button.getBoundingClientRect();
    const own = popover.getBoundingClientRect();
    const below = innerHeight - at.bottom;
    const isBelow = below > own.height + GAP || below > at.top;
    const left = Math.min(at.left, innerWidth - own.width - GAP);
    popover.style.left = `${Math.max(GAP, left)}px`;
    popover.style.top = `${Math.max(GAP, isBelow ? at.bottom + GAP : at.top - own.height - GAP)}px`;
}

/** A button that opens a popover. Its content is rendered only while it is open. */
export function Popover(props: {
    label: string;
    icon?: IconName;
    text?: ComponentChildren;
    kind?: "plain" | "quiet";
    role?: "menu" | "dialog";
    children: (close: () => void) => ComponentChildren;
}) {
    const { role = "dialog" } = props;
    const id = useId();
    const popover = useRef<HTMLDivElement>(null);
    const [isOpen, setOpen] = useState(false);
    const onToggle = (event: Event) => {
        const opened = (event as ToggleEvent).newState === "open";
        setOpen(opened);
        if (!opened) return;
        requestAnimationFrame(() => {
            positionPopover(document.getElementById(`${id}b`)!, popover.current!);
            popover.current!.querySelector<HTMLElement>("input, a, button:not(:disabled)")?.focus();
        });
    };
    return (
        <>
            <Button
                id={`${id}b`}
                kind={props.kind ?? "plain"}
                label={props.label}
                popovertarget={id}
                {...(props.icon ? { icon: props.icon } : {})}
            >
                {props.text}
            </Button>
            <div
                ref={popover}
                id={id}
                class="popover"
                popover="auto"
                role={role}
                aria-label={props.label}
                onToggle={onToggle}
            >
                {isOpen && props.children(() => popover.current?.hidePopover())}
            </div>
        </>
    );
}

export interface MenuLink {
    name: string;
    href: string;
    icon?: string;
    download?: string;
}

export type MenuItem = Action | MenuLink | "-";

function onArrows(event: KeyboardEvent): void {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const items = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("a, button")];
    const next = items.indexOf(document.activeElement as HTMLElement) + step;
    items.at(next % items.length)?.focus();
}

function MenuEntry({ item, close }: { item: Action | MenuLink; close: () => void }) {
    const inside = (
        <>
            {isIcon(item.icon) ? <Icon name={item.icon} /> : <span class="menu-space" />}
            <span class="grow">{item.name}</span>
        </>
    );
    if ("href" in item)
        return (
            <a
                role="menuitem"
                class="menu-item"
                href={item.href}
                download={item.download}
                onClick={close}
            >
                {inside}
            </a>
        );
    return (
        <button
            type="button"
            role="menuitem"
            class={`menu-item${item.danger ? " bad" : ""}`}
            aria-disabled={item.disabledReason ? "true" : undefined}
            title={item.disabledReason}
            onClick={() => {
                close();
                void runAction(item);
            }}
        >
            {inside}
            {item.key && <kbd class="menu-key">{item.key}</kbd>}
        </button>
    );
}

export function Menu(props: {
    label: string;
    icon?: IconName;
    text?: ComponentChildren;
    kind?: "plain" | "quiet";
    items: readonly MenuItem[];
}) {
    const { items, ...rest } = props;
    return (
        <Popover {...rest} role="menu">
            {(close) => (
                <div class="menu" role="presentation" onKeyDown={onArrows}>
                    {items.map((item, i) =>
                        item === "-" ? (
                            <hr key={i} class="menu-rule" />
                        ) : (
                            <MenuEntry key={item.name} item={item} close={close} />
                        ),
                    )}
                </div>
            )}
        </Popover>
    );
}

/** Menu items that copy the actions as commands. */
export function copyItems(actions: readonly Action[]): Action[] {
    return actions.flatMap(({ name, call }) => {
        if (!call) return [];
        const muster = musterCommand(call);
        const line = (text: string, kind: string): Action => ({
            name: `Copy as ${kind}${actions.length > 1 ? `: ${name}` : ""}`,
            icon: "copy",
            run: () => copyText(text),
        });
        const curl = line(curlCommand(call), "curl");
        return muster ? [line(muster, "muster command"), curl] : [curl];
    });
}
