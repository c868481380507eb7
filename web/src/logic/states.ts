// What the states of tasks, attempts, nodes and devices look like, and which actions they allow.

export const TASK_STATES = [
  "queued",
  "assigned",
  "running",
  "succeeded",
  "failed",
  "cancelled",
  "expired",
] as const;
export type TaskState = (typeof TASK_STATES)[number];

export type Tone = "good" | "busy" | "wait" | "alarm" | "quiet";

const TONES: Record<string, Tone> = {
  queued: "wait",
  assigned: "busy",
  granted: "busy",
  preparing: "busy",
  running: "busy",
  busy: "busy",
  succeeded: "good",
  failed: "alarm",
  lost: "alarm",
  cancelled: "quiet",
  expired: "quiet",
  online: "good",
  silent: "alarm",
  left: "quiet",
  available: "good",
  paused: "wait",
  outside_hours: "quiet",
  in_use: "wait",
  sick: "alarm",
  draining: "wait",
  pending: "wait",
  firing: "alarm",
  resolved: "good",
};

export const toneOf = (state: string): Tone => TONES[state] ?? "quiet";

export const spell = (word: string) => word.replaceAll("_", " ");

export const isFinal = (state: string) =>
  state === "succeeded" || state === "failed" || state === "cancelled" || state === "expired";

/** Why an action is not possible for a task in this state; null if it is. */
export function refusal(action: "cancel" | "retry", state: string): string | null {
  if (action === "cancel") return isFinal(state) ? `already ${state}` : null;
  return isFinal(state) ? null : `still ${state}`;
}

/** The states in a search parameter such as `queued,running`; unknown words are dropped. */
export function readStates(text: string | undefined): TaskState[] {
  const wanted = new Set((text ?? "").split(","));
  return TASK_STATES.filter((state) => wanted.has(state));
}

export const writeStates = (states: readonly TaskState[]) =>
  states.length === 0 ? undefined : TASK_STATES.filter((state) => states.includes(state)).join(",");

/** The exit status in brackets, unless the sentence before it says it. */
export const exitStatus = (code: number | null, detail: string) =>
  code === null || code === 0 || detail.includes(`exit status ${String(code)}`) ? "" : ` (exit status ${String(code)})`;
