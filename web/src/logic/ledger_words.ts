// Movements of credit in words, and the limits of an account by name.

const KINDS: Record<string, string> = {
  grant: "Granted by an admin",
  hold: "Reserved for a run",
  charge: "Paid for a run",
  reward: "Earned by your machine",
  refund: "Reserve returned",
  release: "Held-back reward paid",
  reversal: "Payment returned",
  fee: "Fee of the pool",
  epoch: "Set aside for a payout",
  payout: "Paid out",
  deposit: "Deposited",
};

/** A negative grant is credit that an admin took back. */
export const movement = (kind: string, availableMicro: bigint) =>
  kind === "grant" && availableMicro < 0n ? "Taken back by an admin" : (KINDS[kind] ?? kind);

export type QuotaName = "weight" | "max_running_devices" | "max_queued_tasks" | "max_priority" | "max_blob_bytes";

/** `bounds`: least, most, and whether the number is whole; a size has none. */
export const QUOTAS: readonly { name: QuotaName; label: string; about: string; bounds?: readonly [number, number, boolean] }[] = [
  { name: "max_running_devices", label: "Devices at once", about: "How many devices its tasks use at the same time.", bounds: [0, 1_000_000, true] },
  { name: "max_queued_tasks", label: "Waiting tasks", about: "How many tasks may wait; more are refused.", bounds: [0, 2 ** 31 - 1, true] },
  { name: "max_priority", label: "Highest priority", about: "From -100 to 100.", bounds: [-100, 100, true] },
  { name: "max_blob_bytes", label: "Stored files", about: "Inputs, outputs and results together." },
  { name: "weight", label: "Share of the pool", about: "With 2 it gets twice as much as an account with 1, while both wait.", bounds: [0.001, 1000, false] },
];
