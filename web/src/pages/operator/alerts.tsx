// Alerts and silences.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, api, value } from "../../api/client";
import { useRefresh } from "../../api/hooks";
import { Ago, Badge, Button, Empty, Loading, PageTitle, ProblemNote, Section, StateBadge } from "../../components/basics";
import { Confirm } from "../../components/dialog";
import { Choice, TextField } from "../../components/field";
import { spell } from "../../logic/states";

type Alert = Schemas["AlertView"];

export function AlertsPage() {
  const list = useQuery({ queryKey: ["alerts"], queryFn: ({ signal }) => value(api.GET("/v1/alerts", { signal })), refetchInterval: 30_000 });
  const refreshAll = useRefresh();
  const [silencing, setSilencing] = useState<Alert | null>(null);
  const [hours, setHours] = useState("2");
  const [reach, setReach] = useState("one");
  const [comment, setComment] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [tested, setTested] = useState<Schemas["AlertTest"] | null>(null);
  return (
    <>
      <PageTitle
        title="Alerts"
        actions={<Button onClick={() => { setError(null); value(api.POST("/v1/alerts/test")).then(setTested, setError); }}>Send a test message</Button>}
      />
      <ProblemNote error={error ?? list.error} />
      {tested && (
        <p role="status" className="mb-4 rounded-lg bg-busy-ground px-4 py-3 text-sm text-busy">
          {tested.results.length === 0 ? "No destination is configured." : tested.results.map((each) => `${each.destination}: ${each.has_arrived ? "arrived" : each.problem}`).join("; ")}
        </p>
      )}
      {list.isPending && <Loading />}
      {list.data?.alerts.length === 0 && <Empty title="No alert has fired.">Nodes lost, a queue that stalls, errors, a slow database, a full disk: they appear here.</Empty>}
      {list.data && list.data.alerts.length > 0 && (
        <Section>
          <ul aria-label="Alerts" className="divide-y divide-line text-sm">
            {list.data.alerts.map((alert) => (
              <li key={alert.id} className="flex flex-wrap items-start justify-between gap-3 py-3">
                <div className="min-w-0 flex-1 basis-60">
                  <p className="flex flex-wrap items-center gap-2">
                    <StateBadge state={alert.state} />
                    {alert.is_silenced && alert.state !== "resolved" && <Badge tone="quiet">silenced</Badge>}
                    <a href={`/runbook#${alert.name.toLowerCase()}`} className="font-medium text-accent underline">{spell(alert.name)}</a>
                    <span className="text-soft">began <Ago at={alert.began_at} /></span>
                  </p>
                  <p className="mt-1 wrap-anywhere">{alert.detail}</p>
                </div>
                {alert.state !== "resolved" && !alert.is_silenced && <Button onClick={() => { setSilencing(alert); setComment(""); setReach("one"); }}>Silence</Button>}
              </li>
            ))}
          </ul>
        </Section>
      )}
      {list.data && list.data.silences.length > 0 && (
        <Section title="Silences" className="mt-4">
          <ul className="divide-y divide-line text-sm">
            {list.data.silences.map((silence) => (
              <li key={silence.id} className="flex flex-wrap items-center justify-between gap-3 py-2">
                <span className="min-w-0 wrap-anywhere">{silence.name === null ? "every alert" : spell(silence.name)} of {silence.subject ?? "every subject"}, ends <Ago at={silence.until} />{silence.comment && `: ${silence.comment}`}</span>
                <Button onClick={() => { setError(null); value(api.DELETE("/v1/alerts/silences/{silence_id}", { params: { path: { silence_id: silence.id } } })).then(() => refreshAll(["alerts"]), setError); }}>End it</Button>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Confirm
        isOpen={silencing !== null}
        onClose={() => { setSilencing(null); }}
        title="Silence an alert"
        action="Silence it"
        run={async () => {
          if (silencing === null) return;
          await value(api.POST("/v1/alerts/silences", { body: { name: silencing.name, subject: reach === "one" ? silencing.subject : null, seconds: Number(hours) * 3600, comment } }));
          await refreshAll(["alerts"]);
        }}
      >
        <p className="mb-3">No messages are sent about it while the silence lasts.</p>
        <div className="grid grid-cols-1 gap-3">
          <Choice label="Silence" value={reach} options={[["one", `${spell(silencing?.name ?? "")} of ${silencing?.subject ?? ""}`], ["all", `every ${spell(silencing?.name ?? "")}`]]} onChange={(event) => { setReach(event.target.value); }} />
          <Choice label="For" value={hours} options={[["0.5", "30 minutes"], ["2", "2 hours"], ["12", "12 hours"], ["72", "3 days"], ["336", "2 weeks"]]} onChange={(event) => { setHours(event.target.value); }} />
          <TextField label="Comment" maxLength={200} value={comment} onChange={(event) => { setComment(event.target.value); }} />
        </div>
      </Confirm>
    </>
  );
}
