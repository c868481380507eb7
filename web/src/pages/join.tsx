// Join this pool: the commands to copy, and a sign when the machine appears.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, value } from "../api/client";
import { useSession } from "../api/hooks";
import { useMyNodes } from "../api/nodes";
import { Command, Loading, PageTitle, ProblemNote, Section } from "../components/basics";
import { Icon } from "../components/icons";

const useJoin = () =>
  useQuery({
    queryKey: ["join"],
    queryFn: ({ signal }) => value(api.GET("/v1/join", { signal })),
    staleTime: Number.POSITIVE_INFINITY,
  });

export function JoinPage() {
  const join = useJoin();
  const session = useSession();
  if (join.isPending) return <Loading />;
  if (join.isError) return <ProblemNote error={join.error} retry={() => void join.refetch()} />;
  const { installers, provide, run, registration, has_private_authority } = join.data;
  return (
    <div className="max-w-3xl">
      <PageTitle title="Add a machine" about="Everyone brings a GPU. A machine only makes outgoing connections: it needs no open port and works behind a router." />
      <div className="grid grid-cols-1 gap-4">
        {registration === "closed" && <p className="rounded-lg bg-wait-ground px-4 py-3 text-sm text-wait">This pool accepts no new accounts. Machines of existing accounts can join.</p>}
        {registration === "invite" && <p className="rounded-lg bg-wait-ground px-4 py-3 text-sm text-wait">New accounts need an invite: run <code className="font-mono">export POTLUCK_INVITE=CODE</code> first.</p>}
        <Section title="1. Install Potluck" about="In any environment with Python 3.11 or later. The command contains the hash of the package, so nothing else is installed.">
          {installers === null ? (
            <p className="text-sm">This server has no package to install. Ask its operator for one.</p>
          ) : (
            <>
              <Command text={installers.pip} label="Install with pip" />
              {has_private_authority && <p className="mt-2 text-sm text-soft">The server has a private certificate that pip does not trust, so the command skips its verification. The hash is still checked.</p>}
              <details className="mt-2 text-sm">
                <summary className="text-soft">With uv or pipx</summary>
                <div className="mt-2 grid gap-2"><Command text={installers.uv} label="Install with uv" /><Command text={installers.pipx} label="Install with pipx" /></div>
              </details>
            </>
          )}
        </Section>
        <Section title="2. Offer its devices" about="The machine stays yours: Ctrl-C takes it back. The first start makes a wallet, or signs in with yours through this browser.">
          <Command text={provide} label="Offer this machine" />
          {session.phase === "in" && <Seen />}
        </Section>
        <Section title="Or run a task from it">
          <Command text={run} label="Run a first task" />
        </Section>
      </div>
    </div>
  );
}

/** Which machines were there when the page was opened; a new one is the one that was just added. */
function Seen() {
  const nodes = useMyNodes();
  const [before, setBefore] = useState<ReadonlySet<string> | null>(null);
  if (nodes.data !== undefined && before === null) setBefore(new Set(nodes.data.filter((node) => node.state === "online").map((node) => node.id)));
  const added = nodes.data?.filter((node) => node.state === "online" && before !== null && !before.has(node.id)) ?? [];
  return (
    <div role="status" className="mt-3 text-sm">
      {added.length === 0 ? (
        <p className="flex items-center gap-2 text-soft"><span aria-hidden className="size-2 animate-pulse rounded-full bg-wait" />Waiting for your machine …</p>
      ) : (
        added.map((node) => (
          <p key={node.id} className="flex items-center gap-2 font-medium text-good"><Icon name="check" />Seen: <Link className="underline" to="/machines/$nodeId" params={{ nodeId: node.id }}>{node.name}</Link> with {node.devices.map((device) => device.description.model).join(", ")}</p>
        ))
      )}
    </div>
  );
}
