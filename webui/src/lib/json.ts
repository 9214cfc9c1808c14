import type { Json, JsonObject } from "./types";

export const isObject = (value: Json | undefined): value is JsonObject =>
    typeof value === "object" && value !== null && !Array.isArray(value);
