// Buttons that copy to the clipboard.

import type { Call } from "../../lib/api";
import { copyText } from "../../lib/clipboard";
import { Button } from "./button";
import { copyItems, Menu } from "../overlay/menu";

export function Copy({ text, label }: { text: string; label: string }) {
    return <Button icon="copy" kind="quiet" label={label} onClick={() => void copyText(text)} />;
}

/** A menu that copies a call as a muster command or as a curl command. */
export function CopyAs({ call, name = "Copy" }: { call: Call; name?: string }) {
    return (
        <Menu label={`${name} as a command`} icon="copy" items={copyItems([{ name, call }])} />
    );
}
