// Modal dialogs with the browser's <dialog> element, which keeps the focus inside and closes on Esc.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Button } from "../basic/button";
import "./dialog.css";

const INPUTS = ".dialog-body :is(input:not([type=hidden]), textarea, select):not(:disabled)";

export function Dialog(props: {
    title: string;
    onClose: () => void;
    children: ComponentChildren;
    /** The buttons at the bottom. */
    actions?: ComponentChildren;
    wide?: boolean;
}) {
    const dialog = useRef<HTMLDialogElement>(null);
    const id = useId();
    useEffect(() => {
        const before = document.activeElement;
        dialog.current!.showModal();
        // By default the browser focuses the first control, which is the close button.
        dialog.current!.querySelector<HTMLElement>(INPUTS)?.focus();
        return () => before instanceof HTMLElement && before.focus();
    }, []);
    const onBackdrop = (event: MouseEvent) => {
        if (event.target === dialog.current) props.onClose();
    };
    return (
        <dialog
            ref={dialog}
            class={`dialog${props.wide ? " dialog-wide" : ""}`}
            aria-labelledby={id}
            onCancel={(event) => {
                event.preventDefault();
                props.onClose();
            }}
            onMouseDown={onBackdrop}
        >
            <div class="dialog-box">
                <div class="dialog-head">
                    <h2 id={id}>{props.title}</h2>
                    <Button icon="close" kind="quiet" label="Close" onClick={props.onClose} />
                </div>
                <div class="dialog-body">{props.children}</div>
                {props.actions && <div class="dialog-foot">{props.actions}</div>}
            </div>
        </dialog>
    );
}
