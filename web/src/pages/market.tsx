// The market: devices on offer, what they cost, and how contended each class is.

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { usePool } from "../api/hooks";
import { type MarketSearch, type PoolDevice, useDevices } from "../api/market";
import { Badge, Bar, Button, Empty, LinkButton, Loading, PageTitle, Price, ProblemNote, Scroller, Section, Stat, StateBadge, Stats, TABLE } from "../components/basics";
import { VirtualRows } from "../components/virtual_rows";
import { formatCredits } from "../logic/credits";
import { classes, distribution } from "../logic/market";
import { formatBytes, formatCount, formatPercent, plural } from "../logic/numbers";

const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 lg:grid-cols-[minmax(0,2fr)_minmax(0,1fr)_6rem_7rem_6rem_7rem_8rem]";

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
          {Object.keys(search).length > 0 ? "Widen the filters." : "Nobody offers a device yet. Add a machine of your own."}
        </Empty>
      )}
      {devices.length > 0 && (
        <div className="grid gap-4">
          <Overview devices={devices} isPart={list.hasNextPage} />
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
                  <span role="columnheader" className="hidden lg:block">Reliable</span>
                  <span role="columnheader" className="text-right lg:text-left">Price</span>
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
      <input
        key={search[name] ?? ""}
        className="field"
        placeholder={placeholder}
        defaultValue={search[name] ?? ""}
        {...(isSearch ? { "data-search": true } : {})}
        onKeyDown={(event) => { if (event.key === "Enter") change({ [name]: event.currentTarget.value }); }}
        onBlur={(event) => { if (event.target.value !== (search[name] ?? "")) change({ [name]: event.target.value }); }}
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
      {text("price", "Price at most", "0.5")}
      {text("label", "Labels", "region=eu")}
      {text("reliability", "Reliable at least, %", "95")}
      <label className="flex min-h-9 items-center gap-2 text-sm">
        <input type="checkbox" className="size-4 accent-accent" checked={search.free !== undefined} onChange={(event) => { change({ free: event.target.checked ? "yes" : "" }); }} />
        Free now
      </label>
      {Object.keys(search).length > 0 && <Button weight="quiet" onClick={() => { change({ kind: "", model: "", vendor: "", memory: "", price: "", free: "", label: "", reliability: "" }); }}>Clear</Button>}
    </div>
  );
}

function Overview({ devices, isPart }: { devices: PoolDevice[]; isPart: boolean }) {
  const offers = devices.map((device) => ({
    kind: device.description.kind,
    model: device.description.model,
    priceMicro: device.description.terms.price_micro_per_hour,
    isFree: device.free_milli === 1000 && device.availability === "available" && device.node_state === "online",
  }));
  const groups = classes(offers);
  const steps = distribution(offers.map((offer) => offer.priceMicro));
  const most = Math.max(1, ...steps.map((step) => step.count));
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
      <Section title="By model" about={isPart ? `Of the ${formatCount(devices.length)} devices loaded so far.` : undefined}>
        <Scroller label="Devices by model">
          <table className={TABLE}>
            <thead><tr><th scope="col">Model</th><th scope="col" className="num">Devices</th><th scope="col">In use</th><th scope="col" className="num">Price, middle</th></tr></thead>
            <tbody>
              {groups.slice(0, 8).map((group) => (
                <tr key={`${group.kind} ${group.model}`}>
                  <td className="wrap-anywhere">{group.model}</td>
                  <td className="num">{formatCount(group.devices)}</td>
                  <td className="w-40 align-middle!"><Bar share={1 - group.free / group.devices} tone={group.free === 0 ? "alarm" : "busy"} label={`${group.model}: share in use`} /><span className="text-xs text-soft">{formatCount(group.free)} free</span></td>
                  <td className="num"><Price microPerHour={group.middle} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroller>
      </Section>
      <Section title="What devices cost">
        <ul className="grid gap-1.5" aria-label="Price distribution">
          {steps.map((step) => (
            <li key={step.from.toString() + step.to.toString()} className="grid grid-cols-[7.5rem_1fr_3rem] items-center gap-2 text-xs">
              <span className="text-soft">{step.to === 0n ? "free" : `up to ${formatCredits(step.to)}`}</span>
              <span aria-hidden className="h-3 rounded-sm bg-sunken"><span className="block h-full rounded-sm bg-accent" style={{ width: `${String((step.count / most) * 100)}%` }} /></span>
              <span className="text-right">{formatCount(step.count)}</span>
            </li>
          ))}
        </ul>
        <p className="mt-2 text-xs text-soft">{plural(devices.length, "device")} by credits for an hour.</p>
      </Section>
    </div>
  );
}

function Row({ device }: { device: PoolDevice }) {
  const { description } = device;
  return (
    <div className={`${COLUMNS} h-full hover:bg-sunken`}>
      <span role="cell" className="min-w-0">
        <span className="block truncate font-medium">{description.model}{device.is_mine && <span className="ml-2"><Badge tone="busy">yours</Badge></span>}</span>
        <span className="block truncate text-xs text-soft">{description.vendor}, {description.interface}{device.labels.length > 0 && `, ${device.labels.join(", ")}`}<span className="lg:hidden">, {formatBytes(description.memory_bytes)}</span></span>
      </span>
      <span role="cell" className="hidden truncate text-sm text-soft lg:block">{device.node_name}</span>
      <span role="cell" className="hidden text-sm lg:block">{formatBytes(description.memory_bytes)}</span>
      <span role="cell" className="hidden text-sm lg:block">{device.free_milli === 1000 ? "all of it" : device.free_milli === 0 ? "–" : formatPercent(device.free_milli / 1000)}</span>
      <span role="cell" className="hidden text-sm lg:block">{formatPercent(device.reliability)}</span>
      <span role="cell" className="text-sm"><Price microPerHour={description.terms.price_micro_per_hour} /></span>
      <span role="cell" className="hidden lg:block"><StateBadge state={device.node_state === "online" ? device.availability : device.node_state} /></span>
    </div>
  );
}
