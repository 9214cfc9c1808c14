// What one is about to submit. It stays while one looks at other pages.

import { computed, signal } from "@preact/signals";
import { confirm } from "../../lib/notices";
import { fromFolder, type Gathered, joined, refusal, totalOf, type Upload } from "../../lib/uploads";
import { examples, type Example } from "./examples";

const first = examples[0]!;

export const config = signal(first.config);
export const files = signal<readonly Upload[]>(first.files());
/** What the rules of folders that were given have left out. */
export const leftOut = signal<readonly string[]>([]);
export const folder = signal("FOLDER");
export const template = signal("");
export const projectId = signal("");

const given = signal({ config: config.value, files: files.value });

export const total = computed(() => totalOf(files.value));
export const refused = computed(() => refusal(files.value));
export const example = computed(() =>
    examples.find((one) => one.config === config.value && files.value === given.value.files),
);

function replace(newConfig: string, newFiles: readonly Upload[]): void {
    config.value = newConfig;
    files.value = newFiles;
    given.value = { config: newConfig, files: newFiles };
    leftOut.value = [];
    folder.value = "FOLDER";
}

export async function begin(with_: Example): Promise<void> {
    const isChanged = config.value !== given.value.config || files.value !== given.value.files;
    const question = {
        title: `Begin with “${with_.title}”?`,
        text: "What stands here, and the files, are replaced.",
        verb: "Replace",
    };
    if (!isChanged || (await confirm(question))) replace(with_.config, with_.files());
}

/** The files of an example go when one brings one's own. */
function ownFiles(): readonly Upload[] {
    return files.value === given.value.files ? [] : files.value;
}

function add(given: Gathered): void {
    if (given.folder) folder.value = given.folder;
    if (given.uploads.length) files.value = joined(ownFiles(), given.uploads);
    const all = new Set([...leftOut.value, ...given.leftOut]);
    for (const { path } of files.value) all.delete(path); // it was given by itself
    leftOut.value = [...all].sort();
}

export function removeAll(): void {
    files.value = [];
    leftOut.value = [];
}

export async function addChosen(list: FileList | null): Promise<void> {
    const chosen = [...(list ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
    const root = chosen[0]?.file.webkitRelativePath.split("/")[0];
    add(root ? { ...(await fromFolder(chosen)), folder: root } : { uploads: chosen, leftOut: [] });
}

const isYaml = ({ path }: Upload) => /^[^/]+\.ya?ml$/.test(path);

export async function openConfig(file: File): Promise<void> {
    config.value = await file.text();
    files.value = ownFiles();
}

/** One YAML file alone is the configuration. */
export async function addDropped(given: Gathered): Promise<void> {
    const [only, ...others] = given.uploads;
    if (only && !others.length && isYaml(only) && !given.folder) await openConfig(only.file);
    else add(given);
}
