// The files of a new experiment: what was chosen or dropped, and what is sent of it.

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

/** A folder's own name is no part of the paths in it, and what git keeps stays behind. */
export function fromFolder(files: Iterable<{ path: string; file: File }>): Upload[] {
    const inside = [...files].map(({ path, file }) => ({ path: path.slice(path.indexOf("/") + 1), file }));
    return inside.filter(({ path }) => path !== ".git" && !path.startsWith(".git/"));
}

/** Why the master would not take so much; undefined: it would. */
export function refusal(count: number, total: number): string | undefined {
    const most = (UPLOAD_MAX / 1e6).toFixed(0);
    if (total > UPLOAD_MAX)
        return `These files are ${Math.ceil(total / 1e6)} MB; an experiment takes ${most} MB. Leave out what it does not need, or let it read large data from a shared folder.`;
    if (count > UPLOAD_FILES_MAX)
        return `These are ${count} files; an experiment takes ${UPLOAD_FILES_MAX}. Pack some of them together.`;
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


async function readFolder(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
    const reader = folder.createReader();
    const all: FileSystemEntry[] = [];
    for (;;) {
        const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
        if (some.length === 0) return all; // it comes in portions
        all.push(...some);
    }
}

async function readEntry(entry: FileSystemEntry, path: string): Promise<Upload[]> {
    if (entry.isFile) {
        const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
        return [{ path, file }];
    }
    if (entry.name === ".git") return [];
    const uploads: Upload[] = [];
    for (const one of await readFolder(entry as FileSystemDirectoryEntry))
        uploads.push(...(await readEntry(one, `${path}/${one.name}`)));
    return uploads;
}

export interface Drop {
    uploads: Upload[];
    /** One folder alone is the experiment's folder; several things keep their names. */
    folder?: string;
}

export async function readDrop(data: DataTransfer): Promise<Drop> {
    const entries = [...data.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
    const lists = await Promise.all(entries.map((entry) => readEntry(entry, entry.name)));
    const [first] = entries;
    if (entries.length !== 1 || !first!.isDirectory) return { uploads: lists.flat() };
    return { uploads: fromFolder(lists.flat()), folder: first!.name };
}
