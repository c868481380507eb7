// The way of a reward as bars: what is taken off hangs from what was there before.

export interface Bar {
  name: string;
  about: string;
  micro: bigint;
  tone: "more" | "less" | "paid";
  start: number; // shares of the whole, for drawing
  end: number;
}

interface Amounts {
  earned_micro: bigint;
  fee_micro: bigint;
  in_epoch_micro: bigint;
  claimable_micro: bigint;
  paid_micro: bigint;
}

export function waterfall(amounts: Amounts): Bar[] {
  const whole = amounts.earned_micro > 0n ? amounts.earned_micro : 1n;
  // In millionths of the whole: exact amounts stay exact, only the drawing is rounded.
  const share = (micro: bigint) => Math.min(1, Math.max(0, Number((micro * 1_000_000n) / whole) / 1e6));
  const { earned_micro, fee_micro, in_epoch_micro, claimable_micro, paid_micro } = amounts;
  const credits = earned_micro - fee_micro - in_epoch_micro - claimable_micro - paid_micro;
  const steps: [string, string, bigint, Bar["tone"]][] = [
    ["Fee", "The operator's part of the rewards.", amounts.fee_micro, "less"],
    ["In the open epoch", "Paid to your account since the last epoch was closed.", amounts.in_epoch_micro, "more"],
    ["Stayed credits", "To be spent in the pool, or spent already.", credits > 0n ? credits : 0n, "more"],
    ["Claimable", "Set aside for a payout.", amounts.claimable_micro, "more"],
    ["Paid out", "Outside of the pool.", amounts.paid_micro, "paid"],
  ];
  const bars: Bar[] = [
    { name: "Earned", about: "Paid for work of your machines, before the fee.", micro: amounts.earned_micro, tone: "more", start: 0, end: share(amounts.earned_micro) },
  ];
  let rest = amounts.earned_micro;
  for (const [name, about, micro, tone] of steps) {
    bars.push({ name, about, micro, tone, start: share(rest - micro), end: share(rest) });
    rest -= micro;
  }
  return bars;
}
