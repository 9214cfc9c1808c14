// What a model and a version have in common: name, words, labels, facts, and the form for them.

import type { Signal } from "@preact/signals";
import { signal } from "@preact/signals";
import type { JsonObject } from "../../lib/types";
import { Field, TextArea, TextInput } from "../../parts";
import { factLines, readFacts } from "./facts";
import "./registry.css";

export interface Words {
    name: Signal<string>;
    about: Signal<string>;
    labels: Signal<string>;
    notes: Signal<string>;
    facts: Signal<string>;
}

interface Described {
    name?: string;
    about?: string;
    labels?: readonly string[];
    notes?: string;
    metadata?: JsonObject;
}

export function wordsOf(given: Described): Words {
    return {
        name: signal(given.name ?? ""),
        about: signal(given.about ?? ""),
        labels: signal((given.labels ?? []).join(", ")),
        notes: signal(given.notes ?? ""),
        facts: signal(factLines(given.metadata ?? {})),
    };
}

/** As a body; what a model calls its description a version calls its comment. */
export function wordsBody(words: Words, about: "description" | "comment"): JsonObject {
    return {
        name: words.name.value.trim(),
        [about]: words.about.value.trim(),
        labels: words.labels.value.split(",").map((word) => word.trim()).filter(Boolean),
        notes: words.notes.value,
        metadata: readFacts(words.facts.value),
    };
}

export function WordFields({ words, about }: { words: Words; about: string }) {
    return (
        <>
            <Field label="Name">
                <TextInput at={words.name} required={about === "Description"} />
            </Field>
            <Field label={about}>
                <TextInput at={words.about} />
            </Field>
            <Field label="Labels" help="With commas between">
                <TextInput at={words.labels} />
            </Field>
            <Field label="Metadata" help="A line for each, like accuracy: 0.98">
                <TextArea at={words.facts} rows={4} />
            </Field>
            <Field label="Notes">
                <TextArea at={words.notes} rows={5} />
            </Field>
        </>
    );
}

export function Labels({ labels }: { labels: readonly string[] | undefined }) {
    return (
        <span class="line">
            {(labels ?? []).map((label) => (
                <span key={label} class="chip">
                    {label}
                </span>
            ))}
        </span>
    );
}

/** Notes and facts, as they are read. */
export function Described({ notes, metadata }: { notes?: string; metadata?: JsonObject }) {
    const facts = Object.entries(metadata ?? {});
    return (
        <>
            {notes && <p class="notes">{notes}</p>}
            {facts.length > 0 && (
                <dl class="facts">
                    {facts.map(([name, value]) => (
                        <>
                            <dt>{name}</dt>
                            <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
                        </>
                    ))}
                </dl>
            )}
        </>
    );
}
