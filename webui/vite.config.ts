import { defineConfig } from "vite";

// The master whose API `npm run dev` shows; its page is then served from here, with reloading.
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
    // Host stays what the browser sent, so that the master finds it equal to the Origin.
    server: { proxy: { "/api": { target: master, changeOrigin: false } } },
});
