// The configuration as submitted, with all defaults, or compared with the parent's; and the submitted files.

import { useSignal } from "@preact/signals";
import { get, send } from "../../lib/api";
import { saveFile } from "../../lib/download";
import { bytes } from "../../lib/format";
import { useLoad } from "../../lib/load";
import type { Experiment } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { toYaml } from "../../lib/config/yaml";
import { Button, Copy, Dialog, Loaded, Select } from "../../parts";
import { Code, Diff } from "../../parts/config/code";
import type { OpenDialog } from "./actions";

const shownConfig = queryParam("config", text("submitted"));

const MAX_SHOWN_BYTES = 256 * 1024; // larger files are cut off

function ParentDiff({ experiment }: { experiment: Experiment }) {
    const path = `/experiments/${experiment.forkedFrom}`;
    const parent = useLoad((abort) => get<{ experiment: Experiment }>(path, {}, abort));
    return (
        <Loaded load={parent}>
            {({ experiment: other }) => (
                <Diff
                    before={other.originalConfig ?? ""}
                    after={experiment.originalConfig ?? ""}
                    label={`Changes from experiment ${other.id} to experiment ${experiment.id}`}
                />
            )}
        </Loaded>
    );
}

// --- files ---------------------------------------------------------------------------------------

interface FileNode {
    path: string;
    name: string;
    isDir: boolean;
    contentLength: number;
    files?: FileNode[];
}

const flattenFiles = (nodes: readonly FileNode[]): FileNode[] =>
    nodes.flatMap((node) => (node.isDir ? flattenFiles(node.files ?? []) : [node]));

const bytesOf = (base64: string) => Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));

function FileDialog({ id, file, onClose }: { id: number; file: FileNode; onClose: () => void }) {
    const load = useLoad(async (abort) => {
        const path = `/experiments/${id}/file`;
        const answer = await send<{ file: string }>("POST", path, { path: file.path }, abort);
        return bytesOf(answer.file);
    });
    const isText = (content: Uint8Array) => !content.subarray(0, 4096).includes(0);
    return (
        <Dialog wide title={file.path} onClose={onClose}>
            <Loaded load={load}>
                {(content) => (
                    <div class="stack">
                        <div class="spread">
                            <span class="muted">{bytes(content.length)}</span>
                            <Button
                                icon="download"
                                onClick={() =>
                                    saveFile(
                                        file.name,
                                        "application/octet-stream",
                                        new Blob([content as BlobPart]),
                                    )
                                }
                            >
                                Download
                            </Button>
                        </div>
                        {isText(content) ? (
                            <Code
                                text={new TextDecoder().decode(content.subarray(0, MAX_SHOWN_BYTES))}
                                label={file.path}
                            />
                        ) : (
                            <p class="muted">This is not a text file.</p>
                        )}
                    </div>
                )}
            </Loaded>
        </Dialog>
    );
}

function Files({ id }: { id: number }) {
    const tree = useLoad((abort) =>
        get<{ files: FileNode[] }>(`/experiments/${id}/file_tree`, {}, abort),
    );
    const open = useSignal<FileNode | undefined>(undefined);
    return (
        <section class="card stack">
            <h2>Files</h2>
            <Loaded load={tree}>
                {({ files }) => {
                    const all = flattenFiles(files);
                    if (!all.length) return <p class="muted">No files were submitted.</p>;
                    return (
                        <ul class="files">
                            {all.map((file) => (
                                <li key={file.path} class="spread">
                                    <button
                                        type="button"
                                        class="as-link mono"
                                        onClick={() => (open.value = file)}
                                    >
                                        {file.path}
                                    </button>
                                    <span class="muted num">{bytes(file.contentLength)}</span>
                                </li>
                            ))}
                        </ul>
                    );
                }}
            </Loaded>
            {open.value && (
                <FileDialog id={id} file={open.value} onClose={() => (open.value = undefined)} />
            )}
        </section>
    );
}

export function ConfigTab({ experiment, openDialog }: { experiment: Experiment; openDialog: OpenDialog }) {
    const submitted = experiment.originalConfig ?? "";
    const complete = experiment.config ? toYaml(experiment.config) : "";
    const content = shownConfig.value === "complete" ? complete : submitted;
    return (
        <div class="stack">
            <div class="spread">
                <Select
                    label="Show"
                    bind={shownConfig}
                    options={[
                        { value: "submitted", title: "as submitted" },
                        { value: "complete", title: "with all defaults" },
                        { value: "added", title: "added defaults" },
                        ...(experiment.forkedFrom
                            ? [
                                  {
                                      value: "parent",
                                      title: `changes from experiment ${experiment.forkedFrom}`,
                                  },
                              ]
                            : []),
                    ]}
                />
                <div class="line">
                    <Copy text={content} label="Copy the configuration" />
                    <Button
                        icon="download"
                        onClick={() =>
                            saveFile(`experiment-${experiment.id}.yaml`, "application/yaml", content)
                        }
                    >
                        Download
                    </Button>
                    <Button icon="plus" onClick={() => (openDialog.value = "fork")}>
                        Fork with changes
                    </Button>
                </div>
            </div>
            {shownConfig.value === "parent" && experiment.forkedFrom ? (
                <ParentDiff experiment={experiment} />
            ) : shownConfig.value === "added" ? (
                <Diff before={submitted} after={complete} label="Added defaults" />
            ) : (
                <Code text={content} label="Configuration" />
            )}
            <Files id={experiment.id} />
        </div>
    );
}
