// The sign-in form. The address stays, so the user arrives at the wanted page after signing in.

import { signal } from "@preact/signals";
import { useSignal } from "@preact/signals";
import { ApiError } from "../lib/api";
import { errorText } from "../lib/toasts";
import { signIn } from "../lib/session";
import { Button } from "../parts/basic/button";
import { Field, TextInput } from "../parts/form/field";
import { ErrorBox, useTitle } from "../parts/page/page";
import { Logo } from "./logo";

const username = signal("");

export function SignIn() {
    useTitle("Sign in");
    const password = useSignal("");
    const busy = useSignal(false);
    const failure = useSignal<unknown>(undefined);
    const refused = failure.value instanceof ApiError && /^40[13]$/.test(String(failure.value.status));
    const submit = async (event: Event) => {
        event.preventDefault();
        busy.value = true;
        try {
            await signIn(username.value, password.value);
        } catch (error) {
            failure.value = error;
        }
        busy.value = false;
    };
    return (
        <main class="sign-in">
            <form class="card sign-in-form" onSubmit={(event) => void submit(event)}>
                <h1 class="sign-in-title">
                    <Logo /> Muster
                </h1>
                {failure.value !== undefined && !refused && <ErrorBox error={failure.value} />}
                <Field label="User">
                    <TextInput bind={username} autocomplete="username" required autofocus />
                </Field>
                <Field
                    label="Password"
                    error={refused ? errorText(failure.value) : undefined}
                >
                    <TextInput
                        bind={password}
                        type="password"
                        autocomplete="current-password"
                    />
                </Field>
                <Button type="submit" kind="main" disabled={busy.value}>
                    Sign in
                </Button>
                <p class="muted">
                    No account? An administrator can create one under Admin, or with{" "}
                    <code>muster user create</code>.
                </p>
            </form>
        </main>
    );
}
