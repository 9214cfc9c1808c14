// node embed.mjs DIST OUT: compresses the files of the built page into OUT, and lists them in page_files.inc for
// master/http/page_files.c. It fails if a view loads too much. The output is reproducible with the same Node.js.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { constants, gzipSync } from "node:zlib";

const BUDGET = 90 * 1024; // compressed bytes of the scripts and styles that one view may load

const [dist, out] = process.argv.slice(2).map((path) => resolve(path));
const names = ["index.html", ...readdirSync(join(dist, "assets")).sort().map((name) => `assets/${name}`)];
const lines = [];
const sizes = new Map(); // compressed bytes of scripts and styles, by name

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
names.forEach((name, index) => {
    const plain = readFileSync(join(dist, name));
    const packed = gzipSync(plain, { level: constants.Z_BEST_COMPRESSION });
    const tag = createHash("sha256").update(plain).digest("hex").slice(0, 16);
    const path = join(out, `${index}.gz`);
    writeFileSync(path, packed);
    lines.push(`PAGE_FILE(${index}, "${name}", "${tag}", ${packed.length}, "${path}")\n`);
    if (/\.(js|css)$/.test(name)) sizes.set(name, packed.length);
});

// A view loads the frame and its page, each with all their imports.
const manifest = JSON.parse(readFileSync(join(dist, ".vite/manifest.json"), "utf8"));
const frame = Object.keys(manifest).find((key) => manifest[key].isEntry);
function collectFiles(key, into) {
    const { file, css = [], imports = [] } = manifest[key];
    if (into.has(file)) return into;
    [file, ...css].forEach((name) => into.add(name));
    imports.forEach((other) => collectFiles(other, into));
    return into;
}
// Every view loads the workers. They are not in the manifest.
const workers = [...sizes.keys()].filter((name) => name.includes("_worker-"));
for (const page of manifest[frame].dynamicImports ?? []) {
    const loads = [...collectFiles(page, collectFiles(frame, new Set(workers)))];
    const bytes = loads.reduce((sum, name) => sum + (sizes.get(name) ?? 0), 0);
    if (bytes > BUDGET) {
        console.error(`${page} loads ${bytes} bytes; a view may load at most ${BUDGET}. Load parts of it with lazy()`);
        process.exit(1);
    }
}
writeFileSync(join(out, "page_files.inc"), lines.join(""));
