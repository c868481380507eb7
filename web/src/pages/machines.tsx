// My machines: each device with its state, its price, what it does now, and the way to get it back.

import { Link } from "@tanstack/react-router";
import { type Node, useMyNodes } from "../api/nodes";
import { Ago, Bar, Empty, LinkButton, Loading, PageTitle, Price, ProblemNote, StateBadge } from "../components/basics";
import { formatBytes, plural } from "../logic/numbers";
import { spell } from "../logic/states";
import { ReclaimButton } from "./reclaim";

export function MachinesPage() {
  const nodes = useMyNodes(30_000);
  return (
    <>
      <PageTitle title="My machines" actions={<LinkButton to="/join" icon="plus">Add a machine</LinkButton>} />
      <ProblemNote error={nodes.error} retry={() => void nodes.refetch()} />
      {nodes.isPending && <Loading />}
      {nodes.data?.length === 0 && (
        <Empty title="You offer no machine yet." action={<LinkButton to="/join" weight="main">Add your first machine</LinkButton>}>
          One command offers its devices to this pool. They stay yours: you set price, hours and limits, and get them back at any moment.
        </Empty>
      )}
      {nodes.data && nodes.data.length > 0 && <ReclaimButton nodes={nodes.data} />}
      <div className="grid grid-cols-1 gap-4 xl:grid-cols-2">{nodes.data?.map((node) => <MachineCard key={node.id} node={node} />)}</div>
    </>
  );
}

function MachineCard({ node }: { node: Node }) {
  return (
    <article className="sheet p-4 sm:p-5">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h2 className="min-w-0 font-semibold wrap-anywhere">
          <Link to="/machines/$nodeId" params={{ nodeId: node.id }} className="hover:text-accent">{node.name}</Link>
        </h2>
        <span className="flex items-center gap-2"><StateBadge state={node.state} />{node.cordoned_at && <StateBadge state="paused">cordoned</StateBadge>}</span>
      </div>
      <p className="mt-0.5 text-sm text-soft">
        {plural(node.cores, "core")}, {formatBytes(node.memory_bytes)}{node.load_percent !== null && `, ${node.load_percent.toLocaleString(undefined, { maximumFractionDigits: 0 })} % load`}, seen <Ago at={node.heartbeat_at} />
      </p>
      <ul className="mt-3 divide-y divide-line">
        {node.devices.map((device) => {
          const { sample, description } = device;
          const used = 1 - device.free_milli / 1000;
          return (
            <li key={device.id} className="py-2.5">
              <div className="flex flex-wrap items-center justify-between gap-2 text-sm">
                <span className="min-w-0 font-medium wrap-anywhere">{description.model}</span>
                <span className="flex items-center gap-3"><Price microPerHour={description.terms.price_micro_per_hour} /><StateBadge state={device.availability} /></span>
              </div>
              <div className="mt-1.5 grid grid-cols-[1fr_auto] items-center gap-3">
                <Bar share={used} label={`${description.model}: share in use`} />
                <span className="text-xs text-soft">
                  {used === 0 ? "free" : `${String(Math.round(used * 100))} % in use`}
                  {sample?.utilisation_percent != null && `, ${sample.utilisation_percent.toFixed(0)} % busy`}
                  {sample?.temperature_celsius != null && `, ${sample.temperature_celsius.toFixed(0)} °C`}
                  {sample?.power_watts != null && `, ${sample.power_watts.toFixed(0)} W`}
                </span>
              </div>
              {device.why && <p className="mt-1 text-xs text-soft wrap-anywhere">{spell(device.availability)}: {device.why}</p>}
            </li>
          );
        })}
      </ul>
    </article>
  );
}
