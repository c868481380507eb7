// "I need my GPU": pauses the devices and stops what runs on them, at once.

import { useState } from "react";
import { api, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import type { Node } from "../api/nodes";
import { Button } from "../components/basics";
import { Confirm } from "../components/dialog";
import { plural } from "../logic/numbers";

export function ReclaimButton({ nodes }: { nodes: Node[] }) {
  const [isOpen, setOpen] = useState(false);
  const refreshAll = useRefresh();
  const online = nodes.filter((node) => node.state === "online");
  const devices = online.flatMap((node) => node.devices);
  const busy = devices.filter((device) => device.free_milli < 1000);
  const paused = nodes.filter((node) => node.devices.some((device) => device.description.terms.is_paused));
  const graces = busy.map((device) => (device.description.terms.is_reclaimable ? device.description.terms.grace_seconds : null));
  const names = nodes.length === 1 ? (nodes[0]?.name ?? "") : plural(online.length, "machine");
  const resume = async () => {
    await Promise.all(paused.map((node) => value(api.PATCH("/v1/nodes/{node_id}/terms", { params: { path: { node_id: node.id } }, body: { is_paused: false } }))));
    await refreshAll(["nodes"], ["node"]);
  };
  const isAllPaused = devices.length > 0 && devices.every((device) => device.description.terms.is_paused);
  return (
    <div className="sheet mb-5 flex flex-wrap items-center justify-between gap-4 p-4 sm:p-5">
      <div className="min-w-0">
        <p className="font-semibold">{isAllPaused ? "Your devices are yours alone now." : "Do you want to use your machine yourself?"}</p>
        <p className="text-sm text-soft">
          {isAllPaused
            ? "They take no tasks until you offer them again."
            : busy.length === 0
              ? "No task runs on it right now."
              : `Tasks use ${plural(busy.length, "device")}. They stop here, and are tried again elsewhere.`}
        </p>
      </div>
      {isAllPaused ? (
        <Button weight="main" icon="play" className="min-h-14! px-6! text-base!" onClick={() => void resume()}>Offer it again</Button>
      ) : (
        <Button weight="main" className="min-h-16! px-8! text-lg! max-sm:w-full" disabled={online.length === 0} onClick={() => { setOpen(true); }}>
          I need my GPU
        </Button>
      )}
      <Confirm
        isOpen={isOpen}
        onClose={() => { setOpen(false); }}
        title="Take your devices back?"
        action="Give it back to me now"
        run={async () => {
          await Promise.all(online.map((node) => value(api.POST("/v1/nodes/{node_id}/orders", { params: { path: { node_id: node.id } }, body: { order: "reclaim" } }))));
          await refreshAll(["nodes"], ["node"]);
        }}
      >
        <p>All devices of {names} are paused, and {busy.length === 0 ? "no task is disturbed." : `the tasks on ${plural(busy.length, "device")} are stopped`}
          {busy.length > 0 && (graces.some((grace) => grace !== null) ? ` after at most ${String(Math.max(...graces.map((grace) => grace ?? 0)))} seconds to save their work.` : ".")}</p>
        {busy.length > 0 && graces.some((grace) => grace === null) && <p className="mt-2 text-soft">Your terms do not announce that you may do this, so it counts against the reliability of the machine.</p>}
      </Confirm>
    </div>
  );
}
