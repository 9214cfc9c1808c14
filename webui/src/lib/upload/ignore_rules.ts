// The files of a folder that are not uploaded: the rules of .detignore and .musterignore, as the command line
// applies them (api/archive/archive_list.c). Pure functions.

export const IGNORE_FILES: readonly string[] = [".detignore", ".musterignore"];

/** A function that returns whether a rule matches the path itself, not only a folder above it. */
export type IgnoreRules = (path: string, isFolder: boolean) => boolean;

const characterClasses: Record<string, string> = {
    alnum: "\\p{L}\\p{N}",
    alpha: "\\p{L}",
    blank: " \\t",
    digit: "0-9",
    lower: "\\p{Ll}",
    punct: "!-\\/:-@\\[-`{-~",
    space: "\\s",
    upper: "\\p{Lu}",
    xdigit: "0-9A-Fa-f",
};

const escapeSign = (sign: string) => sign.replace(/[\\^$.*+?()[\]{}|/]/, "\\$&");

/** A set such as "[a-z]" at the start of the text: its body for a regular expression, and its length. */
function parseSet(text: string): { body: string; length: number } | undefined {
    const head = /^\[[!^]?/.exec(text)![0];
    let body = head.length > 1 ? "^" : "";
    for (let i = head.length; i < text.length; ) {
        const named = /^\[:(\w+):\]/.exec(text.slice(i));
        if (named) {
            body += characterClasses[named[1]!] ?? "";
            i += named[0].length;
            continue;
        }
        if (text[i] === "]" && i > head.length) return { body, length: i + 1 };
        const isRange = text[i] === "-" && i > head.length && text[i + 1] !== "]";
        if (text[i] === "\\" && i + 1 < text.length) i++;
        const sign = String.fromCodePoint(text.codePointAt(i)!);
        body += isRange ? "-" : sign === "-" ? "\\-" : escapeSign(sign);
        i += sign.length;
    }
    return undefined; // not closed: the bracket is an ordinary character
}

/** A pattern of fnmatch() as a regular expression. `byParts`: wildcards do not match a slash. */
function toRegExp(pattern: string, byParts: boolean): RegExp | undefined {
    const any = byParts ? "[^/]" : "[^]";
    let source = "";
    for (let i = 0; i < pattern.length; ) {
        let sign = String.fromCodePoint(pattern.codePointAt(i)!);
        const set = sign === "[" ? parseSet(pattern.slice(i)) : undefined;
        if (set) {
            source += `${byParts ? "(?!/)" : ""}[${set.body}]`;
            i += set.length;
            continue;
        }
        if (sign === "\\") {
            if (i + 1 === pattern.length) return undefined; // matches nothing
            sign = String.fromCodePoint(pattern.codePointAt(++i)!);
            source += escapeSign(sign);
        } else if (sign === "*") source += source.endsWith(`${any}*`) ? "" : `${any}*`;
        else source += sign === "?" ? any : escapeSign(sign);
        i += sign.length;
    }
    try {
        return new RegExp(`^${source}$`, "u");
    } catch {
        return undefined; // for example [z-a], which matches nothing
    }
}

interface Rule {
    isNegated: boolean;
    matches: IgnoreRules;
}

function parseRule(line: string): Rule[] {
    if (!line || line.startsWith("#")) return [];
    const isNegated = line.startsWith("!");
    const rule = isNegated ? line.slice(1) : line;
    const pattern = rule.replace(/\/$/, "");
    if (!pattern) return [];
    const hasSlash = pattern.includes("/");
    const fits = toRegExp(pattern.replace(/^\//, ""), hasSlash && !pattern.includes("**"));
    const nameOf = (path: string) => (hasSlash ? path : path.slice(path.lastIndexOf("/") + 1));
    const isFolderRule = pattern !== rule;
    return [{ isNegated, matches: (path, isFolder) => (isFolder || !isFolderRule) && !!fits?.test(nameOf(path)) }];
}

/** The rules of the texts, in order. The last matching rule decides. The folder .git is ignored by default. */
export function parseIgnoreRules(texts: readonly string[]): IgnoreRules {
    const rules = texts.flatMap((text) => text.split(/[\r\n]/).flatMap(parseRule)).reverse();
    const folders = new Map<string, boolean>(); // cached, because each file asks for its folders
    return (path, isFolder) => {
        const known = isFolder ? folders.get(path) : undefined;
        if (known !== undefined) return known;
        const last = rules.find((rule) => rule.matches(path, isFolder));
        const isIgnored = last ? !last.isNegated : path === ".git";
        if (isFolder) folders.set(path, isIgnored);
        return isIgnored;
    };
}

/** The ignored part of a path: the path, or the first ignored folder above it, as "data/"; undefined: not ignored. */
export function ignoredPath(rules: IgnoreRules, path: string): string | undefined {
    for (let slash = path.indexOf("/"); slash >= 0; slash = path.indexOf("/", slash + 1)) {
        const folder = path.slice(0, slash);
        if (rules(folder, true)) return `${folder}/`;
    }
    return rules(path, false) ? path : undefined;
}
