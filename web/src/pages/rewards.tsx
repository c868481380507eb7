// What my machines earned, on its way from earned to paid; by day, by device and by epoch.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Suspense, lazy, useMemo, useState } from "react";
import { type Schemas, api, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { Ago, Button, Credits, Empty, LinkButton, Loading, PageTitle, ProblemNote, Scroller, Section, TABLE } from "../components/basics";
import { Segments } from "../components/field";
import { approximate } from "../logic/credits";
import { formatCount } from "../logic/numbers";
import { formatDay, formatDuration, formatMoment } from "../logic/time";
import { waterfall } from "../logic/waterfall";
import { ClaimSection } from "./claim";
import { StatementDialog } from "./statement";

const Plot = lazy(() => import("../components/plot").then((module) => ({ default: module.Plot })));

export function RewardsPage() {
  const rewards = useQuery({ queryKey: ["rewards"], queryFn: ({ signal }) => value(api.GET("/v1/me/rewards", { signal })) });
  return (
    <>
      <PageTitle title="Rewards" about="From the work of your machines to a payout." />
      <ProblemNote error={rewards.error} retry={() => void rewards.refetch()} />
      {rewards.isPending && <Loading rows={5} />}
      {rewards.data && (
        <div className="grid grid-cols-1 gap-4">
          <Waterfall rewards={rewards.data} />
          <ClaimSection claimableMicro={rewards.data.claimable_micro} />
          <Days />
          <Devices rewards={rewards.data} />
          <Epochs />
        </div>
      )}
    </>
  );
}

function Waterfall({ rewards }: { rewards: Schemas["Rewards"] }) {
  const refreshAll = useRefresh();
  const [error, setError] = useState<unknown>(null);
  const steps = waterfall(rewards);
  const choose = (rewardsTo: "credits" | "payout") => {
    setError(null);
    value(api.PUT("/v1/me/rewards", { body: { rewards_to: rewardsTo } })).then(() => refreshAll(["rewards"]), setError);
  };
  return (
    <Section title="From earned to paid" about={rewards.epoch ? `Amounts of all time. The open epoch ends ${formatMoment(rewards.epoch.ends_at)}.` : "Amounts of all time."}>
      <ul className="grid gap-2.5" aria-label="From earned to paid">
        {steps.map((step) => (
          <li key={step.name} className="grid grid-cols-[7rem_1fr_auto] items-center gap-3 text-sm sm:grid-cols-[10rem_1fr_9rem]">
            <span title={step.about}>{step.name}</span>
            <span aria-hidden className="relative h-5 rounded bg-sunken">
              <span
                className={`absolute inset-y-0 rounded ${step.tone === "less" ? "bg-strong-line" : step.tone === "paid" ? "bg-good" : "bg-accent"}`}
                style={{ left: `${String(step.start * 100)}%`, width: `${String(Math.max(0, step.end - step.start) * 100)}%` }}
              />
            </span>
            <span className="text-right font-medium">{step.tone === "less" && step.micro > 0n ? "−" : ""}<Credits micro={step.micro} /></span>
          </li>
        ))}
      </ul>
      {rewards.held_back_micro > 0n && <p className="mt-3 text-sm text-soft">Held back for attempts that still run: <Credits micro={rewards.held_back_micro} /> credits.</p>}
      <div className="mt-4 flex flex-wrap items-center gap-3 border-t border-line pt-4 text-sm">
        <span>Rewards of the open epoch and later</span>
        <Segments label="What happens to rewards" value={rewards.rewards_to} options={[["credits", "stay credits"], ["payout", "are paid out"]]} onChange={choose} />
        <span className="text-soft">{rewards.rewards_to === "payout" ? "What you do not spend is set aside when an epoch is closed." : "You can spend them in the pool."}</span>
      </div>
      <ProblemNote error={error} />
    </Section>
  );
}

function Days() {
  const earnings = useQuery({ queryKey: ["earnings"], queryFn: ({ signal }) => value(api.GET("/v1/me/earnings", { signal })) });
  const { data } = earnings;
  const days = useMemo(() => {
    const byDay = new Map<string, bigint>();
    for (const each of data?.earned ?? []) byDay.set(each.day, (byDay.get(each.day) ?? 0n) + each.earned_micro);
    const sorted = [...byDay].toSorted(([a], [b]) => a.localeCompare(b));
    return {
      times: sorted.map(([day]) => Date.parse(`${day}T12:00:00Z`) / 1000),
      series: [{ label: "Earned", values: sorted.map(([, micro]) => approximate(micro)), color: "accent" as const }],
    };
  }, [data]);
  if (earnings.isPending) return <Loading />;
  if (earnings.isError) return <ProblemNote error={earnings.error} />;
  if (earnings.data.earned.length === 0) {
    return <Empty title="Nothing earned in the last 30 days." action={<LinkButton to="/machines">See why</LinkButton>}>Each machine's page says why it gets no work, and what would help.</Empty>;
  }
  return (
    <Section title="The last 30 days">
      {days.times.length > 1 && <Suspense fallback={<Loading />}><Plot label="Credits earned on each day" times={days.times} series={days.series} bars height={180} /></Suspense>}
      <Scroller label="Earnings by day and machine">
        <table className={TABLE}>
          <thead><tr><th scope="col">Day</th><th scope="col">Machine</th><th scope="col" className="num">Attempts</th><th scope="col" className="num">Worked</th><th scope="col" className="num">Earned</th><th scope="col" className="num">Fee</th></tr></thead>
          <tbody>
            {earnings.data.earned.slice(0, 60).map((each) => (
              <tr key={`${each.day} ${each.node_id} ${each.device_id ?? ""}`}>
                <td>{formatDay(each.day)}</td>
                <td className="wrap-anywhere">{each.node_name}</td>
                <td className="num">{formatCount(each.attempts)}</td>
                <td className="num">{formatDuration(each.worked_seconds)}</td>
                <td className="num"><Credits micro={each.earned_micro} aligned /></td>
                <td className="num"><Credits micro={each.fee_micro} aligned /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
    </Section>
  );
}

function Devices({ rewards }: { rewards: Schemas["Rewards"] }) {
  if (rewards.devices.length === 0) return null;
  return (
    <Section title={`What your devices contributed since ${formatDay(rewards.since)}`}>
      <Scroller label="Contribution by device">
        <table className={TABLE}>
          <thead><tr><th scope="col">Device</th><th scope="col">Machine</th><th scope="col" className="num">Offered</th><th scope="col" className="num">Worked</th><th scope="col" className="num">Attempts</th><th scope="col" className="num">Earned</th><th scope="col" className="num">Fee</th></tr></thead>
          <tbody>
            {rewards.devices.map(({ node_id, device_id, node_name, model, contribution }) => (
              <tr key={`${node_id} ${device_id ?? ""}`}>
                <td className="wrap-anywhere">{model || "several devices"}</td>
                <td className="wrap-anywhere">{node_name}</td>
                <td className="num">{formatDuration(contribution.offered_seconds)}</td>
                <td className="num">{formatDuration(contribution.worked_seconds)}</td>
                <td className="num">{formatCount(contribution.attempts)}</td>
                <td className="num"><Credits micro={contribution.earned_micro} aligned /></td>
                <td className="num"><Credits micro={contribution.fee_micro} aligned /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
    </Section>
  );
}

function Epochs() {
  const list = useInfiniteQuery({
    queryKey: ["rewards", "epochs"],
    queryFn: ({ pageParam, signal }) => value(api.GET("/v1/me/rewards/epochs", { params: { query: { limit: 30, ...(pageParam === null ? {} : { cursor: pageParam }) } }, signal })),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  const epochs = list.data?.pages.flatMap((page) => page.epochs) ?? [];
  const [statement, setStatement] = useState<number | null>(null);
  if (list.isError) return <ProblemNote error={list.error} />;
  if (epochs.length === 0) return null;
  return (
    <Section title="Closed epochs" about="The server signs a statement of each, which anyone can check without it.">
      <Scroller label="Epochs">
        <table className={TABLE}>
          <thead><tr><th scope="col">Epoch</th><th scope="col">Ended</th><th scope="col" className="num">Earned</th><th scope="col" className="num">Fee</th><th scope="col" className="num">Set aside</th><th scope="col" className="num">In all</th><th scope="col"><span className="sr-only">Statement</span></th></tr></thead>
          <tbody>
            {epochs.map((epoch) => (
              <tr key={epoch.number}>
                <td>{epoch.number}</td>
                <td><Ago at={epoch.ends_at} /></td>
                <td className="num"><Credits micro={epoch.earned_micro} aligned /></td>
                <td className="num"><Credits micro={epoch.fee_micro} aligned /></td>
                <td className="num"><Credits micro={epoch.amount_micro} aligned /></td>
                <td className="num"><Credits micro={epoch.cumulative_micro} aligned /></td>
                <td className="text-right"><Button weight="quiet" className="-my-1.5" onClick={() => { setStatement(epoch.number); }}>Statement</Button></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
      {list.hasNextPage && <Button className="mt-2" onClick={() => void list.fetchNextPage()}>Older</Button>}
      {statement !== null && <StatementDialog epoch={statement} isOfPool={false} onClose={() => { setStatement(null); }} />}
    </Section>
  );
}
