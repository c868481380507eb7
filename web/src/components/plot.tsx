// A small line plot. The values are also readable without it: each plot has a sentence as its name.

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "../theme";

export interface Series {
  label: string;
  values: (number | null)[];
  color?: "accent" | "busy" | "good" | "wait" | "alarm";
}

const TWO_DAYS = 2 * 86_400;
const MINUTES = 240;

/** A time of day, or a date if the plot covers days. */
function timeText(times: number[]) {
  const seconds = (times.at(-1) ?? 0) - (times[0] ?? 0);
  const options: Intl.DateTimeFormatOptions =
    seconds > TWO_DAYS
      ? { month: "short", day: "numeric" }
      : { hour: "2-digit", minute: "2-digit", ...(seconds < MINUTES ? { second: "2-digit" } : {}) };
  const format = new Intl.DateTimeFormat(undefined, options);
  return (tick: number) => format.format(tick * 1000);
}

/** In a range of less than a second all ticks have the same text. */
const withoutRepeats = (texts: string[]) => texts.map((text, index) => (text === texts[index - 1] ? "" : text));

export function Plot({
  label,
  times,
  series,
  unit = "",
  height = 140,
  range,
  bars = false,
  isFilled = false,
}: {
  label: string;
  times: number[];
  series: Series[];
  unit?: string;
  height?: number;
  range?: [number, number];
  bars?: boolean;
  isFilled?: boolean;
}) {
  const place = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const element = place.current;
    if (element === null || times.length === 0) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const axis = {
      stroke: color("soft"),
      grid: { stroke: color("line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui",
    };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height,
        padding: [8, 28, 0, 0],
        legend: { show: false },
        cursor: { y: false },
        scales: { y: { range: range ?? ((_, __, most) => [0, Math.max(1, most * 1.1)]) } },
        axes: [
          { ...axis, size: 26, space: 70, values: (_, ticks) => withoutRepeats(ticks.map(timeText(times))) },
          { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => `${tick.toLocaleString()}${unit}`) },
        ],
        series: [
          {},
          ...series.map((each) => ({
            label: each.label,
            stroke: color(each.color ?? "accent"),
            width: 1.5,
            fill: bars || isFilled || series.length === 1 ? `color-mix(in srgb, ${color(each.color ?? "accent")} 18%, transparent)` : "",
            // A value between two gaps has no line, and is drawn as a point.
            points: { show: each.values.some((value, at) => value !== null && each.values[at - 1] == null && each.values[at + 1] == null), size: 5, fill: color(each.color ?? "accent") },
            spanGaps: false,
            ...(bars && uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.7, 40] }) } : {}),
          })),
        ],
      },
      [times, ...series.map((each) => each.values)],
      element,
    );
    const watcher = new ResizeObserver(() => { plot.setSize({ width: element.clientWidth, height }); });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.destroy();
    };
  }, [times, series, unit, height, range, bars, isFilled, theme]);
  return <div ref={place} role="img" aria-label={label} className="w-full overflow-hidden" style={{ minHeight: height }} />;
}
