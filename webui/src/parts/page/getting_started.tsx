// Explains how to run a first experiment. Shown while the cluster has none.

import { get } from "../../lib/api";
import { shellQuote } from "../../lib/command_line";
import { count } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { user } from "../../lib/session";
import type { Agent } from "../../lib/types";
import { LinkButton } from "../basic/button";
import { Copy } from "../basic/copy";
import { Icon } from "../basic/icon";
import "./getting_started.css";

function Step(props: { title: string; command: string; done?: string | undefined }) {
    return (
        <li class="getting-started-step">
            <h4>{props.title}</h4>
            {props.done ? (
                <p class="line good">
                    <Icon name="check" /> {props.done}
                </p>
            ) : (
                <div class="getting-started-command">
                    <code>{props.command}</code>
                    <Copy text={props.command} label={`Copy: ${props.title}`} />
                </div>
            )}
        </li>
    );
}

export function GettingStarted() {
    const load = useLoad((abort) => get<{ agents: Agent[] }>("/agents", {}, abort), {
        topics: ["agents"],
    });
    const agentCount = load.data.value?.agents.length ?? 0;
    const master = shellQuote(location.origin);
    return (
        <section class="card getting-started" aria-labelledby="getting-started">
            <h2 id="getting-started">Run your first experiment</h2>
            <div class="getting-started-ways">
                <section class="stack" aria-labelledby="getting-started-here">
                    <h3 id="getting-started-here">In the browser</h3>
                    <p>
                        The form contains a complete example: a small network learns to separate two spirals. It
                        takes a few seconds on one slot of any kind.
                    </p>
                    <div>
                        <LinkButton href="/experiments/new" icon="plus" main>
                            New experiment
                        </LinkButton>
                    </div>
                    {load.data.value && agentCount === 0 && (
                        <p class="muted">
                            <Icon name="clock" /> No agent is connected yet. Experiments wait in the queue until the first one connects.
                        </p>
                    )}
                </section>
                <section class="stack" aria-labelledby="getting-started-commands">
                    <h3 id="getting-started-commands">On the command line</h3>
                    <ol class="stack">
                        <Step
                            title="Let a machine join, as an administrator: the command prints what to run there"
                            command={`muster --master ${master} agent enroll`}
                            done={agentCount > 0 ? `${count(agentCount, "agent")} connected` : undefined}
                        />
                        <Step
                            title="Sign in"
                            command={`muster --master ${master} login ${shellQuote(user.value?.username ?? "")}`}
                        />
                        <Step
                            title="Submit an example from a clone of Muster's repository"
                            command="muster experiment create examples/hello/experiment.yaml examples/hello --follow"
                        />
                    </ol>
                </section>
            </div>
            <p class="muted">This page updates live.</p>
        </section>
    );
}
