// Alerts and silences.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, api, value } from "../../api/client";
import { useRefresh } from "../../api/hooks";
import { Ago, Button, Empty, Loading, PageTitle, ProblemNote, Scroller, Section, StateBadge, TABLE } from "../../components/basics";
import { Confirm } from "../../components/dialog";
import { Choice, TextField } from "../../components/field";
import { spell } from "../../logic/states";

type Alert = Schemas["AlertView"];

export function AlertsPage() {
  const list = useQuery({ queryKey: ["alerts"], queryFn: ({ signal }) => value(api.GET("/v1/alerts", { signal })), refetchInterval: 30_000 });
  const refreshAll = useRefresh();
  const [silencing, setSilencing] = useState<Alert | null>(null);
  const [hours, setHours] = useState("2");
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
          <Scroller label="Alerts">
            <table className={TABLE}>
              <thead><tr><th scope="col">State</th><th scope="col">Alert</th><th scope="col">Subject</th><th scope="col">Detail</th><th scope="col">Began</th><th scope="col"><span className="sr-only">Actions</span></th></tr></thead>
              <tbody>
                {list.data.alerts.map((alert) => (
                  <tr key={alert.id}>
                    <td><StateBadge state={alert.state} /></td>
                    <td className="font-medium">{spell(alert.name)}</td>
                    <td className="max-w-40 wrap-anywhere">{alert.subject}</td>
                    <td className="wrap-anywhere">{alert.detail}</td>
                    <td><Ago at={alert.began_at} /></td>
                    <td className="num">{alert.state !== "resolved" && <Button onClick={() => { setSilencing(alert); setComment(""); }}>Silence</Button>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroller>
        </Section>
      )}
      {list.data && list.data.silences.length > 0 && (
        <Section title="Silences" className="mt-4">
          <ul className="divide-y divide-line text-sm">
            {list.data.silences.map((silence) => (
              <li key={silence.id} className="flex flex-wrap items-center justify-between gap-3 py-2">
                <span className="min-w-0 wrap-anywhere">{silence.name === null ? "every alert" : spell(silence.name)} of {silence.subject ?? "every subject"}, until <Ago at={silence.until} />{silence.comment && `: ${silence.comment}`}</span>
                <Button onClick={() => { setError(null); value(api.DELETE("/v1/alerts/silences/{silence_id}", { params: { path: { silence_id: silence.id } } })).then(() => refreshAll(["alerts"]), setError); }}>End it</Button>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Confirm
        isOpen={silencing !== null}
        onClose={() => { setSilencing(null); }}
        title="Silence this alert?"
        action="Silence it"
        run={async () => {
          if (silencing === null) return;
          await value(api.POST("/v1/alerts/silences", { body: { name: silencing.name, subject: silencing.subject, seconds: Number(hours) * 3600, comment } }));
          await refreshAll(["alerts"]);
        }}
      >
        <p className="mb-3">No messages are sent about {spell(silencing?.name ?? "")} of {silencing?.subject} while the silence lasts.</p>
        <div className="grid grid-cols-1 gap-3">
          <Choice label="For" value={hours} options={[["0.5", "30 minutes"], ["2", "2 hours"], ["12", "12 hours"], ["72", "3 days"], ["336", "2 weeks"]]} onChange={(event) => { setHours(event.target.value); }} />
          <TextField label="Comment" value={comment} onChange={(event) => { setComment(event.target.value); }} />
        </div>
      </Confirm>
    </>
  );
}
