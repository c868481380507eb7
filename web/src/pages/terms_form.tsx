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
import { PriceHistory } from "./price_history";

type Change = Schemas["TermsChange"];

export function TermsForm({ node, device }: { node: Node; device: Device }) {
  const { terms } = device.description;
  const refreshAll = useRefresh();
  const suggestion = useSuggestion(device.id);
  const low = suggestion.data?.low_micro_per_hour;
  const [price, setPrice] = useState(plain(terms.price_micro_per_hour));
  const [hours, setHours] = useState(terms.hours);
  const [idle, setIdle] = useState(String(terms.idle_minutes));
  const [memory, setMemory] = useState(String(Math.round(terms.memory_share * 100)));
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
  const save = async () => {
    if (isPriceWrong || areHoursWrong) return;
    setError(null);
    setSaid("");
    // Compared with what was sent last: the machine may not have applied that yet.
    const wanted: Change = {
      price_micro_per_hour: micro,
      hours: hours.trim(),
      idle_minutes: Number(idle),
      memory_share: Number(memory) / 100,
      power_watts: power === "" ? null : Number(power),
      fractions: fractions === "" ? null : Number(fractions),
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
            problem={isPriceWrong ? "Write an amount, such as 0.25. 0 is free." : null}
            hint={
              <>
                {suggestion.data?.sentence ?? "0 is free."}{" "}
                {low != null && <button type="button" className="text-accent underline" onClick={() => { setPrice(plain(low)); }}>Use {plain(low)}</button>}
              </>
            }
            onChange={(event) => { setPrice(event.target.value); }}
          />
          <TextField label="Only after this many idle minutes" inputMode="decimal" hint="0: also while you work." value={idle} onChange={(event) => { setIdle(event.target.value); }} />
          <TextField label="Share of its memory, in percent" inputMode="numeric" value={memory} onChange={(event) => { setMemory(event.target.value); }} />
          <TextField label="Highest power, in watts" inputMode="numeric" hint="Empty: no limit of yours." value={power} onChange={(event) => { setPower(event.target.value); }} />
          <TextField label="Most tasks at once" inputMode="numeric" hint="Empty: no limit." value={fractions} onChange={(event) => { setFractions(event.target.value); }} />
          <div className="grid content-center gap-2">
            <Check label="I may take it back at any moment" hint="Tasks are told before they start." checked={isReclaimable} onChange={(event) => { setReclaimable(event.target.checked); }} />
            <Check label="Several accounts may share it" checked={shares} onChange={(event) => { setShares(event.target.checked); }} />
          </div>
        </div>
        <WeekGrid text={hours} onChange={setHours} />
        <PriceHistory deviceId={device.id} price={terms.price_micro_per_hour} />
        <ProblemNote error={error} />
        <div className="flex flex-wrap items-center gap-3">
          <Button type="submit" weight="main" disabled={isPriceWrong || areHoursWrong}>Save the terms</Button>
          <p role="status" className="text-sm text-soft">{said}</p>
        </div>
      </form>
    </details>
  );
}

const plain = (micro: bigint) => formatCredits(micro, 0, "en").replaceAll(",", "");
