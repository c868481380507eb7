// A field that the server refuses, named as on the form, with its bounds as people write them.

import { formatBytes } from "./numbers";
import type { TaskOption } from "./option_values";
import { TASK_OPTIONS } from "./request";
import { formatDuration } from "./time";

const REFUSED = /^The body is not valid: (.+) - at `?\$\.([a-z_.]+)/s;
const BOUND = /a (?:whole )?number of (\d+(?:\.\d+)?) or/;

/** The sentence for a person; null if the message is not about an option. */
export function refusedField(message: string): string | null {
  const [, what, path] = REFUSED.exec(message) ?? [];
  const option = TASK_OPTIONS.find((each) => each.field === path);
  if (what === undefined || option === undefined) return null;
  return `${option.title}: ${what.replace(BOUND, (all, bound: string) => writeBound(option, Number(bound)) ?? all)}.`;
}

function writeBound({ reader }: TaskOption, bound: number): string | null {
  if (reader === "size") return `${formatBytes(bound)} or`;
  return reader === "time" ? `${formatDuration(bound)} or` : null;
}
