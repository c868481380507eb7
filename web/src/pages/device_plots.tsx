// The last hour of a device: utilisation, temperature, memory and power, as far as it reports them.

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type Schemas, api, value } from "../api/client";
import { Loading, ProblemNote } from "../components/basics";
import { Plot, type Series } from "../components/plot";

type Sample = Schemas["DeviceSample"];

const PLOTS: { title: string; unit: string; of: (sample: Sample) => number | null; color: Series["color"]; range?: [number, number] }[] = [
  { title: "Utilisation", unit: " %", of: (sample) => sample.utilisation_percent, color: "accent", range: [0, 100] },
  { title: "Memory", unit: " GiB", of: (sample) => (sample.memory_used_bytes === null ? null : sample.memory_used_bytes / 2 ** 30), color: "busy" },
  { title: "Temperature", unit: " °C", of: (sample) => sample.temperature_celsius, color: "alarm" },
  { title: "Power", unit: " W", of: (sample) => sample.power_watts, color: "wait" },
];

/** With a time, the part of the hour in which a task ran. */
export function DevicePlots({ deviceId, from, until }: { deviceId: string; from?: string; until?: string | null }) {
  const history = useQuery({
    queryKey: ["device", deviceId, "history"],
    queryFn: ({ signal }) => value(api.GET("/v1/devices/{device_id}/history", { params: { path: { device_id: deviceId } }, signal })),
    refetchInterval: 30_000,
  });
  const all = history.data?.samples;
  const samples = useMemo(() => (from === undefined ? all : all?.filter((sample) => sample.at >= from && (until == null || sample.at <= until))), [all, from, until]);
  const plots = useMemo(() => {
    if (samples === undefined) return [];
    const times = samples.map((sample) => Date.parse(sample.at) / 1000);
    return PLOTS.map((plot) => ({ ...plot, times, values: samples.map(plot.of) }))
      .filter((plot) => plot.values.some((each) => each !== null))
      .map((plot) => ({ ...plot, series: [{ label: plot.title, values: plot.values, color: plot.color ?? "accent" }] satisfies Series[] }));
  }, [samples]);
  if (history.isPending) return <Loading rows={2} />;
  if (history.isError) return <ProblemNote error={history.error} />;
  if (from !== undefined && (samples ?? []).length < 2) {
    return <p className="text-sm text-soft">It was too short for a plot, or is more than an hour ago: a machine measures its devices every few seconds, and the server keeps the last hour.</p>;
  }
  if (plots.length === 0) return <p className="text-sm text-soft">This device reports no measurements, or none of the last hour has arrived yet.</p>;
  return (
    <div className="grid grid-cols-1 gap-4 sm:grid-cols-2">
      {plots.map((plot) => {
        const last = plot.values.findLast((each) => each !== null);
        const text = last == null ? "–" : `${last.toLocaleString(undefined, { maximumFractionDigits: 1 })}${plot.unit}`;
        return (
          <figure key={plot.title} className="min-w-0">
            <figcaption className="mb-1 flex justify-between text-sm"><span className="text-soft">{plot.title}</span><span className="font-medium">{text}</span></figcaption>
            <Plot label={`${plot.title} ${from === undefined ? "in the last hour, now" : "while it ran, last"} ${text}`} times={plot.times} series={plot.series} unit={plot.unit} height={120} {...(plot.range ? { range: plot.range } : {})} />
          </figure>
        );
      })}
    </div>
  );
}
