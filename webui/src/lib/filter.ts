// Completion for the filter language of lists (api/filter/filter.h): tokens, suggestions at the caret, and quoting. The
// master parses and checks the filter.

export interface FilterField {
    name: string;
    type: string;
    sortable: boolean;
    optional: boolean;
    help: string;
    /** For hparams, training and validation: the known names. For other fields: the values in use. */
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

/** A value in quotes, if it contains characters that would end a word. */
export function quoteValue(value: string): string {
    const isPlain = /^[\w./@+-]+$/.test(value) && !/^(and|or|not|in)$/i.test(value);
    return isPlain ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;
}

/** A name within a field: validation.loss, validation."top 5". */
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
    words: [[":", "contains the words"]],
};

function operatorSuggestions(field: FilterField): Suggestion[] {
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

const RECENT_TIMES: Suggestion[] = [
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
const CONNECTIVES: Suggestion[] = [
    { text: "and", help: "both conditions" },
    { text: "or", help: "one of the conditions" },
];

function valueSuggestions(field: FilterField): Suggestion[] {
    if (field.type === "time") return RECENT_TIMES;
    if (field.type === "duration") return DURATIONS;
    if (field.type === "metric" || field.type === "hparam") return [];
    return (field.names ?? []).map((name) => ({ text: quoteValue(name), help: field.name }));
}

function nameSuggestions(fields: readonly FilterField[]): Suggestion[] {
    return fields.flatMap((field) => {
        const isGroup = field.type === "metric" || field.type === "hparam";
        if (!isGroup) return [{ text: field.name, help: field.help }];
        return (field.names ?? []).map((name) => ({
            text: quoteName(field.name, name),
            help: field.type === "hparam" ? "hyperparameter" : "last value; .min and .max for the extremes",
        }));
    });
}

export function findField(fields: readonly FilterField[], name: string): FilterField | undefined {
    const head = name.split(".")[0]!.toLowerCase();
    return fields.find((field) => field.name === head);
}

type Expected = "name" | "operator" | "value" | "join";

/** The kind of word that may follow these words, and the field that a value would belong to. */
export function expectedNext(words: readonly Token[]): { what: Expected; field: string } {
    let expected: Expected = "name";
    let field = "";
    let inList = false;
    for (const word of words) {
        const text = word.text.toLowerCase();
        if (expected === "name" && text !== "not" && text !== "(") {
            field = word.text;
            expected = "operator";
        } else if (expected === "operator") {
            if (text === "and" || text === "or") expected = "name";
            else if (text === "in") inList = true;
            else if (text === "(" && inList) expected = "value";
            else if (text === ")") expected = "join";
            else if (text !== "not" && text !== "!") expected = "value";
        } else if (expected === "value") {
            expected = inList ? "value" : "join";
            if (text === ")") {
                inList = false;
                expected = "join";
            }
        } else if (expected === "join" && text !== ")") {
            expected = "name";
        }
    }
    return { what: expected, field };
}

function candidates(fields: readonly FilterField[], before: readonly Token[]): Suggestion[] {
    const { what, field } = expectedNext(before);
    const known = findField(fields, field);
    if (what === "name") return [...nameSuggestions(fields), { text: "not", help: "negates the condition" }];
    if (what === "value") return known ? valueSuggestions(known) : [];
    if (what === "join") return CONNECTIVES;
    const bare = known && (known.optional || known.type === "flag") ? CONNECTIVES : [];
    return [...(known ? operatorSuggestions(known) : []), ...bare];
}

/** The matching suggestions, those that begin with the typed text first. Case does not matter. */
export function rankSuggestions(list: readonly Suggestion[], typed: string): Suggestion[] {
    const word = typed.toLowerCase();
    const position = (one: Suggestion) => one.text.toLowerCase().replace(/^"/, "").indexOf(word);
    const matches = list.filter((one) => position(one) >= 0 && one.text !== typed);
    return matches.sort((a, b) => Math.min(position(a), 1) - Math.min(position(b), 1));
}

export function complete(
    fields: readonly FilterField[],
    text: string,
    caret: number,
    maxSuggestions = 12,
): Completion {
    const all = tokens(text);
    const at = all.find((one) => one.kind !== "sign" && one.from < caret && caret <= one.to);
    const before = all.filter((one) => one.to <= (at ? at.from : caret));
    const typed = at ? text.slice(at.from, caret).replace(/^"/, "") : "";
    const found = rankSuggestions(candidates(fields, before), typed).slice(0, maxSuggestions);
    return { from: at?.from ?? caret, to: at?.to ?? caret, suggestions: found };
}

/** The column from 0 that the master's message names; undefined: none. */
export function errorColumn(message: string): number | undefined {
    const found = /column (\d+)/.exec(message);
    return found ? Number(found[1]) - 1 : undefined;
}
