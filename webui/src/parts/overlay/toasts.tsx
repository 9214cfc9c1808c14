// Renders the toasts and the confirmation dialog of lib/toasts.ts.

import { useEffect, useRef } from "preact/hooks";
import { dismiss, toastList, confirmation } from "../../lib/toasts";
import { Button } from "../basic/button";
import { Dialog } from "./dialog";
import { Icon } from "../basic/icon";
import "./toasts.css";

/** The popover stays above everything, including dialogs that were opened before. */
function Toasts() {
    const shown = toastList.value;
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
                            {notice.details && <div class="muted">{notice.details}</div>}
                        </div>
                        <Button
                            icon="close"
                            kind="quiet"
                            label="Close the message"
                            onClick={() => dismiss(notice.id)}
                        />
                    </div>
                ))}
            </div>
        </div>
    );
}

function ConfirmationDialog() {
    const question = confirmation.value;
    if (!question) return null;
    return (
        <Dialog
            title={question.title}
            onClose={() => question.answer(false)}
            actions={
                <>
                    <Button onClick={() => question.answer(false)}>Go back</Button>
                    <Button
                        kind={question.danger ? "danger" : "main"}
                        onClick={() => question.answer(true)}
                    >
                        {question.verb}
                    </Button>
                </>
            }
        >
            {question.text && <p>{question.text}</p>}
        </Dialog>
    );
}

export function Notifications() {
    return (
        <>
            <Toasts />
            <ConfirmationDialog />
        </>
    );
}
