// Volumes: named data sets of this account, and those that others share with it.

import { useQuery } from "@tanstack/react-query";
import { type Schemas, api, value } from "./client";

export type Volume = Schemas["VolumeView"];

export const useVolumes = () =>
  useQuery({
    queryKey: ["volumes"],
    queryFn: ({ signal }) => value(api.GET("/v1/volumes", { params: { query: { limit: 200 } }, signal })),
  });

/** As a task names it: with its owner, if that is another account. */
export const volumeName = (volume: Volume) => (volume.is_own ? volume.name : `${volume.owner}/${volume.name}`);
