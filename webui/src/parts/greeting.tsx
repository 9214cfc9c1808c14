// The way to a first experiment, for a cluster that has had none.

import { get } from "../lib/api";
import { quote } from "../lib/commands";
import { count } from "../lib/format";
import { useLoad } from "../lib/load";
import { user } from "../lib/session";
import type { Agent } from "../lib/types";
import { Copy } from "./copy";
import { Icon } from "./icon";
import "./greeting.css";

function Step(props: { title: string; command: string; done?: string | undefined }) {
    return (
        <li class="greeting-step">
            <h3>{props.title}</h3>
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
            <h2 id="greeting">Three commands to a first experiment</h2>
            <ol class="stack">
                <Step
                    title="Bring a machine in, with the token that lies in the master's data folder"
                    command={`muster-agent --master ${master} --token-file agent.token`}
                    done={agents > 0 ? `${count(agents, "agent")} connected` : undefined}
                />
                <Step
                    title="Sign in on the command line"
                    command={`muster --master ${master} login ${quote(user.value?.username ?? "")}`}
                />
                <Step
                    title="Submit an example, from a clone of Muster's repository"
                    command="muster experiment create examples/hello/experiment.yaml examples/hello --follow"
                />
            </ol>
            <p class="muted">
                Or submit one <a href="/experiments/new">in the browser</a>: it needs nothing but an agent. What it does
                appears here as it happens.
            </p>
        </section>
    );
}
