// The experiment that the user is about to submit. It is kept while the user visits other pages.

import { computed, signal } from "@preact/signals";
import { confirm } from "../../lib/toasts";
import {
    selectFolder, type FileSelection, mergeUploads, sizeError, totalSize, type Upload,
} from "../../lib/upload/uploads";
import { examples, type Example } from "./examples";

const firstExample = examples[0]!;

export const config = signal(firstExample.config);
export const files = signal<readonly Upload[]>(firstExample.files());
/** The paths that the ignore rules of added folders exclude. */
export const ignored = signal<readonly string[]>([]);
export const folder = signal("FOLDER");
export const template = signal("");
export const projectId = signal("");

const initial = signal({ config: config.value, files: files.value });

export const totalBytes = computed(() => totalSize(files.value));
export const uploadError = computed(() => sizeError(files.value));
export const example = computed(() =>
    examples.find((one) => one.config === config.value && files.value === initial.value.files),
);

function replace(newConfig: string, newFiles: readonly Upload[]): void {
    config.value = newConfig;
    files.value = newFiles;
    initial.value = { config: newConfig, files: newFiles };
    ignored.value = [];
    folder.value = "FOLDER";
}

export async function startFrom(example: Example): Promise<void> {
    const isChanged = config.value !== initial.value.config || files.value !== initial.value.files;
    const question = {
        title: `Start from “${example.title}”?`,
        text: "This replaces your configuration and files.",
        verb: "Replace",
    };
    if (!isChanged || (await confirm(question))) replace(example.config, example.files());
}

/** The user's own files. The files of an example are dropped when the user adds files. */
function filesToKeep(): readonly Upload[] {
    return files.value === initial.value.files ? [] : files.value;
}

function addSelection(selection: FileSelection): void {
    if (selection.folder) folder.value = selection.folder;
    if (selection.uploads.length) files.value = mergeUploads(filesToKeep(), selection.uploads);
    const all = new Set([...ignored.value, ...selection.ignored]);
    for (const { path } of files.value) all.delete(path); // the user added the file explicitly
    ignored.value = [...all].sort();
}

export function removeAll(): void {
    files.value = [];
    ignored.value = [];
}

export async function addChosen(list: FileList | null): Promise<void> {
    const chosen = [...(list ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
    const root = chosen[0]?.file.webkitRelativePath.split("/")[0];
    addSelection(root ? { ...(await selectFolder(chosen)), folder: root } : { uploads: chosen, ignored: [] });
}

const isYaml = ({ path }: Upload) => /^[^/]+\.ya?ml$/.test(path);

export async function openConfig(file: File): Promise<void> {
    config.value = await file.text();
    files.value = filesToKeep();
}

/** A single YAML file is opened as the configuration; other files are added. */
export async function addDropped(selection: FileSelection): Promise<void> {
    const [only, ...others] = selection.uploads;
    if (only && !others.length && isYaml(only) && !selection.folder) await openConfig(only.file);
    else addSelection(selection);
}
