// The controls for all charts of a page.

import { chartView } from "../../lib/chart/chart_view";
import { Button } from "../basic/button";
import { type Binding, Select, Switch } from "../form/field";
import "./chart_controls.css";

export function ChartControls({ samples }: { samples?: boolean }) {
    const { x, zoom, smooth, logX, logY } = chartView;
    return (
        <div class="line chart-controls">
            {zoom.value && (
                <Button icon="refresh" onClick={() => (zoom.value = null)}>
                    Reset zoom
                </Button>
            )}
            <Select
                label="x"
                bind={x as Binding<string>}
                options={[
                    { value: "step", title: "steps" },
                    { value: "elapsed", title: "time since start" },
                    { value: "time", title: "wall clock" },
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
            <Switch label="log x" bind={logX} />
            <Switch label="log y" bind={logY} />
        </div>
    );
}
