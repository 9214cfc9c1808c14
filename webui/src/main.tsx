// The entry point of the page.

import { render } from "preact";
import { toastError } from "./lib/toasts";
import { readSession, user } from "./lib/session";
import { watchTheme } from "./lib/theme";
import { watchLinks } from "./lib/url";
import { Notifications } from "./parts/overlay/toasts";
import { Frame } from "./shell/frame";
import { watchKeys } from "./shell/keys";
import { openPalette } from "./shell/palette";
import { SignIn } from "./shell/sign_in";
import "./style/tokens.css";
import "./style/base.css";

function App() {
    return (
        <>
            {user.value === null ? <SignIn /> : <Frame />}
            <Notifications />
        </>
    );
}

watchTheme();
watchLinks();
watchKeys(openPalette);
readSession().catch(toastError);
render(<App />, document.getElementById("app")!);
