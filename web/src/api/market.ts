// Devices on offer, and what they cost.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { parseCredits } from "../logic/credits";
import { parseBytes } from "../logic/numbers";
import { type Schemas, api, value } from "./client";

export type PoolDevice = Schemas["PoolDevice"];
export interface MarketSearch {
  kind?: string;
  model?: string;
  vendor?: string;
  memory?: string;
  price?: string;
  free?: string;
  label?: string;
  reliability?: string;
}

const PAGE = 100;

/** The filters as the API takes them; a text that is not an amount is left out. */
export function deviceQuery(search: MarketSearch) {
  const memory = parseBytes(search.memory ?? "");
  const price = parseCredits(search.price ?? "");
  const reliability = Number(search.reliability ?? "") / 100;
  return {
    ...(search.kind === "gpu" || search.kind === "cpu" ? { kind: search.kind } : {}),
    ...(search.model === undefined ? {} : { model: search.model }),
    ...(search.vendor === undefined ? {} : { vendor: search.vendor }),
    ...(memory === null ? {} : { memory_bytes: memory }),
    ...(price === null || price < 0n ? {} : { max_price_micro_per_hour: Number(price) }),
    ...(search.free === undefined ? {} : { free_milli: 1000 }),
    ...(search.label === undefined ? {} : { label: search.label.split(/[,\s]+/).filter(Boolean) }),
    ...(reliability > 0 && reliability <= 1 ? { min_reliability: reliability } : {}),
  } as const;
}

export function useDevices(search: MarketSearch) {
  return useInfiniteQuery({
    queryKey: ["devices", search],
    queryFn: ({ pageParam, signal }) =>
      value(api.GET("/v1/devices", { params: { query: { ...deviceQuery(search), limit: PAGE, ...(pageParam === null ? {} : { cursor: pageParam }) } as never }, signal })),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    structuralSharing: false,
  });
}

export const useMarket = () =>
  useQuery({
    queryKey: ["market"],
    queryFn: ({ signal }) => value(api.GET("/v1/market", { signal })),
    refetchInterval: 60_000,
  });

/** What other owners of such a device earn with which price, in a sentence. */
export const useSuggestion = (deviceId: string) =>
  useQuery({
    queryKey: ["device", deviceId, "suggestion"],
    queryFn: ({ signal }) => value(api.GET("/v1/devices/{device_id}/suggestion", { params: { path: { device_id: deviceId } }, signal })),
    staleTime: 300_000,
  });
