// What happens in the pool, as it happens: events of all accounts, without the names of tasks.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { type Schemas, api, value } from "../../api/client";
import { useLive } from "../../api/live";
import { type StreamStatus, openStream } from "../../api/stream";
import { Address, Ago, Badge, Loading, ProblemNote, Section } from "../../components/basics";
import { type Tone, spell, toneOf } from "../../logic/states";

type PoolEvent = Schemas["PoolEvent"];

const SHOWN = 12;
const KEPT = 60;
const REFRESH = 5_000;
const TONES: Record<string, Tone> = {
  "node.online": "good",
  "node.returned": "good",
  "node.silent": "wait",
  "node.left": "quiet",
  "node.lost": "alarm",
  "device.sick": "alarm",
  "device.well": "good",
  "device.hot": "wait",
  "device.cool": "good",
  "webhook.paused": "wait",
  "attempt.unfunded": "alarm",
};

export function RecentEvents() {
  const first = useQuery({
    queryKey: ["pool-events"],
    queryFn: ({ signal }) => value(api.GET("/v1/pool/events", { params: { query: { limit: SHOWN } }, signal })),
    staleTime: Infinity,
  });
  const head = first.data?.head ?? null;
  const { fresh, status } = useStream(head);
  const { isPaused } = useLive();
  const events = [...fresh, ...(first.data?.events ?? [])].slice(0, SHOWN);
  return (
    <Section title="As it happens" actions={<Badge tone={isPaused ? "wait" : status === "live" ? "good" : "wait"}>{isPaused ? "paused" : status === "live" ? "live" : "connecting"}</Badge>}>
      <ProblemNote error={first.error} />
      {first.isPending && <Loading />}
      {first.isSuccess && events.length === 0 && <p className="text-sm text-soft">Nothing has happened yet.</p>}
      <ul className="divide-y divide-line" aria-label="Events">
        {events.map((event) => (
          <li key={event.id} className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-3 py-1.5 text-sm">
            <span className="min-w-0 truncate">
              <Badge tone={TONES[event.kind] ?? toneOf(stateOf(event))}>{wordsOf(event)}</Badge>{" "}
              <span className="text-soft"><About event={event} /></span>
            </span>
            <span className="text-xs text-soft"><Ago at={event.at} /></span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** Events since the first page, newest first; the reader's pause holds them back. */
function useStream(head: string | null) {
  const [fresh, setFresh] = useState<PoolEvent[]>([]);
  const [status, setStatus] = useState<StreamStatus>("connecting");
  const { isPaused } = useLive();
  const queries = useQueryClient();
  useEffect(() => {
    if (head === null || isPaused) return;
    let timer: ReturnType<typeof setTimeout> | null = null;
    const refresh = () => {
      timer = null;
      void queries.invalidateQueries({ queryKey: ["status"] });
    };
    const close = openStream(`/v1/pool/events/follow?cursor=${encodeURIComponent(head)}`, {
      onEvent: ({ event, data }) => {
        timer ??= setTimeout(refresh, REFRESH);
        if (event === "gap") return;
        const told = JSON.parse(data) as PoolEvent;
        setFresh((known) => (known.some((each) => each.id === told.id) ? known : [told, ...known].slice(0, KEPT)));
      },
      onStatus: setStatus,
    });
    return () => {
      close();
      if (timer !== null) clearTimeout(timer);
    };
  }, [head, isPaused, queries]);
  return { fresh, status };
}

const stateOf = (event: PoolEvent) => (typeof event.data.state === "string" ? event.data.state : (event.kind.split(".")[1] ?? ""));

function wordsOf(event: PoolEvent): string {
  const [subject = "", verb = ""] = event.kind.split(".");
  return subject === "task" ? `task ${spell(stateOf(event))}` : `${subject} ${spell(verb)}`;
}

function About({ event }: { event: PoolEvent }) {
  const who = event.label || <Address address={event.address} />;
  if (event.node_id !== null && event.task_id === null) {
    return <><Link to="/machines/$nodeId" params={{ nodeId: event.node_id }} className="hover:text-accent">{event.node_name ?? event.node_id}</Link> of {who}</>;
  }
  return <>of <Link to="/operator/tasks" search={{ account: event.account_id }} className="hover:text-accent">{who}</Link>{typeof event.data.reason === "string" && event.data.reason !== "completed" && `: ${spell(event.data.reason)}`}</>;
}
