// The files of a new experiment: what was chosen or dropped, and what is sent of it.

import { IGNORE_FILES, leftOutOf, type Rules, rulesOf } from "./ignore";

/** What the master takes of files, which are a third longer on their way. */
export const UPLOAD_MAX = 95_000_000;
export const UPLOAD_FILES_MAX = 100_000;

export interface Upload {
    /** Below the experiment's folder. */
    path: string;
    file: File;
}

/** One file as the API wants it; modes are of tar. */
export interface WireFile {
    path: string;
    type: 48;
    content: string;
    mode: number;
    mtime: string;
    uid: number;
    gid: number;
}

const PLAIN = 0o644;
const PROGRAM = 0o755;
const SHEBANG = "IyE"; // how "#!" begins in base64

export const totalOf = (uploads: readonly Upload[]) =>
    uploads.reduce((sum, { file }) => sum + file.size, 0);

/** With what came later in the place of what has the same path; by path. */
export function joined(before: readonly Upload[], added: readonly Upload[]): Upload[] {
    const all = new Map([...before, ...added].map((one) => [one.path, one]));
    return [...all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

export interface Gathered {
    uploads: Upload[];
    /** What the folder's rules leave out: files, and folders as "data/". */
    leftOut: string[];
    /** One folder alone is the experiment's folder; several things keep their names. */
    folder?: string;
}

/** All files of a folder; its own name, with which their paths begin, is no part of them. */
export async function fromFolder(files: readonly Upload[]): Promise<Gathered> {
    const inside = files.map(({ path, file }) => ({ path: path.slice(path.indexOf("/") + 1), file }));
    const said = IGNORE_FILES.map((name) => inside.find(({ path }) => path === name)?.file.text() ?? "");
    const rules = rulesOf(await Promise.all(said));
    const leftOut = new Set<string>();
    const uploads = inside.filter(({ path }) => {
        const out = leftOutOf(rules, path);
        if (out) leftOut.add(out);
        return !out;
    });
    return { uploads, leftOut: [...leftOut] };
}

const LARGEST = 3; // that are named

/** Why the master would not take so much; undefined: it would. */
export function refusal(uploads: readonly Upload[]): string | undefined {
    const said = (size: number, digits: number) => `${(size / 1e6).toFixed(digits)} MB`;
    const total = totalOf(uploads);
    if (total > UPLOAD_MAX) {
        const bySize = [...uploads].sort((a, b) => b.file.size - a.file.size).slice(0, LARGEST);
        const largest = bySize.map(({ path, file }) => `${path} (${said(file.size, 1)})`).join(", ");
        return `These files have ${said(total, 1)}, and an experiment takes ${said(UPLOAD_MAX, 0)}. The largest: ${largest}. Leave out what it does not need, name it in .musterignore, or let it read large data from a shared folder.`;
    }
    if (uploads.length > UPLOAD_FILES_MAX)
        return `These are ${uploads.length} files; an experiment takes ${UPLOAD_FILES_MAX}. Name in .musterignore what it does not need.`;
    return undefined;
}

function base64(file: File): Promise<string> {
    return new Promise((done, failed) => {
        const reader = new FileReader();
        reader.onload = () => done((reader.result as string).replace(/^[^,]*,?/, ""));
        reader.onerror = () =>
            failed(new Error(`${file.name} cannot be read any more. Choose it again, or leave it out.`));
        reader.readAsDataURL(file);
    });
}

export async function toWire(uploads: readonly Upload[]): Promise<WireFile[]> {
    const files: WireFile[] = [];
    for (const { path, file } of uploads) {
        const content = file.size ? await base64(file) : "";
        files.push({
            path,
            type: 48,
            content,
            mode: content.startsWith(SHEBANG) ? PROGRAM : PLAIN,
            mtime: String(Math.floor(file.lastModified / 1000)),
            uid: 0,
            gid: 0,
        });
    }
    return files;
}

// --- what was dropped ----------------------------------------------------------------------------

const fileOf = (entry: FileSystemEntry) =>
    new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));

async function readFolder(folder: FileSystemEntry): Promise<FileSystemEntry[]> {
    const reader = (folder as FileSystemDirectoryEntry).createReader();
    const all: FileSystemEntry[] = [];
    for (;;) {
        const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
        if (some.length === 0) return all; // it comes in portions
        all.push(...some);
    }
}

async function readRules(entries: readonly FileSystemEntry[]): Promise<Rules> {
    const texts = IGNORE_FILES.map(async (name) => {
        const entry = entries.find((one) => one.isFile && one.name === name);
        return entry ? (await fileOf(entry)).text() : "";
    });
    return rulesOf(await Promise.all(texts));
}

/** What is left out is not even looked into: it may be large. */
async function gather(entries: readonly FileSystemEntry[], head: string, rules: Rules, into: Gathered): Promise<void> {
    for (const entry of entries) {
        const path = head + entry.name;
        if (rules(path, entry.isDirectory)) into.leftOut.push(entry.isDirectory ? `${path}/` : path);
        else if (entry.isFile) into.uploads.push({ path, file: await fileOf(entry) });
        else await gather(await readFolder(entry), `${path}/`, rules, into);
    }
}

export async function readDrop(data: DataTransfer): Promise<Gathered> {
    const dropped = [...data.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
    const [first] = dropped;
    const isFolder = dropped.length === 1 && first!.isDirectory;
    const entries = isFolder ? await readFolder(first!) : dropped;
    const into: Gathered = { uploads: [], leftOut: [], ...(isFolder ? { folder: first!.name } : {}) };
    await gather(entries, "", await readRules(entries), into);
    return into;
}

/** A relative path that the trainer of a configuration reads from, and that is not among the files. */
export function missing(config: string, uploads: readonly Upload[]): string | undefined {
    if (!/^trainer:/m.test(config)) return undefined;
    const named = config.matchAll(/^[^#\n]*?\bpath: *["']?([^\s"',}#]+)/gm);
    const isHere = (name: string) =>
        uploads.some(({ path }) => path === name || path.startsWith(`${name}/`));
    return [...named].map(([, name]) => name!).find((name) => !/^[/.]|\$/.test(name) && !isHere(name));
}
