// The market: devices on offer, what they cost, and how contended each class is.

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { usePool } from "../api/hooks";
import { type MarketSearch, type PoolDevice, useDevices, useMarket } from "../api/market";
import { Bar, Button, Empty, LinkButton, Loading, PageTitle, Price, ProblemNote, Scroller, Section, Stat, StateBadge, Stats, TABLE } from "../components/basics";
import { FilterField } from "../components/field";
import { SavedViews } from "../components/saved_views";
import { VirtualRows } from "../components/virtual_rows";
import { formatCredits } from "../logic/credits";
import { mergeRanges } from "../logic/market";
import { formatBytes, formatCount, formatPercent, plural } from "../logic/numbers";

const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 lg:grid-cols-[minmax(0,2.4fr)_minmax(0,1fr)_5.5rem_5.5rem_6rem_7rem_7rem]";

export function MarketPage() {
  const search = useSearch({ from: "/market" });
  const navigate = useNavigate({ from: "/market" });
  const list = useDevices(search);
  const pool = usePool();
  const devices = useMemo(() => list.data?.pages.flatMap((page) => page.devices) ?? [], [list.data]);
  const change = (next: Partial<Record<keyof MarketSearch, string>>) => void navigate({ search: { ...search, ...next }, replace: true });
  const gpus = pool.data?.gpus;
  const cpus = pool.data?.cpus;
  return (
    <>
      <PageTitle title="Market" about="What the pool offers now." actions={<LinkButton to="/submit" weight="main" icon="plus">Submit a task</LinkButton>} />
      <Stats>
        <Stat label="GPUs" note={gpus && `${formatCount(gpus.busy)} busy, ${formatCount(gpus.away)} away`}>{gpus ? `${formatCount(gpus.free)} free` : "…"}</Stat>
        <Stat label="CPUs" note={cpus && `${formatCount(cpus.busy)} busy, ${formatCount(cpus.away)} away`}>{cpus ? `${formatCount(cpus.free)} free` : "…"}</Stat>
        <Stat label="Machines online" note={pool.data && `${formatCount(pool.data.silent_nodes)} silent`}>{pool.data ? formatCount(pool.data.nodes) : "…"}</Stat>
        <Stat label="Waiting tasks" note={pool.data && `${formatCount(pool.data.running_attempts)} running`}>{pool.data ? formatCount(pool.data.waiting_tasks) : "…"}</Stat>
      </Stats>
      <Filters search={search} change={change} />
      <ProblemNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading rows={8} />}
      {list.isSuccess && devices.length === 0 && (
        <Empty title="No devices match.">
          {Object.keys(search).length > 0 ? "Widen the filters." : "No devices are on offer yet. Add a machine of your own."}
        </Empty>
      )}
      {devices.length > 0 && (
        <div className="grid grid-cols-1 gap-4">
          <Overview />
          <VirtualRows
            label="Devices"
            items={devices}
            keyOf={(device) => device.id}
            height={60}
            hasMore={list.hasNextPage}
            isLoadingMore={list.isFetchingNextPage}
            loadMore={() => void list.fetchNextPage()}
            head={
              <div role="rowgroup" className="border-b border-line bg-sunken text-xs text-soft">
                <div role="row" className={`${COLUMNS} min-h-9`}>
                  <span role="columnheader">Device</span>
                  <span role="columnheader" className="hidden lg:block">Machine</span>
                  <span role="columnheader" className="hidden lg:block">Memory</span>
                  <span role="columnheader" className="hidden lg:block">Free</span>
                  <span role="columnheader" className="hidden lg:block">Reliability</span>
                  <span role="columnheader" className="text-right lg:text-left">Whole device</span>
                  <span role="columnheader" className="hidden lg:block">State</span>
                </div>
              </div>
            }
          >
            {(device) => <Row device={device} />}
          </VirtualRows>
        </div>
      )}
    </>
  );
}

function Filters({ search, change }: { search: MarketSearch; change: (next: Partial<Record<keyof MarketSearch, string>>) => void }) {
  const text = (name: keyof MarketSearch, label: string, placeholder: string, isSearch = false) => (
    <label className="min-w-32 flex-1 text-sm">
      <span className="mb-1 block text-xs text-soft">{label}</span>
      <FilterField
        className="field"
        placeholder={placeholder}
        value={search[name] ?? ""}
        {...(isSearch ? { "data-search": true } : {})}
        onFilter={(next) => { change({ [name]: next }); }}
      />
    </label>
  );
  return (
    <div className="sheet mb-4 flex flex-wrap items-end gap-3 p-4">
      <label className="text-sm">
        <span className="mb-1 block text-xs text-soft">Kind</span>
        <select className="field w-auto!" value={search.kind ?? ""} onChange={(event) => { change({ kind: event.target.value }); }}>
          <option value="">All</option>
          <option value="gpu">GPUs</option>
          <option value="cpu">CPUs</option>
        </select>
      </label>
      {text("model", "Model", "RTX 40*|A100", true)}
      {text("memory", "Memory at least", "24 GB")}
      {text("price", "Whole device, at most", "0.5")}
      {text("label", "Labels", "region=eu")}
      {text("reliability", "Reliability, at least %", "95")}
      <label className="flex min-h-9 items-center gap-2 text-sm">
        <input type="checkbox" className="size-4 accent-accent" checked={search.free !== undefined} onChange={(event) => { change({ free: event.target.checked ? "yes" : "" }); }} />
        Free now
      </label>
      <SavedViews page="market" to="/market" isFiltered={Object.keys(search).length > 0} />
      {Object.keys(search).length > 0 && <Button weight="quiet" onClick={() => { change({ kind: "", model: "", vendor: "", memory: "", price: "", free: "", label: "", reliability: "" }); }}>Clear</Button>}
    </div>
  );
}

