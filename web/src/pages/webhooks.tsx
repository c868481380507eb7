// Webhooks: addresses that are sent your events, and what was delivered.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, api, newKey, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { Ago, Badge, Button, Empty, Loading, PageTitle, ProblemNote, Scroller, Section, StateBadge, TABLE } from "../components/basics";
import { Confirm } from "../components/dialog";
import { Check, TextField } from "../components/field";
import { SecretDialog } from "../components/secret";
import { plural } from "../logic/numbers";

type Webhook = Schemas["WebhookView"];
type Kind = Webhook["kinds"][number];

const KINDS: [Kind, string][] = [
  ["task.finished", "a task ended"],
  ["task.running", "a task started"],
  ["task.queued", "a task was queued"],
  ["node.lost", "a machine is lost"],
  ["node.returned", "a machine is back"],
  ["device.sick", "a device does not work correctly"],
];

export function WebhooksPage() {
  const hooks = useQuery({ queryKey: ["webhooks"], queryFn: ({ signal }) => value(api.GET("/v1/webhooks", { signal })) });
  const [secret, setSecret] = useState<string | null>(null);
  return (
    <>
      <PageTitle title="Webhooks" about="An address of yours gets a signed request for each event. Check its signature with the webhook's secret." />
      <div className="grid grid-cols-1 items-start gap-4 xl:grid-cols-[minmax(0,1fr)_24rem]">
        <div className="grid grid-cols-1 gap-4">
          <ProblemNote error={hooks.error} />
          {hooks.isPending && <Loading />}
          {hooks.data?.webhooks.length === 0 && <Empty title="You have no webhooks.">Add an address that should hear of your tasks and machines.</Empty>}
          {hooks.data?.webhooks.map((hook) => <WebhookCard key={hook.id} hook={hook} showSecret={setSecret} />)}
        </div>
        <NewWebhook showSecret={setSecret} />
      </div>
      <SecretDialog title="The webhook's secret" about="Copy it now: it is shown only here. Your receiver checks signatures with it." secret={secret} onClose={() => { setSecret(null); }} />
    </>
  );
}

