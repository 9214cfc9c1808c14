// Things to take along by the clipboard.

import type { Call } from "../lib/api";
import { copyText } from "../lib/clipboard";
import { Button } from "./button";
import { copyItems, Menu } from "./menu";

export function Copy({ text, label }: { text: string; label: string }) {
    return <Button icon="copy" kind="quiet" label={label} onClick={() => void copyText(text)} />;
}

/** A call as a muster command or for curl. */
export function CopyAs({ call, name = "Copy" }: { call: Call; name?: string }) {
    return (
        <Menu label={`${name}: as a command`} icon="copy" items={copyItems([{ name, call }])} />
    );
}
