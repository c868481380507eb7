// Words for what an operator reads: parts of the server, and why tasks wait.

import { spell } from "./states";

const PARTS: Record<string, string> = {
  database: "Database",
  migrations: "Schema of the database",
  leader: "Leader",
  blobs: "File store",
  disk: "Disk space",
  live: "Wake-ups",
  scheduler: "Scheduler",
  clock: "Clock",
};

const REASONS: Record<string, string> = {
  device_kind: "No device of the requested kind",
  device_model: "No device of the requested model",
  device_memory: "No device with that much memory",
  device_busy: "All suitable devices are busy",
  device_away: "Suitable devices are away",
};

const sentence = (word: string) => {
  const spelled = spell(word);
  return spelled.charAt(0).toUpperCase() + spelled.slice(1);
};

export const partName = (name: string) => PARTS[name] ?? sentence(name);
export const waitReason = (code: string) => REASONS[code] ?? sentence(code);