function WebhookCard({ hook, showSecret }: { hook: Webhook; showSecret: (secret: string) => void }) {
  const refreshAll = useRefresh();
  const [said, setSaid] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [asking, setAsking] = useState<"remove" | "rotate" | null>(null);
  const [isListed, setListed] = useState(false);
  const path = { params: { path: { webhook_id: hook.id } } };
  const run = async (action: () => Promise<string>) => {
    setError(null);
    setSaid("");
    try {
      setSaid(await action());
      await refreshAll(["webhooks"]);
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Section
      title={<span className="wrap-anywhere">{hook.name}</span>}
      actions={hook.pause ? <Badge tone="wait">paused</Badge> : hook.failing_since ? <Badge tone="alarm">failing</Badge> : <Badge tone="good">active</Badge>}
    >
      <p className="font-mono text-sm wrap-anywhere">{hook.url}</p>
      <p className="mt-1 text-sm text-soft">
        {hook.kinds.length === 0 ? "All events" : hook.kinds.join(", ")}
        {hook.waiting > 0 && `, ${plural(hook.waiting, "delivery", "deliveries")} pending`}
        {hook.failing_since && <>, failing since <Ago at={hook.failing_since} /></>}
        {hook.pause?.detail && <>: {hook.pause.detail}</>}
      </p>
      <div className="mt-3 flex flex-wrap gap-2">
        <Button
          onClick={() => void run(async () => {
            const tried = await value(api.POST("/v1/webhooks/{webhook_id}/test", path));
            return tried.delivered ? `A test event was delivered in ${tried.seconds.toLocaleString()} s.` : `The test failed: ${tried.detail || `status ${String(tried.status)}`}`;
          })}
        >
          Send a test
        </Button>
        {hook.pause ? (
          <Button icon="play" onClick={() => void run(async () => { await value(api.POST("/v1/webhooks/{webhook_id}/resume", { ...path, body: {} })); return "Resumed."; })}>Resume</Button>
        ) : (
          <Button icon="pause" onClick={() => void run(async () => { await value(api.POST("/v1/webhooks/{webhook_id}/pause", path)); return "Paused."; })}>Pause</Button>
        )}
        <Button weight="quiet" aria-expanded={isListed} onClick={() => { setListed(!isListed); }}>Deliveries</Button>
        <Button weight="quiet" onClick={() => { setAsking("rotate"); }}>New secret</Button>
        <Button weight="quiet" onClick={() => { setAsking("remove"); }}>Remove</Button>
      </div>
      <p role="status" className="mt-2 text-sm wrap-anywhere">{said}</p>
      <ProblemNote error={error} />
      {isListed && <Deliveries hookId={hook.id} />}
      <Confirm isOpen={asking === "remove"} onClose={() => { setAsking(null); }} title="Remove this webhook?" action="Remove it" isAlarming run={async () => { await value(api.DELETE("/v1/webhooks/{webhook_id}", path)); await refreshAll(["webhooks"]); }}>
        <p>Pending deliveries to <span className="wrap-anywhere">{hook.url}</span> are dropped.</p>
      </Confirm>
      <Confirm isOpen={asking === "rotate"} onClose={() => { setAsking(null); }} title="Make a new secret?" action="Make it" run={async () => { const made = await value(api.POST("/v1/webhooks/{webhook_id}/rotate", { params: { ...path.params, header: { "Idempotency-Key": newKey() } } })); showSecret(made.secret); await refreshAll(["webhooks"]); }}>
        <p>For a day the old secret signs too, so that your receiver can change over.</p>
      </Confirm>
    </Section>
  );
}

function Deliveries({ hookId }: { hookId: string }) {
  const list = useQuery({
    queryKey: ["webhooks", hookId, "deliveries"],
    queryFn: ({ signal }) => value(api.GET("/v1/webhooks/{webhook_id}/deliveries", { params: { path: { webhook_id: hookId }, query: { limit: 20 } }, signal })),
  });
  const refreshAll = useRefresh();
  const [error, setError] = useState<unknown>(null);
  if (list.isPending) return <Loading />;
  if (list.isError) return <ProblemNote error={list.error} />;
  if (list.data.deliveries.length === 0) return <p className="text-sm text-soft">Nothing was sent yet.</p>;
  return (
    <Scroller label="Deliveries">
      <ProblemNote error={error} />
      <table className={TABLE}>
        <thead><tr><th scope="col">Event</th><th scope="col">State</th><th scope="col">Tries</th><th scope="col">Last answer</th><th scope="col">At</th><th scope="col"><span className="sr-only">Actions</span></th></tr></thead>
        <tbody>
          {list.data.deliveries.map((delivery) => {
            const last = delivery.newest_tries[0];
            return (
              <tr key={delivery.id}>
                <td>{delivery.kind}</td>
                <td><StateBadge state={delivery.state === "delivered" ? "succeeded" : delivery.state}>{delivery.state}</StateBadge></td>
                <td>{delivery.tries}</td>
                <td className="wrap-anywhere">{last ? (last.status ?? last.detail) : "–"}</td>
                <td><Ago at={delivery.created_at} /></td>
                <td className="num">
                  <Button weight="quiet" onClick={() => {
                    setError(null);
                    value(api.POST("/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", { params: { path: { webhook_id: hookId, delivery_id: delivery.id } } }))
                      .then(() => refreshAll(["webhooks"]))
                      .catch(setError);
                  }}>Send again</Button>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroller>
  );
}

function NewWebhook({ showSecret }: { showSecret: (secret: string) => void }) {
  const refreshAll = useRefresh();
  const [url, setUrl] = useState("");
  const [kinds, setKinds] = useState<Kind[]>(["task.finished"]);
  const [error, setError] = useState<unknown>(null);
  const make = async () => {
    setError(null);
    try {
      const made = await value(api.POST("/v1/webhooks", { params: { header: { "Idempotency-Key": newKey() } }, body: { url: url.trim(), kinds } }));
      showSecret(made.secret);
      setUrl("");
      await refreshAll(["webhooks"]);
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Section title="New webhook">
      <form className="grid gap-3" onSubmit={(event) => { event.preventDefault(); void make(); }}>
        <TextField label="Address" type="url" required placeholder="https://ci.example.org/potluck" value={url} onChange={(event) => { setUrl(event.target.value); }} />
        <fieldset className="grid gap-1.5">
          <legend className="mb-1 text-sm font-medium">When</legend>
          {KINDS.map(([kind, text]) => (
            <Check key={kind} label={text} checked={kinds.includes(kind)} onChange={(event) => { setKinds(event.target.checked ? [...kinds, kind] : kinds.filter((each) => each !== kind)); }} />
          ))}
          <p className="text-xs text-soft">Without any choice: for all events.</p>
        </fieldset>
        <ProblemNote error={error} />
        <Button type="submit" weight="main" disabled={url.trim() === ""}>Add the webhook</Button>
      </form>
    </Section>
  );
}
