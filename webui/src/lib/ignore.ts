// What of a folder does not go along with an experiment: the rules of .detignore and .musterignore, as
// the command line keeps them (api/archive_list.c). Pure.

export const IGNORE_FILES: readonly string[] = [".detignore", ".musterignore"];

/** Whether a path below the folder is named by the rules themselves. */
export type Rules = (path: string, isFolder: boolean) => boolean;

const classes: Record<string, string> = {
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

const plain = (sign: string) => sign.replace(/[\\^$.*+?()[\]{}|/]/, "\\$&");

/** "[a-z]" at the head of the text: what is in it as the regular expression's, and how long it is. */
function setAt(text: string): { body: string; length: number } | undefined {
    const head = /^\[[!^]?/.exec(text)![0];
    let body = head.length > 1 ? "^" : "";
    for (let i = head.length; i < text.length; ) {
        const named = /^\[:(\w+):\]/.exec(text.slice(i));
        if (named) {
            body += classes[named[1]!] ?? "";
            i += named[0].length;
            continue;
        }
        if (text[i] === "]" && i > head.length) return { body, length: i + 1 };
        const isRange = text[i] === "-" && i > head.length && text[i + 1] !== "]";
        if (text[i] === "\\" && i + 1 < text.length) i++;
        const sign = String.fromCodePoint(text.codePointAt(i)!);
        body += isRange ? "-" : sign === "-" ? "\\-" : plain(sign);
        i += sign.length;
    }
    return undefined; // it is not closed: a bracket like any other sign
}

/** A pattern of fnmatch(); `byParts`: no sign of it stands for a slash. */
function expression(pattern: string, byParts: boolean): RegExp | undefined {
    const any = byParts ? "[^/]" : "[^]";
    let source = "";
    for (let i = 0; i < pattern.length; ) {
        let sign = String.fromCodePoint(pattern.codePointAt(i)!);
        const set = sign === "[" ? setAt(pattern.slice(i)) : undefined;
        if (set) {
            source += `${byParts ? "(?!/)" : ""}[${set.body}]`;
            i += set.length;
            continue;
        }
        if (sign === "\\") {
            if (i + 1 === pattern.length) return undefined; // fits nothing
            sign = String.fromCodePoint(pattern.codePointAt(++i)!);
            source += plain(sign);
        } else if (sign === "*") source += source.endsWith(`${any}*`) ? "" : `${any}*`;
        else source += sign === "?" ? any : plain(sign);
        i += sign.length;
    }
    try {
        return new RegExp(`^${source}$`, "u");
    } catch {
        return undefined; // such as [z-a], which fits nothing
    }
}

interface Rule {
    keeps: boolean;
    fits: Rules;
}

function ruleOf(line: string): Rule[] {
    if (!line || line.startsWith("#")) return [];
    const keeps = line.startsWith("!");
    const whole = keeps ? line.slice(1) : line;
    const pattern = whole.replace(/\/$/, "");
    if (!pattern) return [];
    const isPath = pattern.includes("/");
    const fits = expression(pattern.replace(/^\//, ""), isPath && !pattern.includes("**"));
    const nameOf = (path: string) => (isPath ? path : path.slice(path.lastIndexOf("/") + 1));
    const isOfFolders = pattern !== whole;
    return [{ keeps, fits: (path, isFolder) => (isFolder || !isOfFolders) && !!fits?.test(nameOf(path)) }];
}

/** The rules of the texts, in their order: the last that fits decides. What git keeps stays behind. */
export function rulesOf(texts: readonly string[]): Rules {
    const rules = texts.flatMap((text) => text.split(/[\r\n]/).flatMap(ruleOf)).reverse();
    const folders = new Map<string, boolean>(); // asked for again for each file below them
    return (path, isFolder) => {
        const known = isFolder ? folders.get(path) : undefined;
        if (known !== undefined) return known;
        const last = rules.find((rule) => rule.fits(path, isFolder));
        const isOut = last ? !last.keeps : path === ".git";
        if (isFolder) folders.set(path, isOut);
        return isOut;
    };
}

/** What of a path stays behind: the path, or the first folder on the way to it, as "data/"; else undefined. */
export function leftOutOf(rules: Rules, path: string): string | undefined {
    for (let slash = path.indexOf("/"); slash >= 0; slash = path.indexOf("/", slash + 1)) {
        const folder = path.slice(0, slash);
        if (rules(folder, true)) return `${folder}/`;
    }
    return rules(path, false) ? path : undefined;
}
