import { actions } from "../lib/actions";
import { Dialog } from "../parts/overlay/dialog";
import { Kbd } from "../parts/page/page";

const fixedKeys: readonly (readonly [string, string])[] = [
    ["Ctrl K", "Open the command palette"],
    ["j", "Next row of a table"],
    ["k", "Previous row"],
    ["x", "Select the row; Shift-click selects a range"],
    ["Enter", "Open the row"],
    ["Esc", "Close the dialog or menu"],
];

/** The dialog with the keyboard shortcuts of the current page. */
export function KeyHelp({ onClose }: { onClose: () => void }) {
    const own = actions.value.flatMap(({ key, name }) => (key ? [[key, name] as const] : []));
    return (
        <Dialog title="Keyboard shortcuts" onClose={onClose}>
            <dl class="facts">
                {[...own, ...fixedKeys].map(([key, name]) => (
                    <>
                        <dt>
                            <Kbd keys={key} />
                        </dt>
                        <dd>{name}</dd>
                    </>
                ))}
            </dl>
        </Dialog>
    );
}
