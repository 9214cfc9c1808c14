// What every page is made of: its head, and its data with what stands there before and instead.

import type { ComponentChildren } from "preact";
import { useLayoutEffect } from "preact/hooks";
import type { Action } from "../lib/actions";
import { clock, due, fullTime, since } from "../lib/format";
import type { Load } from "../lib/load";
import { errorAdvice, errorText } from "../lib/notices";
import { ActionButton, Button } from "./button";
import { Icon, type IconName } from "./icon";
import { copyItems, Menu, type MenuItem } from "./menu";
import "./page.css";

const BUTTONS = 2;

export interface Crumb {
    title: string;
    href: string;
}

export function useTitle(title: string): void {
    useLayoutEffect(() => {
        document.title = `${title} · Muster`;
    }, [title]);
}

/** Two actions are buttons; the rest, and all of them as commands, are in the menu. */
export function ActionBar({ actions }: { actions: readonly Action[] }) {
    const rest: MenuItem[] = [...actions.slice(BUTTONS)];
    const copies = copyItems(actions.filter((action) => action.call && !action.refused));
    if (rest.length && copies.length) rest.push("-");
    rest.push(...copies);
    return (
        <div class="line">
            {actions.slice(0, BUTTONS).map((action) => (
                <ActionButton key={action.name} action={action} />
            ))}
            {rest.length > 0 && <Menu label="More actions" icon="more" items={rest} />}
        </div>
    );
}

export function Head(props: {
    title: string;
    crumbs?: readonly Crumb[];
    sub?: ComponentChildren;
    actions?: readonly Action[];
    children?: ComponentChildren;
}) {
    useTitle(props.title);
    return (
        <header class="head">
            {props.crumbs && (
                <nav class="crumbs" aria-label="Where this is">
                    {props.crumbs.map((crumb) => (
                        <a key={crumb.href} href={crumb.href}>
                            {crumb.title}
                        </a>
                    ))}
                </nav>
            )}
            <div class="spread">
                <h1 class="head-title">{props.title}</h1>
                <div class="line">
                    {props.children}
                    {props.actions && <ActionBar actions={props.actions} />}
                </div>
            </div>
            {props.sub && <div class="head-sub">{props.sub}</div>}
        </header>
    );
}

export function Waiting({ label = "Loading" }: { label?: string }) {
    return (
        <p class="waiting muted" role="status">
            <Icon name="spinner" /> {label}…
        </p>
    );
}

export function ErrorBox({ error, retry }: { error: unknown; retry?: () => void }) {
    const advice = errorAdvice(error);
    return (
        <div class="error-box" role="alert">
            <Icon name="warning" label="Error" />
            <div class="grow">
                <p>{errorText(error)}</p>
                {advice && <p class="muted">{advice}</p>}
            </div>
            {retry && (
                <Button icon="refresh" onClick={retry}>
                    Try again
                </Button>
            )}
        </div>
    );
}

export function Empty(props: { title: string; icon?: IconName; children?: ComponentChildren }) {
    return (
        <div class="empty">
            {props.icon && <Icon name={props.icon} />}
            <h2>{props.title}</h2>
            {props.children}
        </div>
    );
}

/** The data once it is there; what was there stays while it is loaded anew. */
export function Loaded<T>(props: {
    of: Load<T>;
    label?: string;
    children: (data: T) => ComponentChildren;
}) {
    const data = props.of.data.value;
    const error = props.of.error.value;
    return (
        <>
            {error !== undefined && <ErrorBox error={error} retry={props.of.reload} />}
            {data !== undefined
                ? props.children(data)
                : error === undefined && <Waiting {...(props.label ? { label: props.label } : {})} />}
        </>
    );
}

type Moment = string | number | null | undefined;

export function Time({ at }: { at: Moment }) {
    return at ? (
        <time class="num" dateTime={new Date(at).toISOString()} title={fullTime(at)}>
            {clock(at)}
        </time>
    ) : (
        <span>–</span>
    );
}

/** "3m ago", which grows. */
export function Ago({ at }: { at: Moment }) {
    return at ? (
        <time class="num" dateTime={new Date(at).toISOString()} title={fullTime(at)}>
            {since(at)}
        </time>
    ) : (
        <span>–</span>
    );
}

/** "in 3m", or "soon". */
export function Due({ at }: { at: string }) {
    return (
        <time class="num" dateTime={new Date(at).toISOString()} title={fullTime(at)}>
            {due(at)}
        </time>
    );
}

export function Kbd({ keys }: { keys: string }) {
    return (
        <span class="keys">
            {keys.split(" ").map((key, i) => (
                <kbd key={i}>{key}</kbd>
            ))}
        </span>
    );
}
