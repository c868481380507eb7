// What my machines earned: by day, and on its way from earned to paid.

import { useQuery } from "@tanstack/react-query";
import { Suspense, lazy, useMemo } from "react";
import { api, value } from "../api/client";
import { Credits, Empty, LinkButton, Loading, PageTitle, ProblemNote, Scroller, Section, Stat, Stats, TABLE } from "../components/basics";
import { approximate } from "../logic/credits";
import { formatCount, plural } from "../logic/numbers";
import { formatDay, formatDuration } from "../logic/time";

const Plot = lazy(() => import("../components/plot").then((module) => ({ default: module.Plot })));

export function RewardsPage() {
  const earnings = useQuery({ queryKey: ["earnings"], queryFn: ({ signal }) => value(api.GET("/v1/me/earnings", { signal })) });
  const { data } = earnings;
  const days = useMemo(() => {
    const byDay = new Map<string, bigint>();
    for (const each of data?.earned ?? []) byDay.set(each.day, (byDay.get(each.day) ?? 0n) + each.reward_micro);
    const sorted = [...byDay].toSorted(([a], [b]) => a.localeCompare(b));
    return {
      times: sorted.map(([day]) => Date.parse(`${day}T12:00:00Z`) / 1000),
      series: [{ label: "Earned", values: sorted.map(([, micro]) => approximate(micro)), color: "accent" as const }],
    };
  }, [data]);
  return (
    <>
      <PageTitle title="Rewards" about="What your machines earned from finished work, after the operator's fee." />
      <ProblemNote error={earnings.error} retry={() => void earnings.refetch()} />
      {earnings.isPending && <Loading />}
      {data && (
        <>
          <Stats>
            <Stat label="Earned in the last 30 days"><Credits micro={data.reward_micro} /></Stat>
            <Stat label="Attempts">{formatCount(data.attempts)}</Stat>
            <Stat label="Time worked">{formatDuration(data.seconds)}</Stat>
            <Stat label="Energy" note="as far as devices report it">{data.used.energy_joules === null ? "–" : `${(data.used.energy_joules / 3.6e6).toLocaleString(undefined, { maximumFractionDigits: 2 })} kWh`}</Stat>
          </Stats>
          {data.earned.length === 0 ? (
            <Empty title="Nothing earned yet." action={<LinkButton to="/machines">See why</LinkButton>}>Each machine's page says why it gets no work, and what would help.</Empty>
          ) : (
            <div className="grid gap-4">
              <Section title="By day">
                <Suspense fallback={<Loading />}><Plot label="Credits earned on each day" times={days.times} series={days.series} bars height={180} /></Suspense>
              </Section>
              <Section title="By day and machine">
                <Scroller label="Earnings">
                  <table className={TABLE}>
                    <thead><tr><th scope="col">Day</th><th scope="col">Machine</th><th scope="col" className="num">Attempts</th><th scope="col" className="num">Time</th><th scope="col" className="num">Earned</th></tr></thead>
                    <tbody>
                      {data.earned.map((each) => (
                        <tr key={`${each.day} ${each.node_id} ${each.device_id ?? ""}`}>
                          <td>{formatDay(each.day)}</td>
                          <td className="wrap-anywhere">{each.node_name}</td>
                          <td className="num">{formatCount(each.attempts)}</td>
                          <td className="num">{formatDuration(each.seconds)}</td>
                          <td className="num"><Credits micro={each.reward_micro} /></td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </Scroller>
                <p className="mt-2 text-xs text-soft">{plural(data.earned.length, "line")}. Days are UTC.</p>
              </Section>
            </div>
          )}
        </>
      )}
    </>
  );
}
