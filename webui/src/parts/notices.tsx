// Notices and questions of lib/notices, drawn once for the whole page.

import { useEffect, useRef } from "preact/hooks";
import { dismiss, notices, question } from "../lib/notices";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { Icon } from "./icon";
import "./notices.css";

/** Above everything, also above a dialog that was opened before. */
function Toasts() {
    const shown = notices.value;
    const box = useRef<HTMLDivElement>(null);
    useEffect(() => {
        box.current!.hidePopover();
        if (shown.length) box.current!.showPopover();
    }, [shown]);
    return (
        <div aria-live="polite" role="status">
            <div ref={box} class="toasts" popover="manual">
                {shown.map((notice) => (
                    <div key={notice.id} class={`toast toast-${notice.kind}`}>
                        {notice.kind !== "plain" && (
                            <Icon
                                name={notice.kind === "good" ? "check" : "warning"}
                                label={notice.kind === "good" ? "Done" : "Error"}
                            />
                        )}
                        <div class="grow">
                            {notice.text}
                            {notice.more && <div class="muted">{notice.more}</div>}
                        </div>
                        <Button
                            icon="close"
                            kind="quiet"
                            label="Close the notice"
                            onClick={() => dismiss(notice.id)}
                        />
                    </div>
                ))}
            </div>
        </div>
    );
}

function Asked() {
    const asked = question.value;
    if (!asked) return null;
    return (
        <Dialog
            title={asked.title}
            onClose={() => asked.answer(false)}
            actions={
                <>
                    <Button onClick={() => asked.answer(false)}>Leave it</Button>
                    <Button
                        kind={asked.danger ? "danger" : "main"}
                        onClick={() => asked.answer(true)}
                    >
                        {asked.verb}
                    </Button>
                </>
            }
        >
            {asked.text && <p>{asked.text}</p>}
        </Dialog>
    );
}

export function Notices() {
    return (
        <>
            <Toasts />
            <Asked />
        </>
    );
}
