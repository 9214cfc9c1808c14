// What stands where experiments will be.

import { quote } from "../../lib/commands";
import { user } from "../../lib/session";
import { Copy } from "../../parts/copy";
import { Empty } from "../../parts/page";

export function Greeting() {
    const name = user.value?.username ?? "determined";
    const lines = [
        ["Sign in from your terminal", `muster login ${quote(name)} --master ${location.origin}`],
        [
            "Submit the smallest experiment there is",
            "muster experiment create examples/hello/experiment.yaml examples/hello --follow",
        ],
        ["Then one that trains", "muster experiment create examples/mnist.yaml mnist --follow"],
    ] as const;
    return (
        <Empty title="No experiment has run here yet" icon="experiments">
            <p>Three commands, from a clone of Muster, lead to the first:</p>
            <ol class="greeting">
                {lines.map(([what, line]) => (
                    <li key={line}>
                        <span>{what}</span>
                        <span class="greeting-line">
                            <code>{line}</code>
                            <Copy text={line} label={`Copy: ${what}`} />
                        </span>
                    </li>
                ))}
            </ol>
            <p>It appears here by itself.</p>
        </Empty>
    );
}
