// The way to a first experiment, for a cluster that has had none.

import { get } from "../lib/api";
import { quote } from "../lib/commands";
import { count } from "../lib/format";
import { useLoad } from "../lib/load";
import { user } from "../lib/session";
import type { Agent } from "../lib/types";
import { LinkButton } from "./button";
import { Copy } from "./copy";
import { Icon } from "./icon";
import "./greeting.css";

function Step(props: { title: string; command: string; done?: string | undefined }) {
    return (
        <li class="greeting-step">
            <h4>{props.title}</h4>
            {props.done ? (
                <p class="line good">
                    <Icon name="check" /> {props.done}
                </p>
            ) : (
                <div class="greeting-command">
                    <code>{props.command}</code>
                    <Copy text={props.command} label={`Copy: ${props.title}`} />
                </div>
            )}
        </li>
    );
}

export function Greeting() {
    const load = useLoad((abort) => get<{ agents: Agent[] }>("/agents", {}, abort), {
        topics: ["agents"],
    });
    const agents = load.data.value?.agents.length ?? 0;
    const master = quote(location.origin);
    return (
        <section class="card greeting" aria-labelledby="greeting">
            <h2 id="greeting">A first experiment</h2>
            <div class="greeting-ways">
                <section class="stack" aria-labelledby="greeting-here">
                    <h3 id="greeting-here">Here, in the browser</h3>
                    <p>
                        The form has an example in it that runs as it stands: a small network learns to tell two
                        spirals apart, in some seconds, on one slot of any kind.
                    </p>
                    <div>
                        <LinkButton href="/experiments/new" icon="plus" main>
                            New experiment
                        </LinkButton>
                    </div>
                    {load.data.value && agents === 0 && (
                        <p class="muted">
                            <Icon name="clock" /> No machine has come in yet. What you submit waits, and begins when
                            the first one does.
                        </p>
                    )}
                </section>
                <section class="stack" aria-labelledby="greeting-commands">
                    <h3 id="greeting-commands">Or by command</h3>
                    <ol class="stack">
                        <Step
                            title="Bring a machine in, with the token that lies in the master's data folder"
                            command={`muster-agent --master ${master} --token-file agent.token`}
                            done={agents > 0 ? `${count(agents, "agent")} connected` : undefined}
                        />
                        <Step
                            title="Sign in"
                            command={`muster --master ${master} login ${quote(user.value?.username ?? "")}`}
                        />
                        <Step
                            title="Submit an example, from a clone of Muster's repository"
                            command="muster experiment create examples/hello/experiment.yaml examples/hello --follow"
                        />
                    </ol>
                </section>
            </div>
            <p class="muted">What an experiment does appears on this page as it happens.</p>
        </section>
    );
}
