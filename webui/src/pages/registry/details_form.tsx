// The details that models and versions share (name, description, labels, notes, metadata), and their form.

import type { Signal } from "@preact/signals";
import { signal } from "@preact/signals";
import type { JsonObject } from "../../lib/types";
import { Field, TextArea, TextInput } from "../../parts";
import { metadataLines, parseMetadata } from "./metadata_lines";
import "./registry.css";

export interface Details {
    name: Signal<string>;
    about: Signal<string>;
    labels: Signal<string>;
    notes: Signal<string>;
    metadata: Signal<string>;
}

interface InitialDetails {
    name?: string;
    about?: string;
    labels?: readonly string[];
    notes?: string;
    metadata?: JsonObject;
}

export function detailsOf(initial: InitialDetails): Details {
    return {
        name: signal(initial.name ?? ""),
        about: signal(initial.about ?? ""),
        labels: signal((initial.labels ?? []).join(", ")),
        notes: signal(initial.notes ?? ""),
        metadata: signal(metadataLines(initial.metadata ?? {})),
    };
}

/** The details as the body of a call. The field for the description of a model is the comment of a version. */
export function detailsBody(details: Details, about: "description" | "comment"): JsonObject {
    return {
        name: details.name.value.trim(),
        [about]: details.about.value.trim(),
        labels: details.labels.value.split(",").map((word) => word.trim()).filter(Boolean),
        notes: details.notes.value,
        metadata: parseMetadata(details.metadata.value),
    };
}

export function DetailFields({ details, about }: { details: Details; about: string }) {
    return (
        <>
            <Field label="Name">
                <TextInput bind={details.name} required={about === "Description"} />
            </Field>
            <Field label={about}>
                <TextInput bind={details.about} />
            </Field>
            <Field label="Labels" help="Separated by commas">
                <TextInput bind={details.labels} />
            </Field>
            <Field label="Metadata" help="One per line, for example accuracy: 0.98">
                <TextArea bind={details.metadata} rows={4} />
            </Field>
            <Field label="Notes">
                <TextArea bind={details.notes} rows={5} />
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

/** Shows notes and metadata without a form. */
export function NotesAndMetadata({ notes, metadata }: { notes?: string; metadata?: JsonObject }) {
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
