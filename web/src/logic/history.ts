// A history of the pool as columns of plots: steps without an ended task are zero, not left out.

export interface Steps {
  times: number[];
  succeeded: number[];
  failed: number[];
  waitMedian: (number | null)[];
  waitMost: (number | null)[];
}

interface Point {
  at: string;
  succeeded: number;
  failed: number;
  stopped: number;
  wait_median_seconds: number | null;
  wait_p95_seconds: number | null;
}

interface History {
  since: string;
  until: string;
  step_seconds: number;
  points: readonly Point[];
}

const MOST_STEPS = 2_000;

export function fillSteps(history: History): Steps {
  const step = history.step_seconds;
  const known = new Map(history.points.map((point) => [Math.round(Date.parse(point.at) / 1000), point]));
  const end = Math.floor(Date.parse(history.until) / 1000 / step) * step;
  const first = Math.floor(Date.parse(history.since) / 1000 / step) * step + step;
  const count = Math.min(MOST_STEPS, Math.max(0, Math.round((end - first) / step) + 1));
  const times = Array.from({ length: count }, (_, index) => first + index * step);
  const of = (time: number) => known.get(time);
  return {
    times,
    succeeded: times.map((time) => of(time)?.succeeded ?? 0),
    failed: times.map((time) => of(time)?.failed ?? 0),
    waitMedian: times.map((time) => of(time)?.wait_median_seconds ?? null),
    waitMost: times.map((time) => of(time)?.wait_p95_seconds ?? null),
  };
}

export function sumOf(points: readonly Point[]) {
  const total = { succeeded: 0, failed: 0, stopped: 0 };
  for (const point of points) {
    total.succeeded += point.succeeded;
    total.failed += point.failed;
    total.stopped += point.stopped;
  }
  return total;
}
