// The return value of a function, as text.

import { useQuery } from "@tanstack/react-query";
import { api, bytes, orNull, value } from "../api/client";
import { Copy, Loading, ProblemNote } from "../components/basics";
import { fromBase64 } from "../logic/log_text";
import { formatBytes } from "../logic/numbers";
import { valueAt, writeValue } from "../logic/plain_value";

const MOST_BYTES = 2 ** 20;

/** `id` is a task, or an item of one as `task#item`. */
export function ReturnValue({ id, item }: { id: string; item: number }) {
  const result = useQuery({
    queryKey: ["result", id],
    queryFn: ({ signal }) => readValue(id, item, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { data } = result;
  return (
    <div>
      <h3 className="mb-1 text-sm text-soft">Returned</h3>
      <ProblemNote error={result.error} />
      {result.isPending && <Loading rows={1} />}
      {data && ("text" in data ? (
        <div className="flex items-start gap-2 rounded-lg bg-sunken p-2 pl-3">
          <pre className="max-h-60 min-w-0 flex-1 overflow-auto py-1.5 font-mono text-xs whitespace-pre-wrap wrap-anywhere" tabIndex={0} aria-label="Its return value">{data.text}</pre>
          <Copy text={data.text} label="Copy the return value" />
        </div>
      ) : <p className="text-sm text-soft">{data.instead} <code className="font-mono">potluck result {id}</code> shows it in a terminal.</p>)}
    </div>
  );
}

async function readValue(id: string, item: number, signal: AbortSignal): Promise<{ text: string } | { instead: string }> {
  const piece = await orNull(value(api.GET("/v1/tasks/{task_id}/result", { params: { path: { task_id: id } }, signal })));
  if (piece === null) return { instead: "The value has been deleted: its time was over." };
  const { blob, data } = piece.value;
  if (blob != null && blob.size_bytes > MOST_BYTES) return { instead: `The value is in a file of ${formatBytes(blob.size_bytes)}.` };
  const file = blob == null ? fromBase64(data ?? "") : new Uint8Array(await (await bytes(`/v1/blobs/${blob.sha256}`, signal)).arrayBuffer());
  const encoded = piece.is_error ? file : valueAt(file, item - piece.start);
  const text = encoded === null ? null : writeValue(encoded);
  return text === null ? { instead: "The value is not plain data, such as a pickle." } : { text };
}
