export function Page() { return <main />; }
