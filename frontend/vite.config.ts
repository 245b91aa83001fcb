import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `npm run dev` talks to a control plane that is already running.
const controlPlane = process.env.TANDEM_CONTROL_PLANE ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [react()],
  resolve: {
    alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) },
  },
  server: {
    proxy: {
      "/api": controlPlane,
      "/ws": { target: controlPlane, ws: true },
    },
  },
  build: {
    target: "es2022",
    // One file: it comes from the control plane itself, once.
    chunkSizeWarningLimit: 1000,
  },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/testing/setup.ts"],
    pool: "threads",
    maxWorkers: 1,
  },
});
