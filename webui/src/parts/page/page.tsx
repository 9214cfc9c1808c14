// The frame of a page's content: head, loading indicator, error box, empty state, and times.

import type { ComponentChildren } from "preact";
import { useLayoutEffect } from "preact/hooks";
import type { Action } from "../../lib/actions";
import { shortTime, dueTime, fullTime, relativeTime } from "../../lib/format";
import type { Load } from "../../lib/load";
import { errorAdvice, errorText } from "../../lib/toasts";
import { ActionButton, Button } from "../basic/button";
import { Icon, type IconName } from "../basic/icon";
import { copyItems, Menu, type MenuItem } from "../overlay/menu";
import "./page.css";

const MAX_BUTTONS = 2;

export interface Crumb {
    title: string;
    href: string;
}

export function useTitle(title: string): void {
    useLayoutEffect(() => {
        document.title = `${title} · Muster`;
    }, [title]);
}

/** Two actions as buttons, and a menu with the other actions and with all actions as commands. */
export function ActionBar({ actions }: { actions: readonly Action[] }) {
    const rest: MenuItem[] = [...actions.slice(MAX_BUTTONS)];
    const copies = copyItems(actions.filter((action) => action.call && !action.disabledReason));
    if (rest.length && copies.length) rest.push("-");
    rest.push(...copies);
    return (
        <div class="line">
            {actions.slice(0, MAX_BUTTONS).map((action) => (
                <ActionButton key={action.name} action={action} />
            ))}
            {rest.length > 0 && <Menu label="More actions" icon="more" items={rest} />}
        </div>
    );
}

export function PageHead(props: {
    title: string;
    crumbs?: readonly Crumb[];
    sub?: ComponentChildren;
    actions?: readonly Action[];
    children?: ComponentChildren;
}) {
    useTitle(props.title);
    return (
        <header class="page-head">
            {props.crumbs && (
                <nav class="crumbs" aria-label="Breadcrumbs">
                    {props.crumbs.map((crumb) => (
                        <a key={crumb.href} href={crumb.href}>
                            {crumb.title}
                        </a>
                    ))}
                </nav>
            )}
            <div class="spread">
                <h1 class="page-title">{props.title}</h1>
                <div class="line">
                    {props.children}
                    {props.actions && <ActionBar actions={props.actions} />}
                </div>
            </div>
            {props.sub && <div class="page-subtitle">{props.sub}</div>}
        </header>
    );
}

export function Loading({ label = "Loading" }: { label?: string }) {
    return (
        <p class="loading muted" role="status">
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

/** Renders the data once it is loaded. The old data stays while it is loaded again. */
export function Loaded<T>(props: {
    load: Load<T>;
    label?: string;
    children: (data: T) => ComponentChildren;
}) {
    const data = props.load.data.value;
    const error = props.load.error.value;
    return (
        <>
            {error !== undefined && <ErrorBox error={error} retry={props.load.reload} />}
            {data !== undefined
                ? props.children(data)
                : error === undefined && <Loading {...(props.label ? { label: props.label } : {})} />}
        </>
    );
}

type Moment = string | number | null | undefined;

export function Time({ at }: { at: Moment }) {
    return at ? (
        <time class="num" dateTime={new Date(at).toISOString()} title={fullTime(at)}>
            {shortTime(at)}
        </time>
    ) : (
        <span>–</span>
    );
}

/** A time such as "3m ago", updated every second. */
export function Ago({ at }: { at: Moment }) {
    return at ? (
        <time class="num" dateTime={new Date(at).toISOString()} title={fullTime(at)}>
            {relativeTime(at)}
        </time>
    ) : (
        <span>–</span>
    );
}

/** An estimated time: "in 3m", or "soon". */
export function DueTime({ at }: { at: string }) {
    return (
        <time class="num" dateTime={new Date(at).toISOString()} title={fullTime(at)}>
            {dueTime(at)}
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