function Overview() {
  const market = useMarket();
  const models = market.data?.models ?? [];
  const ranges = mergeRanges(models.flatMap((model) => model.prices));
  const most = Math.max(1, ...ranges.map((range) => range.devices));
  const all = models.reduce((total, model) => total + model.devices, 0);
  if (market.isError) return <ProblemNote error={market.error} />;
  if (models.length === 0) return null; // no devices are on offer, or none were counted yet
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
      <Section title="By model">
        <Scroller label="Devices by model">
          <table className={`${TABLE} [&_td]:align-middle!`}>
            <thead><tr><th scope="col">Model</th><th scope="col" className="num">Devices</th><th scope="col">In use</th><th scope="col" className="num max-sm:hidden">Waiting</th><th scope="col" className="num">Median price</th></tr></thead>
            <tbody>
              {models.slice(0, 10).map((model) => (
                <tr key={`${model.kind} ${model.model}`}>
                  <td className="wrap-anywhere sm:min-w-40">{model.model}</td>
                  <td className="num">{formatCount(model.devices)}</td>
                  <td className="w-36 align-middle!"><Bar share={1 - model.free / model.devices} tone={model.free === 0 ? "alarm" : "busy"} label={`${model.model}: share in use`} /><span className="text-xs text-soft">{formatCount(model.free)} free</span></td>
                  <td className="num max-sm:hidden">{formatCount(model.waiting_tasks)}</td>
                  <td className="num"><Price microPerHour={model.median_micro_per_hour} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroller>
        {models.length > 10 && <p className="mt-2 text-xs text-soft">and {plural(models.length - 10, "more model")}</p>}
      </Section>
      <Section title="What whole devices cost">
        <ul className="grid gap-1.5" aria-label="Price distribution">
          {ranges.map((range) => (
            <li key={range.from.toString()} className="grid grid-cols-[9rem_1fr_3rem] items-center gap-2 text-xs">
              <span className="text-soft">{range.to === 0n ? "free" : range.from === range.to ? formatCredits(range.from) : `${formatCredits(range.from)} to ${formatCredits(range.to)}`}</span>
              <span aria-hidden className="h-3 rounded-sm bg-sunken"><span className="block h-full rounded-sm bg-accent" style={{ width: `${String((range.devices / most) * 100)}%` }} /></span>
              <span className="text-right">{formatCount(range.devices)}</span>
            </li>
          ))}
        </ul>
        <p className="mt-2 text-xs text-soft">{plural(all, "device")}, by credits for an hour of the whole device. A task pays for the share that it reserves.</p>
      </Section>
    </div>
  );
}

function stateOf(device: PoolDevice): string {
  if (device.node_state !== "online") return device.node_state;
  return device.availability === "available" && device.free_milli === 0 ? "busy" : device.availability;
}

function Row({ device }: { device: PoolDevice }) {
  const { description } = device;
  return (
    <div className={`${COLUMNS} h-full hover:bg-sunken`}>
      <span role="cell" className="min-w-0">
        <span className="block truncate font-medium">{description.model}</span>
        <span className="block truncate text-xs text-soft">{device.is_mine && <span className="font-medium text-busy">yours, </span>}{description.vendor}, {description.interface}{device.labels.length > 0 && `, ${device.labels.join(", ")}`}<span className="lg:hidden">, {formatBytes(description.memory_bytes)}</span></span>
      </span>
      <span role="cell" className="hidden truncate text-sm text-soft lg:block">{device.node_name}</span>
      <span role="cell" className="hidden text-sm lg:block">{formatBytes(description.memory_bytes)}</span>
      <span role="cell" className="hidden text-sm lg:block">{device.free_milli === 1000 ? "all of it" : device.free_milli === 0 ? <span className="text-soft">in use</span> : formatPercent(device.free_milli / 1000)}</span>
      <span role="cell" className="hidden text-sm lg:block">{formatPercent(device.reliability)}</span>
      <span role="cell" className="text-sm"><Price microPerHour={description.terms.price_micro_per_hour} /></span>
      <span role="cell" className="hidden lg:block"><StateBadge state={stateOf(device)} /></span>
    </div>
  );
}
