// The files of a new experiment: the chosen or dropped ones, and their form in the API.

import { IGNORE_FILES, ignoredPath, type IgnoreRules, parseIgnoreRules } from "./ignore_rules";

/** The maximum size of all files in bytes. In base64 they are a third longer. */
export const UPLOAD_MAX = 95_000_000;
export const UPLOAD_FILES_MAX = 100_000;

export interface Upload {
    /** Relative to the experiment's folder. */
    path: string;
    file: File;
}

/** A file in the form of the API. Type and mode are those of tar. */
export interface ApiFile {
    path: string;
    type: 48;
    content: string;
    mode: number;
    mtime: string;
    uid: number;
    gid: number;
}

const FILE_MODE = 0o644;
const EXECUTABLE_MODE = 0o755;
const SHEBANG = "IyE"; // how "#!" begins in base64

export const totalSize = (uploads: readonly Upload[]) =>
    uploads.reduce((sum, { file }) => sum + file.size, 0);

/** Both lists, sorted by path. An added file replaces a file with the same path. */
export function mergeUploads(before: readonly Upload[], added: readonly Upload[]): Upload[] {
    const all = new Map([...before, ...added].map((one) => [one.path, one]));
    return [...all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

export interface FileSelection {
    uploads: Upload[];
    /** Ignored files, and ignored folders as "data/". */
    ignored: string[];
    /** The name of the folder, if the selection is a single folder. */
    folder?: string;
}

/** The files of a folder. Their paths no longer begin with the name of the folder. */
export async function selectFolder(files: readonly Upload[]): Promise<FileSelection> {
    const inside = files.map(({ path, file }) => ({ path: path.slice(path.indexOf("/") + 1), file }));
    const texts = IGNORE_FILES.map((name) => inside.find(({ path }) => path === name)?.file.text() ?? "");
    const rules = parseIgnoreRules(await Promise.all(texts));
    const ignored = new Set<string>();
    const uploads = inside.filter(({ path }) => {
        const ignoredBy = ignoredPath(rules, path);
        if (ignoredBy) ignored.add(ignoredBy);
        return !ignoredBy;
    });
    return { uploads, ignored: [...ignored] };
}

const MAX_NAMED = 3; // files named in the message

/** The error if the files are too large or too many; undefined: they are accepted. */
export function sizeError(uploads: readonly Upload[]): string | undefined {
    const megabytes = (size: number, digits: number) => `${(size / 1e6).toFixed(digits)} MB`;
    const total = totalSize(uploads);
    if (total > UPLOAD_MAX) {
        const bySize = [...uploads].sort((a, b) => b.file.size - a.file.size).slice(0, MAX_NAMED);
        const largest = bySize.map(({ path, file }) => `${path} (${megabytes(file.size, 1)})`).join(", ");
        return `The files have ${megabytes(total, 1)}, but an experiment may have at most ${megabytes(UPLOAD_MAX, 0)}. The largest: ${largest}. Remove files that are not needed, list them in .musterignore, or read large data from a shared folder.`;
    }
    if (uploads.length > UPLOAD_FILES_MAX)
        return `There are ${uploads.length} files, but an experiment may have at most ${UPLOAD_FILES_MAX}. List files that are not needed in .musterignore.`;
    return undefined;
}

function base64(file: File): Promise<string> {
    return new Promise((done, failed) => {
        const reader = new FileReader();
        reader.onload = () => done((reader.result as string).replace(/^[^,]*,?/, ""));
        reader.onerror = () =>
            failed(new Error(`${file.name} cannot be read any more. Choose it again or remove it.`));
        reader.readAsDataURL(file);
    });
}

export async function toApiFiles(uploads: readonly Upload[]): Promise<ApiFile[]> {
    const files: ApiFile[] = [];
    for (const { path, file } of uploads) {
        const content = file.size ? await base64(file) : "";
        files.push({
            path,
            type: 48,
            content,
            mode: content.startsWith(SHEBANG) ? EXECUTABLE_MODE : FILE_MODE,
            mtime: String(Math.floor(file.lastModified / 1000)),
            uid: 0,
            gid: 0,
        });
    }
    return files;
}

// --- dropped files -------------------------------------------------------------------------------

const fileOf = (entry: FileSystemEntry) =>
    new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));

async function readFolder(folder: FileSystemEntry): Promise<FileSystemEntry[]> {
    const reader = (folder as FileSystemDirectoryEntry).createReader();
    const all: FileSystemEntry[] = [];
    for (;;) {
        const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
        if (some.length === 0) return all; // readEntries() returns the entries in portions
        all.push(...some);
    }
}

async function readRules(entries: readonly FileSystemEntry[]): Promise<IgnoreRules> {
    const texts = IGNORE_FILES.map(async (name) => {
        const entry = entries.find((one) => one.isFile && one.name === name);
        return entry ? (await fileOf(entry)).text() : "";
    });
    return parseIgnoreRules(await Promise.all(texts));
}

/** Collects files recursively. Ignored folders are not read, because they may be large. */
async function collectFiles(
    entries: readonly FileSystemEntry[],
    prefix: string,
    rules: IgnoreRules,
    into: FileSelection,
): Promise<void> {
    for (const entry of entries) {
        const path = prefix + entry.name;
        if (rules(path, entry.isDirectory)) into.ignored.push(entry.isDirectory ? `${path}/` : path);
        else if (entry.isFile) into.uploads.push({ path, file: await fileOf(entry) });
        else await collectFiles(await readFolder(entry), `${path}/`, rules, into);
    }
}

export async function readDroppedFiles(data: DataTransfer): Promise<FileSelection> {
    const dropped = [...data.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
    const [first] = dropped;
    const isFolder = dropped.length === 1 && first!.isDirectory;
    const entries = isFolder ? await readFolder(first!) : dropped;
    const into: FileSelection = { uploads: [], ignored: [], ...(isFolder ? { folder: first!.name } : {}) };
    await collectFiles(entries, "", await readRules(entries), into);
    return into;
}

/** A relative path that the trainer's configuration names but that is not among the files. */
export function missingDataPath(config: string, uploads: readonly Upload[]): string | undefined {
    if (!/^trainer:/m.test(config)) return undefined;
    const named = config.matchAll(/^[^#\n]*?\bpath: *["']?([^\s"',}#]+)/gm);
    const isHere = (name: string) =>
        uploads.some(({ path }) => path === name || path.startsWith(`${name}/`));
    return [...named].map(([, name]) => name!).find((name) => !/^[/.]|\$/.test(name) && !isHere(name));
}
