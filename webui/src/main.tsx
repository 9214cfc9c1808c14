import { render } from "preact";

render(<main>Muster</main>, document.getElementById("app")!);
