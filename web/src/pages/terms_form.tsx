// The owner's terms for a device: price, hours of the week, limits.

import { useState } from "react";
import { type Schemas, api, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { useSuggestion } from "../api/market";
import type { Device, Node } from "../api/nodes";
import { Button, ProblemNote } from "../components/basics";
import { Check, TextField } from "../components/field";
import { WeekGrid } from "../components/week_grid";
import { formatCredits, parseCredits } from "../logic/credits";
import { parseHours } from "../logic/hours";
import { rangeSentence, readNumber } from "../logic/numbers";
import { PriceHistory } from "./price_history";

type Change = Schemas["TermsChange"];

// Of each number: least, most, and whether it is whole. What is optional may be empty.
const IDLE = [0, 10_080, false] as const;
const PERCENT = [1, 100, false] as const;
const WATTS = [1, 100_000, true] as const;
const TASKS = [1, 1000, true] as const;

export function TermsForm({ node, device }: { node: Node; device: Device }) {
  const { terms } = device.description;
  const refreshAll = useRefresh();
  const suggestion = useSuggestion(device.id);
  const low = suggestion.data?.low_micro_per_hour;
  const [price, setPrice] = useState(plain(terms.price_micro_per_hour));
  const [hours, setHours] = useState(terms.hours);
  const [idle, setIdle] = useState(String(terms.idle_minutes));
  const [memory, setMemory] = useState(String(exact(terms.memory_share * 100)));
  const [power, setPower] = useState(terms.power_watts === null ? "" : String(terms.power_watts));
  const [fractions, setFractions] = useState(terms.fractions === null ? "" : String(terms.fractions));
  const [isReclaimable, setReclaimable] = useState(terms.is_reclaimable);
  const [shares, setShares] = useState(terms.shares_accounts);
  const [known, setKnown] = useState<Change>(terms);
  const [error, setError] = useState<unknown>(null);
  const [said, setSaid] = useState("");
  const micro = parseCredits(price);
  const isPriceWrong = micro === null || micro < 0n;
  const areHoursWrong = parseHours(hours) === null;
  const idleMinutes = readNumber(idle, ...IDLE);
  const percent = readNumber(memory, ...PERCENT);
  const watts = readNumber(power, ...WATTS);
  const isPowerWrong = power.trim() !== "" && watts === null;
  const most = readNumber(fractions, ...TASKS);
  const areTasksWrong = fractions.trim() !== "" && most === null;
  const isWrong = isPriceWrong || areHoursWrong || idleMinutes === null || percent === null || isPowerWrong || areTasksWrong;
  const save = async () => {
    if (isWrong) return;
    setError(null);
    setSaid("");
    // Compared with what was sent last: the machine may not have applied that yet.
    const wanted: Change = {
      price_micro_per_hour: micro,
      hours: hours.trim().toLowerCase() === "always" ? "" : hours.trim(),
      idle_minutes: idleMinutes,
      memory_share: exact(percent / 100),
      power_watts: watts,
      fractions: most,
      is_reclaimable: isReclaimable,
      shares_accounts: shares,
    };
    const changed = Object.entries(wanted).filter(([name, each]) => each !== known[name as keyof Change]);
    const change: Change = { devices: [device.description.uuid], ...Object.fromEntries(changed) };
    if (Object.keys(change).length === 1) {
      setSaid("Nothing has changed.");
      return;
    }
    try {
      await value(api.PATCH("/v1/nodes/{node_id}/terms", { params: { path: { node_id: node.id } }, body: change }));
      setKnown({ ...known, ...wanted });
      setSaid("Sent. The machine applies it with its next heartbeat.");
      await refreshAll(["nodes"], ["node", node.id]);
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <details className="mt-4 border-t border-line pt-4">
      <summary className="font-medium text-accent">Price, hours and limits</summary>
      <form className="mt-4 grid gap-5" onSubmit={(event) => { event.preventDefault(); void save(); }}>
        <div className="grid gap-3 sm:grid-cols-3">
          <TextField
            label="Price in credits for an hour of the whole device"
            inputMode="decimal"
            value={price}
            problem={isPriceWrong ? "Write an amount, such as 0.25 or 1000. 0 is free." : null}
            hint={
              <>
                {suggestion.data?.sentence ?? "0 is free."}{" "}
                {low != null && <button type="button" className="text-accent underline" onClick={() => { setPrice(plain(low)); }}>Use {plain(low)}</button>}
              </>
            }
            onChange={(event) => { setPrice(event.target.value); }}
          />
          <TextField label="Only after this many idle minutes" inputMode="decimal" hint="0: also while you work." problem={idleMinutes === null ? rangeSentence(...IDLE) : null} value={idle} onChange={(event) => { setIdle(event.target.value); }} />
          <TextField label="Share of its memory, in percent" inputMode="decimal" problem={percent === null ? rangeSentence(...PERCENT) : null} value={memory} onChange={(event) => { setMemory(event.target.value); }} />
          <TextField label="Highest power, in watts" inputMode="numeric" hint="Empty: no limit of yours." problem={isPowerWrong ? rangeSentence(...WATTS) : null} value={power} onChange={(event) => { setPower(event.target.value); }} />
          <TextField label="Most tasks at once" inputMode="numeric" hint="Empty: no limit." problem={areTasksWrong ? rangeSentence(...TASKS) : null} value={fractions} onChange={(event) => { setFractions(event.target.value); }} />
          <div className="grid content-center gap-2">
            <Check label="I may take it back at any moment" hint="Tasks are told before they start." checked={isReclaimable} onChange={(event) => { setReclaimable(event.target.checked); }} />
            <Check label="Several accounts may share it" checked={shares} onChange={(event) => { setShares(event.target.checked); }} />
          </div>
        </div>
        <WeekGrid text={hours} onChange={setHours} />
        <PriceHistory deviceId={device.id} price={terms.price_micro_per_hour} />
        <ProblemNote error={error} />
        <div className="flex flex-wrap items-center gap-3">
          <Button type="submit" weight="main" disabled={isWrong}>Save the terms</Button>
          <p role="status" className="text-sm text-soft">{said}</p>
        </div>
      </form>
    </details>
  );
}

/** Without the last digits of binary fractions. */
const exact = (number: number) => Number(number.toFixed(8));

const plain = (micro: bigint) => formatCredits(micro, 0, "en").replaceAll(",", "");
