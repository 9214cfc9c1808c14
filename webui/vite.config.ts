import { defineConfig } from "vite";

// The master for `npm run dev`. Vite serves the page, reloads it on changes, and passes API calls to this master.
const master = process.env.MUSTER_MASTER ?? "http://127.0.0.1:8080";

export default defineConfig({
    esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
    build: {
        target: "es2022",
        assetsInlineLimit: 0,
        modulePreload: { polyfill: false },
        reportCompressedSize: false,
        manifest: true, // for embed.mjs
    },
    // The Host header stays unchanged, because the master compares it with Origin.
    server: { proxy: { "/api": { target: master, changeOrigin: false } } },
});
