// A dialog with a form. It closes after a successful submit. After an error it stays open and shows the error.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Call } from "../../lib/api";
import { toast } from "../../lib/toasts";
import { Button } from "../basic/button";
import { CopyAs } from "../basic/copy";
import { Dialog } from "../overlay/dialog";
import { ErrorBox } from "../page/page";

export function FormDialog(props: {
    title: string;
    submitLabel: string;
    onClose: () => void;
    /** Submits the form. The dialog shows the error that it throws. */
    submit: () => Promise<unknown>;
    /** The text of the toast after success. */
    doneText?: string;
    /** The call of the form, to copy as a command. */
    call?: Call;
    wide?: boolean;
    children: ComponentChildren;
}) {
    const form = useRef<HTMLFormElement>(null);
    const error = useSignal<unknown>(undefined);
    const busy = useSignal(false);
    const onSubmit = async (event: Event) => {
        event.preventDefault();
        if (busy.peek()) return;
        busy.value = true;
        error.value = undefined;
        try {
            await props.submit();
            if (props.doneText) toast(props.doneText, "good");
            props.onClose();
        } catch (failure) {
            error.value = failure;
        } finally {
            busy.value = false;
        }
    };
    return (
        <Dialog
            title={props.title}
            onClose={props.onClose}
            wide={props.wide ?? false}
            actions={
                <>
                    {props.call && <CopyAs call={props.call} />}
                    <Button onClick={props.onClose}>Cancel</Button>
                    <Button
                        kind="main"
                        disabled={busy.value}
                        onClick={() => form.current!.requestSubmit()}
                    >
                        {props.submitLabel}
                    </Button>
                </>
            }
        >
            <form ref={form} class="stack" onSubmit={(event) => void onSubmit(event)}>
                {error.value !== undefined && <ErrorBox error={error.value} />}
                {props.children}
                <input type="submit" hidden />
            </form>
        </Dialog>
    );
}
