// What a device cost, and since when.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, value } from "../api/client";
import { Moment, Price, ProblemNote } from "../components/basics";
import { Plot, type Series } from "../components/plot";
import { stepsOf } from "../logic/price_steps";

/** Another `price` of the device reads the history anew. */
export function PriceHistory({ deviceId, price }: { deviceId: string; price: bigint }) {
  const history = useQuery({
    queryKey: ["device", deviceId, "prices", String(price)],
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => value(api.GET("/v1/devices/{device_id}/prices", { params: { path: { device_id: deviceId }, query: { limit: 100 } }, signal })),
  });
  const prices = history.data?.prices;
  const read = history.dataUpdatedAt;
  const plot = useMemo(() => {
    const steps = stepsOf(prices ?? [], read);
    const series: Series[] = [{ label: "Price", values: steps.credits, color: "good" }];
    return { times: steps.times, series };
  }, [prices, read]);
  if (history.isError) return <ProblemNote error={history.error} />;
  const now = prices?.[0];
  if (now === undefined) return null;
  return (
    <div>
      <p className="mb-1 text-sm">
        <span className="font-medium">Price over time</span> <span className="text-soft">now <Price microPerHour={now.price_micro_per_hour} />, since <Moment at={now.since} /></span>
      </p>
      {prices !== undefined && prices.length > 1 ? (
        <Plot label="Price of the whole device for an hour, over time" times={plot.times} series={plot.series} height={110} />
      ) : (
        <p className="text-sm text-soft">It has not changed since the device was first seen.</p>
      )}
    </div>
  );
}
