import { useId } from "preact/hooks";
import { number } from "../../lib/format";
import type { Binding } from "../form/field";
import { useScrollIntoView } from "./scroll_into_view";
import "./tabs.css";

export interface Tab {
    id: string;
    title: string;
    count?: number;
}

/** A row of tabs. The caller shows the panel for bind.value. */
export function Tabs(props: { tabs: readonly Tab[]; bind: Binding<string>; label: string }) {
    const { tabs, bind } = props;
    const id = useId();
    const row = useScrollIntoView<HTMLDivElement>("[aria-selected=true]", bind.value);
    const onKey = (event: KeyboardEvent) => {
        const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
        const now = tabs.findIndex((tab) => tab.id === bind.value);
        const next = tabs[(now + step + tabs.length) % tabs.length];
        if (!step || !next) return;
        event.preventDefault();
        bind.value = next.id;
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
                    aria-selected={tab.id === bind.value}
                    tabIndex={tab.id === bind.value ? 0 : -1}
                    onClick={() => (bind.value = tab.id)}
                >
                    {tab.title}
                    {tab.count !== undefined && <span class="tab-count">{number(tab.count)}</span>}
                </button>
            ))}
        </div>
    );
}
