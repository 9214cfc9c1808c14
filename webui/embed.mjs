// node embed.mjs DIST OUT: compresses the files of the built page into OUT, and lists them for
// master/http/page_files.c. The same page gives the same bytes by the same Node.js.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { constants, gzipSync } from "node:zlib";

const BUDGET = 90 * 1024; // bytes of all scripts and styles, compressed

const [dist, out] = process.argv.slice(2).map((path) => resolve(path));
const names = ["index.html", ...readdirSync(join(dist, "assets")).sort().map((name) => `assets/${name}`)];
const lines = [];
let loaded = 0;

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
names.forEach((name, index) => {
    const plain = readFileSync(join(dist, name));
    const packed = gzipSync(plain, { level: constants.Z_BEST_COMPRESSION });
    const tag = createHash("sha256").update(plain).digest("hex").slice(0, 16);
    const path = join(out, `${index}.gz`);
    writeFileSync(path, packed);
    lines.push(`PAGE_FILE(${index}, "${name}", "${tag}", ${packed.length}, "${path}")\n`);
    if (/\.(js|css)$/.test(name)) loaded += packed.length;
});
if (loaded > BUDGET) {
    console.error(`scripts and styles have ${loaded} bytes, compressed; the page may have ${BUDGET}`);
    process.exit(1);
}
writeFileSync(join(out, "page_files.inc"), lines.join(""));
