// A dialog with inputs: it sends them, stays open with the master's words when they are refused, and
// closes when they were taken.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Call } from "../lib/api";
import { toast } from "../lib/notices";
import { Button } from "./button";
import { CopyAs } from "./copy";
import { Dialog } from "./dialog";
import { ErrorBox } from "./page";

export function FormDialog(props: {
    title: string;
    verb: string;
    onClose: () => void;
    /** What it throws is shown. */
    submit: () => Promise<unknown>;
    /** Said when it worked. */
    done?: string;
    /** What it does, to copy as a command. */
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
            if (props.done) toast(props.done, "good");
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
                    <Button onClick={props.onClose}>Leave it</Button>
                    <Button
                        kind="main"
                        disabled={busy.value}
                        onClick={() => form.current!.requestSubmit()}
                    >
                        {props.verb}
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
