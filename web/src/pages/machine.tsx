// One machine: its devices with plots, price, pause, hours and limits; why it gets no work.

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { type Schemas, api, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { type Device, type Node, useNode } from "../api/nodes";
import { Ago, Button, Facts, Loading, PageTitle, Price, ProblemNote, Section, StateBadge, Words } from "../components/basics";
import { Confirm } from "../components/dialog";
import { formatBytes, plural } from "../logic/numbers";
import { DevicePlots } from "./device_plots";
import { ReclaimButton } from "./reclaim";
import { TermsForm } from "./terms_form";

export function MachinePage() {
  const { nodeId } = useParams({ from: "/machines/$nodeId" });
  const node = useNode(nodeId);
  if (node.isPending) return <Loading rows={5} />;
  if (node.isError) return <ProblemNote error={node.error} retry={() => void node.refetch()} />;
  const view = node.data;
  return (
    <>
      <nav aria-label="Path" className="mb-2 text-sm text-soft">
        <Link to="/machines" className="hover:text-accent">My machines</Link>
      </nav>
      <PageTitle title={view.name} actions={view.is_mine && <Drain node={view} />}>
        <p className="mt-1.5 flex flex-wrap items-center gap-x-3 gap-y-1 text-sm text-soft">
          <StateBadge state={view.state} />
          <span>seen <Ago at={view.heartbeat_at} /></span>
          <span>Potluck {view.potluck_version}</span>
          <span>{view.sandbox.driver === "none" ? "no sandbox" : `sandbox: ${view.sandbox.driver}`}</span>
          {view.cordoned_at && <StateBadge state="paused">cordoned by an admin{view.cordoned_for && `: ${view.cordoned_for}`}</StateBadge>}
        </p>
      </PageTitle>
      {view.is_mine && <ReclaimButton nodes={[view]} />}
      {view.wishes.length > 0 && (
        <p role="status" className="mb-4 rounded-lg bg-busy-ground px-4 py-3 text-sm text-busy">
          {plural(view.wishes.length, "change")} on the way: the machine applies it with its next heartbeat.
        </p>
      )}
      <div className="grid grid-cols-1 gap-4">
        {view.is_mine && <WhyIdle node={view} />}
        {view.devices.map((device) => <DeviceCard key={device.id} node={view} device={device} />)}
        <Section title="Machine">
          <Facts
            items={[
              ["Platform", `${view.platform}, Python ${[view.python_version, ...view.more_pythons].join(", ")}`],
              ["Offered", `${plural(view.cores, "core")}, ${formatBytes(view.memory_bytes)} of memory, ${formatBytes(view.disk_bytes)} of disk`],
              ["In use", `${view.load_percent === null ? "–" : `${view.load_percent.toFixed(0)} % load`}${view.memory_used_bytes === null ? "" : `, ${formatBytes(view.memory_used_bytes)} of memory`}`],
              ["Sandbox", `${view.sandbox.driver}: memory by ${view.sandbox.memory}, processes by ${view.sandbox.processes}, system calls by ${view.sandbox.syscalls}`],
              ["Runs", view.sandbox.kinds.join(", ")],
              ["Whose tasks", view.own_tasks_only ? "only its owner's" : "everyone's, by its terms"],
            ]}
          />
        </Section>
      </div>
    </>
  );
}

function Drain({ node }: { node: Node }) {
  const [isOpen, setOpen] = useState(false);
  const refreshAll = useRefresh();
  return (
    <>
      <Button disabled={node.state !== "online"} onClick={() => { setOpen(true); }}>Finish and stop</Button>
      <Confirm isOpen={isOpen} onClose={() => { setOpen(false); }} title="Finish running tasks, then stop?" action="Finish and stop" run={async () => { await value(api.POST("/v1/nodes/{node_id}/orders", { params: { path: { node_id: node.id } }, body: { order: "drain" } })); await refreshAll(["nodes"], ["node", node.id]); }}>
        <p>{node.name} takes no new work, finishes what it runs, and its provider stops. Start it again on the machine itself.</p>
      </Confirm>
    </>
  );
}

function WhyIdle({ node }: { node: Node }) {
  const why = useQuery({
    queryKey: ["node", node.id, "explain"],
    queryFn: ({ signal }) => value(api.GET("/v1/nodes/{node_id}/explain", { params: { path: { node_id: node.id } }, signal })),
    refetchInterval: 60_000,
  });
  const { data } = why;
  return (
    <Section title={data && data.running > 0 ? `${plural(data.running, "task")} running here` : "Why it gets no work"}>
      <ProblemNote error={why.error} />
      <p className="font-medium">{data?.sentence ?? "One moment …"}</p>
      {data && (data.reasons.length > 0 || data.changes.length > 0) && (
        <div className="mt-2 grid gap-3 text-sm sm:grid-cols-2">
          {data.reasons.length > 0 && <div><h3 className="mb-1 text-soft">{plural(data.waiting, "waiting task")}</h3><ul className="list-disc pl-5">{data.reasons.map((each) => <li key={each.code}>{each.sentence}</li>)}</ul></div>}
          {data.changes.length > 0 && <div><h3 className="mb-1 text-soft">What you could do</h3><ul className="list-disc pl-5">{data.changes.map((change) => <li key={change}><Words text={change} /></li>)}</ul></div>}
        </div>
      )}
      {data?.reliability && <p className="mt-2 text-sm text-wait">{data.reliability}</p>}
    </Section>
  );
}

function DeviceCard({ node, device }: { node: Node; device: Device }) {
  const { description } = device;
  return (
    <Section
      title={<span className="flex flex-wrap items-center gap-2"><span className="wrap-anywhere">{description.model}</span> <StateBadge state={device.availability} /></span>}
      actions={node.is_mine && <PauseButton node={node} device={device} />}
    >
      <p className="mb-4 text-sm text-soft">
        {description.vendor}, {formatBytes(description.memory_bytes)}, {description.interface}
        {description.driver && `, ${description.driver}`}
        {device.free_milli < 1000 && `, ${String(100 - device.free_milli / 10)} % in use by tasks`}
        {description.terms.network.length > 0 && `, network for tasks: ${description.terms.network.join(", ")}`}
        {device.why && `. ${device.why}`}
        {!node.is_mine && <>, <Price microPerHour={description.terms.price_micro_per_hour} /></>}
      </p>
      {node.is_mine && (
        <>
          <DevicePlots deviceId={device.id} />
          <TermsForm node={node} device={device} />
        </>
      )}
    </Section>
  );
}

function PauseButton({ node, device }: { node: Node; device: Device }) {
  const refreshAll = useRefresh();
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const isPaused = wanted(node, device) ?? device.description.terms.is_paused;
  const toggle = async () => {
    setBusy(true);
    setError(null);
    try {
      await value(api.PATCH("/v1/nodes/{node_id}/terms", { params: { path: { node_id: node.id } }, body: { devices: [device.description.uuid], is_paused: !isPaused } }));
      await refreshAll(["nodes"], ["node", node.id]);
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button icon={isPaused ? "play" : "pause"} disabled={isBusy} onClick={() => void toggle()}>{isPaused ? "Resume" : "Pause"}</Button>
      <ProblemNote error={error} />
    </>
  );
}

/** What a pending change says about the pause: the machine applies it with its next heartbeat. */
function wanted(node: Node, device: Device): boolean | undefined {
  const uuid = device.description.uuid;
  const changes = node.wishes.map((wish) => wish.change).filter((change): change is Schemas["TermsChangeView"] => change !== null);
  const last = changes.findLast((change) => "is_paused" in change && ((change.devices ?? []).length === 0 || change.devices?.includes(uuid)));
  return last?.is_paused ?? undefined;
}
