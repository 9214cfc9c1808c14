import { actions } from "../lib/actions";
import { Dialog } from "../parts/dialog";
import { Kbd } from "../parts/page";

const always: readonly (readonly [string, string])[] = [
    ["Ctrl K", "Find or do anything"],
    ["j", "Next row of a table"],
    ["k", "Row before"],
    ["x", "Choose the row; Shift and a click choose all between"],
    ["Enter", "Open the row"],
    ["Esc", "Close what is open"],
];

/** All keys that do something here and now. */
export function KeyHelp({ onClose }: { onClose: () => void }) {
    const own = actions.value.flatMap(({ key, name }) => (key ? [[key, name] as const] : []));
    return (
        <Dialog title="Keys" onClose={onClose}>
            <dl class="facts">
                {[...own, ...always].map(([key, name]) => (
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
