// The files of the new experiment, and the buttons that add files.

import { useRef } from "preact/hooks";
import { saveFile } from "../../lib/download";
import { bytes, count } from "../../lib/format";
import { IGNORE_FILES } from "../../lib/upload/ignore_rules";
import { toastError } from "../../lib/toasts";
import { UPLOAD_MAX } from "../../lib/upload/uploads";
import { Bar, Button } from "../../parts";
import { addChosen, files, ignored, uploadError, removeAll, totalBytes } from "./draft";

const MAX_SHOWN = 200;

/** A button that opens the browser's dialog for files or for a folder. */
function FileButton({ name, isFolder = false }: { name: string; isFolder?: boolean }) {
    const input = useRef<HTMLInputElement>(null);
    const onChange = () => {
        addChosen(input.current!.files).catch(toastError);
        input.current!.value = ""; // allows the same files to be chosen again
    };
    return (
        <>
            <input
                ref={input}
                type="file"
                hidden
                multiple
                aria-label={name}
                {...(isFolder ? { webkitdirectory: true } : {})}
                onChange={onChange}
            />
            <Button icon="plus" onClick={() => input.current!.click()}>
                {name}
            </Button>
        </>
    );
}

function FileList() {
    const all = files.value;
    return (
        <ul class="new-files" aria-label="Files" tabIndex={0}>
            {all.slice(0, MAX_SHOWN).map((one) => (
                <li key={one.path}>
                    <button
                        type="button"
                        class="new-file"
                        title="Download this file"
                        onClick={() => saveFile(one.file.name, one.file.type, one.file)}
                    >
                        {one.path}
                    </button>
                    <span class="muted num">{bytes(one.file.size)}</span>
                    <Button
                        kind="quiet"
                        icon="close"
                        label={`Remove ${one.path}`}
                        onClick={() => (files.value = all.filter((other) => other !== one))}
                    />
                </li>
            ))}
            {all.length > MAX_SHOWN && <li class="muted">and {count(all.length - MAX_SHOWN, "more file")}</li>}
        </ul>
    );
}

function IgnoredPaths() {
    const all = ignored.value;
    return (
        <details>
            <summary>{count(all.length, "path")} ignored</summary>
            <ul class="new-files mono" aria-label="Ignored" tabIndex={0}>
                {all.slice(0, MAX_SHOWN).map((path) => (
                    <li key={path}>{path}</li>
                ))}
                {all.length > MAX_SHOWN && <li class="muted">and {count(all.length - MAX_SHOWN, "more path")}</li>}
            </ul>
        </details>
    );
}

export function Files() {
    const many = files.value.length;
    return (
        <section class="card stack" aria-labelledby="new-files">
            <div class="spread">
                <h2 id="new-files">Files</h2>
                <span class="muted num" aria-live="polite">
                    {many ? `${count(many, "file")}, ${bytes(totalBytes.value)}` : "none"}
                </span>
            </div>
            {many > 0 && <FileList />}
            {ignored.value.length > 0 && <IgnoredPaths />}
            {totalBytes.value > UPLOAD_MAX / 10 && (
                <Bar
                    value={Math.min(totalBytes.value, UPLOAD_MAX)}
                    max={UPLOAD_MAX}
                    label={`${bytes(totalBytes.value)} of at most ${bytes(UPLOAD_MAX)}`}
                />
            )}
            {uploadError.value && (
                <p class="bad" role="alert">
                    {uploadError.value}
                </p>
            )}
            <div class="line">
                <FileButton name="Add files" />
                <FileButton name="Add a folder" isFolder />
                {many > 1 && (
                    <Button kind="quiet" onClick={removeAll}>
                        Remove all
                    </Button>
                )}
            </div>
            <p class="muted">
                The processes of the experiment start in a folder with these files. Drop files or folders anywhere
                on this page. A folder's {IGNORE_FILES.join(" or ")} excludes files.
            </p>
        </section>
    );
}
