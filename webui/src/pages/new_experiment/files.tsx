// The files that go with it: what they are, how much, and how more come.

import { useRef } from "preact/hooks";
import { save } from "../../lib/download";
import { bytes, count } from "../../lib/format";
import { IGNORE_FILES } from "../../lib/ignore";
import { toastError } from "../../lib/notices";
import { UPLOAD_MAX } from "../../lib/uploads";
import { Bar, Button } from "../../parts";
import { addChosen, files, leftOut, refused, removeAll, total } from "./draft";

const SHOWN = 200;

/** A button that lets one choose files, or a folder. */
function Choose({ name, isFolder = false }: { name: string; isFolder?: boolean }) {
    const input = useRef<HTMLInputElement>(null);
    const onChange = () => {
        addChosen(input.current!.files).catch(toastError);
        input.current!.value = ""; // so that the same can be chosen again
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

function List() {
    const all = files.value;
    return (
        <ul class="new-files" aria-label="Files" tabIndex={0}>
            {all.slice(0, SHOWN).map((one) => (
                <li key={one.path}>
                    <button
                        type="button"
                        class="new-file"
                        title="Save it on this machine"
                        onClick={() => save(one.file.name, one.file.type, one.file)}
                    >
                        {one.path}
                    </button>
                    <span class="muted num">{bytes(one.file.size)}</span>
                    <Button
                        kind="quiet"
                        icon="close"
                        label={`Leave out ${one.path}`}
                        onClick={() => (files.value = all.filter((other) => other !== one))}
                    />
                </li>
            ))}
            {all.length > SHOWN && <li class="muted">and {count(all.length - SHOWN, "more file")}</li>}
        </ul>
    );
}

function LeftOut() {
    const all = leftOut.value;
    return (
        <details>
            <summary>{count(all.length, "path")} left out</summary>
            <ul class="new-files mono" aria-label="Left out" tabIndex={0}>
                {all.slice(0, SHOWN).map((path) => (
                    <li key={path}>{path}</li>
                ))}
                {all.length > SHOWN && <li class="muted">and {count(all.length - SHOWN, "more path")}</li>}
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
                    {many ? `${count(many, "file")}, ${bytes(total.value)}` : "none"}
                </span>
            </div>
            {many > 0 && <List />}
            {leftOut.value.length > 0 && <LeftOut />}
            {total.value > UPLOAD_MAX / 10 && (
                <Bar
                    value={Math.min(total.value, UPLOAD_MAX)}
                    of={UPLOAD_MAX}
                    label={`${bytes(total.value)} of the ${bytes(UPLOAD_MAX)} that an experiment takes`}
                />
            )}
            {refused.value && (
                <p class="bad" role="alert">
                    {refused.value}
                </p>
            )}
            <div class="line">
                <Choose name="Add files" />
                <Choose name="Add a folder" isFolder />
                {many > 1 && (
                    <Button kind="quiet" onClick={removeAll}>
                        Leave all out
                    </Button>
                )}
            </div>
            <p class="muted">
                Its processes start in a folder with these files. They can be dropped anywhere on this page.
                What {IGNORE_FILES.join(" or ")} in a folder names stays behind.
            </p>
        </section>
    );
}
