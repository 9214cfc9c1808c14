import { Head } from "../../parts";

export function Page() {
    return (
        <main>
            <Head title="Experiments" />
        </main>
    );
}
