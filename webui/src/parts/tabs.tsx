import { useId } from "preact/hooks";
import { number } from "../lib/format";
import type { At } from "./field";
import { useInSight } from "./in_sight";
import "./tabs.css";

export interface Tab {
    id: string;
    title: string;
    count?: number;
}

/** The row of tabs; which panel is shown is for the view to decide, by at.value. */
export function Tabs(props: { tabs: readonly Tab[]; at: At<string>; label: string }) {
    const { tabs, at } = props;
    const id = useId();
    const row = useInSight<HTMLDivElement>("[aria-selected=true]", at.value);
    const onKey = (event: KeyboardEvent) => {
        const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
        const now = tabs.findIndex((tab) => tab.id === at.value);
        const next = tabs[(now + step + tabs.length) % tabs.length];
        if (!step || !next) return;
        event.preventDefault();
        at.value = next.id;
        document.getElementById(id + next.id)?.focus();
    };
    return (
        <div ref={row} class="tabs" role="tablist" aria-label={props.label} onKeyDown={onKey}>
            {tabs.map((tab) => (
                <button
                    key={tab.id}
                    id={id + tab.id}
                    type="button"
                    role="tab"
                    class="tab"
                    aria-selected={tab.id === at.value}
                    tabIndex={tab.id === at.value ? 0 : -1}
                    onClick={() => (at.value = tab.id)}
                >
                    {tab.title}
                    {tab.count !== undefined && <span class="tab-count">{number(tab.count)}</span>}
                </button>
            ))}
        </div>
    );
}
