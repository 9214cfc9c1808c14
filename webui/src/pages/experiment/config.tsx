// The configuration: as it was submitted, complete with all defaults, and what differs from its
// parent's; and the files that came with it.

import { useSignal } from "@preact/signals";
import { get, send } from "../../lib/api";
import { save } from "../../lib/download";
import { bytes } from "../../lib/format";
import { useLoad } from "../../lib/load";
import type { Experiment } from "../../lib/types";
import { param, text } from "../../lib/url";
import { toYaml } from "../../lib/yaml";
import { Button, Copy, Dialog, Loaded, Select } from "../../parts";
import { Code, Diff } from "../../parts/code";
import type { Asked } from "./actions";

const shown = param("config", text("submitted"));

const MOST = 256 * 1024; // bytes of a file that is shown

function Parent({ experiment }: { experiment: Experiment }) {
    const path = `/experiments/${experiment.forkedFrom}`;
    const parent = useLoad((abort) => get<{ experiment: Experiment }>(path, {}, abort));
    return (
        <Loaded of={parent}>
            {({ experiment: other }) => (
                <Diff
                    before={other.originalConfig ?? ""}
                    after={experiment.originalConfig ?? ""}
                    label={`From experiment ${other.id} to experiment ${experiment.id}`}
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

const leaves = (nodes: readonly FileNode[]): FileNode[] =>
    nodes.flatMap((node) => (node.isDir ? leaves(node.files ?? []) : [node]));

const bytesOf = (base64: string) => Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));

function File({ id, file, onClose }: { id: number; file: FileNode; onClose: () => void }) {
    const load = useLoad(async (abort) => {
        const path = `/experiments/${id}/file`;
        const answer = await send<{ file: string }>("POST", path, { path: file.path }, abort);
        return bytesOf(answer.file);
    });
    const isText = (content: Uint8Array) => !content.subarray(0, 4096).includes(0);
    return (
        <Dialog wide title={file.path} onClose={onClose}>
            <Loaded of={load}>
                {(content) => (
                    <div class="stack">
                        <div class="spread">
                            <span class="muted">{bytes(content.length)}</span>
                            <Button
                                icon="download"
                                onClick={() =>
                                    save(
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
                                text={new TextDecoder().decode(content.subarray(0, MOST))}
                                label={file.path}
                            />
                        ) : (
                            <p class="muted">It is no text.</p>
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
            <Loaded of={tree}>
                {({ files }) => {
                    const all = leaves(files);
                    if (!all.length) return <p class="muted">It was submitted without files.</p>;
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
                <File id={id} file={open.value} onClose={() => (open.value = undefined)} />
            )}
        </section>
    );
}

export function Config({ experiment, asked }: { experiment: Experiment; asked: Asked }) {
    const submitted = experiment.originalConfig ?? "";
    const complete = experiment.config ? toYaml(experiment.config) : "";
    const content = shown.value === "complete" ? complete : submitted;
    return (
        <div class="stack">
            <div class="spread">
                <Select
                    label="Show"
                    at={shown}
                    options={[
                        { value: "submitted", title: "as submitted" },
                        { value: "complete", title: "complete, with all defaults" },
                        { value: "added", title: "what differs between these" },
                        ...(experiment.forkedFrom
                            ? [
                                  {
                                      value: "parent",
                                      title: `what differs from experiment ${experiment.forkedFrom}`,
                                  },
                              ]
                            : []),
                    ]}
                />
                <div class="line">
                    <Copy text={content} label="Copy it" />
                    <Button
                        icon="download"
                        onClick={() =>
                            save(`experiment-${experiment.id}.yaml`, "application/yaml", content)
                        }
                    >
                        Download
                    </Button>
                    <Button icon="plus" onClick={() => (asked.value = "fork")}>
                        Fork with changes
                    </Button>
                </div>
            </div>
            {shown.value === "parent" && experiment.forkedFrom ? (
                <Parent experiment={experiment} />
            ) : shown.value === "added" ? (
                <Diff before={submitted} after={complete} label="What defaults add" />
            ) : (
                <Code text={content} label="Configuration" />
            )}
            <Files id={experiment.id} />
        </div>
    );
}
