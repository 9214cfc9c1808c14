// The controls of all charts of a page.

import { view } from "../lib/chart_view";
import { Button } from "./button";
import { type At, Select, Switch } from "./field";
import "./chart_controls.css";

export function ChartControls({ samples }: { samples?: boolean }) {
    const { x, zoom, smooth, logX, logY } = view;
    return (
        <div class="line chart-controls">
            {zoom.value && (
                <Button icon="refresh" onClick={() => (zoom.value = null)}>
                    Show all of x
                </Button>
            )}
            <Select
                label="x"
                at={x as At<string>}
                options={[
                    { value: "step", title: "steps" },
                    { value: "elapsed", title: "time since the start" },
                    { value: "time", title: "clock" },
                    ...(samples ? [{ value: "samples", title: "samples" }] : []),
                ]}
            />
            <label class="chart-smooth">
                <span class="muted">Smoothing</span>
                <input
                    type="range"
                    min="0"
                    max="0.99"
                    step="0.01"
                    value={smooth.value}
                    onInput={(event) => (smooth.value = Number(event.currentTarget.value))}
                />
                <output class="num">{smooth.value.toFixed(2)}</output>
            </label>
            <Switch label="log x" at={logX} />
            <Switch label="log y" at={logY} />
        </div>
    );
}
