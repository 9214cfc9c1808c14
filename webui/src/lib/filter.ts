// The filter language of lists (api/filter.h) as far as writing it needs: words, what may follow
// the caret, and texts that are put together by clicks. The master parses and judges.

export interface FilterField {
    name: string;
    type: string;
    sortable: boolean;
    optional: boolean;
    help: string;
    /** Of hparams, training and validation: the names there are. Of others: values in use. */
    names?: string[];
}

export interface Token {
    kind: "word" | "text" | "sign";
    text: string;
    from: number;
    to: number;
}

export interface Suggestion {
    text: string;
    help: string;
}

export interface Completion {
    /** The part of the text that a suggestion replaces. */
    from: number;
    to: number;
    suggestions: Suggestion[];
}

const TOKEN = /"(?:\\.|[^"\\])*"?|[<>!]=|[=<>~:(),]|[^\s"=<>!~:(),]+(?:"(?:\\.|[^"\\])*"?[^\s"=<>!~:(),]*)*|!/g;

export function tokens(text: string): Token[] {
    return [...text.matchAll(TOKEN)].map((found) => ({
        kind: found[0].startsWith('"') ? "text" : /^[=<>!~:(),]/.test(found[0]) ? "sign" : "word",
        text: found[0],
        from: found.index,
        to: found.index + found[0].length,
    }));
}

/** A value as the language wants it: in quotes when it holds what would end a word. */
export function quoteValue(value: string): string {
    const isPlain = /^[\w./@+-]+$/.test(value) && !/^(and|or|not|in)$/i.test(value);
    return isPlain ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;
}

/** A name below a field: validation.loss, validation."top 5". */
export function quoteName(field: string, path: string): string {
    const parts = field === "hparams" ? path.split(".") : [path];
    return [field, ...parts.map((part) => (/^[\w/-]+$/.test(part) ? part : `"${part}"`))].join(".");
}

const OPERATORS: Record<string, readonly (readonly [string, string])[]> = {
    any: [
        ["=", "equals"],
        ["!=", "is not"],
        ["in (", "is one of"],
    ],
    text: [["~", "contains"]],
    order: [
        ["<", "less than"],
        ["<=", "at most"],
        [">", "more than"],
        [">=", "at least"],
    ],
    words: [[":", "has the words"]],
};

function operatorsOf(field: FilterField): Suggestion[] {
    const kinds =
        field.type === "words"
            ? ["words"]
            : field.type === "flag"
              ? []
              : field.type === "text"
                ? ["any", "text"]
                : field.type === "state"
                  ? ["any"]
                  : ["order", "any"];
    return kinds.flatMap((kind) => OPERATORS[kind]!.map(([text, help]) => ({ text, help })));
}

const TIMES: Suggestion[] = [
    { text: "-1h", help: "an hour ago" },
    { text: "-1d", help: "a day ago" },
    { text: "-7d", help: "a week ago" },
    { text: "-30d", help: "30 days ago" },
];
const DURATIONS: Suggestion[] = [
    { text: "5m", help: "five minutes" },
    { text: "1h", help: "an hour" },
    { text: "1d", help: "a day" },
];
const JOINS: Suggestion[] = [
    { text: "and", help: "both" },
    { text: "or", help: "one of them" },
];

function valuesOf(field: FilterField): Suggestion[] {
    if (field.type === "time") return TIMES;
    if (field.type === "duration") return DURATIONS;
    if (field.type === "metric" || field.type === "hparam") return [];
    return (field.names ?? []).map((name) => ({ text: quoteValue(name), help: field.name }));
}

function namesOf(fields: readonly FilterField[]): Suggestion[] {
    return fields.flatMap((field) => {
        const isGroup = field.type === "metric" || field.type === "hparam";
        if (!isGroup) return [{ text: field.name, help: field.help }];
        return (field.names ?? []).map((name) => ({
            text: quoteName(field.name, name),
            help: field.type === "hparam" ? "hyperparameter" : "its last value; .min and .max for its extremes",
        }));
    });
}

export function fieldOf(fields: readonly FilterField[], name: string): FilterField | undefined {
    const head = name.split(".")[0]!.toLowerCase();
    return fields.find((field) => field.name === head);
}

type Expects = "name" | "operator" | "value" | "join";

/** What may stand behind these words, and of which field a value would be. */
export function expects(words: readonly Token[]): { what: Expects; field: string } {
    let what: Expects = "name";
    let field = "";
    let inList = false;
    for (const word of words) {
        const text = word.text.toLowerCase();
        if (what === "name" && text !== "not" && text !== "(") {
            field = word.text;
            what = "operator";
        } else if (what === "operator") {
            if (text === "and" || text === "or") what = "name";
            else if (text === "in") inList = true;
            else if (text === "(" && inList) what = "value";
            else if (text === ")") what = "join";
            else if (text !== "not" && text !== "!") what = "value";
        } else if (what === "value") {
            what = inList ? "value" : "join";
            if (text === ")") {
                inList = false;
                what = "join";
            }
        } else if (what === "join" && text !== ")") {
            what = "name";
        }
    }
    return { what, field };
}

function candidates(fields: readonly FilterField[], before: readonly Token[]): Suggestion[] {
    const { what, field } = expects(before);
    const known = fieldOf(fields, field);
    if (what === "name") return [...namesOf(fields), { text: "not", help: "the opposite" }];
    if (what === "value") return known ? valuesOf(known) : [];
    if (what === "join") return JOINS;
    const bare = known && (known.optional || known.type === "flag") ? JOINS : [];
    return [...(known ? operatorsOf(known) : []), ...bare];
}

/** Begins-with before contains; both in any case. */
export function rank(list: readonly Suggestion[], typed: string): Suggestion[] {
    const word = typed.toLowerCase();
    const place = (one: Suggestion) => one.text.toLowerCase().replace(/^"/, "").indexOf(word);
    const fit = list.filter((one) => place(one) >= 0 && one.text !== typed);
    return fit.sort((a, b) => Math.min(place(a), 1) - Math.min(place(b), 1));
}

export function complete(
    fields: readonly FilterField[],
    text: string,
    caret: number,
    most = 12,
): Completion {
    const all = tokens(text);
    const at = all.find((one) => one.kind !== "sign" && one.from < caret && caret <= one.to);
    const before = all.filter((one) => one.to <= (at ? at.from : caret));
    const typed = at ? text.slice(at.from, caret).replace(/^"/, "") : "";
    const found = rank(candidates(fields, before), typed).slice(0, most);
    return { from: at?.from ?? caret, to: at?.to ?? caret, suggestions: found };
}

/** Where the master's message says the fault is, from 0; undefined when it does not. */
export function faultColumn(message: string): number | undefined {
    const found = /column (\d+)/.exec(message);
    return found ? Number(found[1]) - 1 : undefined;
}
