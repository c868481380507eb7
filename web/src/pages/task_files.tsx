// The files of a task: pictures, text and tables are shown here, everything can be downloaded.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useState } from "react";
import { type Schemas, api, bytes, value } from "../api/client";
import type { Task } from "../api/tasks";
import { Button, Empty, Loading, Moment, ProblemNote, Scroller, TABLE } from "../components/basics";
import { Icon } from "../components/icons";
import { parseCsv } from "../logic/csv";
import { formatBytes, plural } from "../logic/numbers";
import { isFinal } from "../logic/states";

type NamedFile = Schemas["NamedFile"];

const PICTURES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
const TABLES = ["csv", "tsv"];
const TEXTS = ["txt", "log", "md", "json", "jsonl", "yaml", "yml", "toml", "ini", "py", "sh", "c", "cl", "cu", "xml", "html", "svg", "tex"];
const MOST_PICTURE = 20 * 2 ** 20;
const MOST_TEXT = 256 * 2 ** 10;
const MOST_ROWS = 200;

const endingOf = (path: string) => path.slice(path.lastIndexOf(".") + 1).toLowerCase();

export function FilesTab({ task }: { task: Task }) {
  const { file: wanted } = useSearch({ from: "/tasks/$taskId" });
  const navigate = useNavigate({ from: "/tasks/$taskId" });
  const files = useInfiniteQuery({
    queryKey: ["task", task.id, "files", isFinal(task.state)],
    queryFn: ({ pageParam, signal }) =>
      value(
        api.GET("/v1/tasks/{task_id}/files", {
          params: { path: { task_id: task.id }, query: { limit: 500, ...(pageParam === null ? {} : { cursor: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  if (files.isPending) return <Loading />;
  if (files.isError) return <ProblemNote error={files.error} retry={() => void files.refetch()} />;
  const all = files.data.pages.flatMap((page) => page.files);
  if (all.length === 0) {
    const isCleared = files.data.pages[0]?.cleared === true;
    return (
      <Empty title={isCleared ? "The files have been deleted: their time was over." : "No files."}>
        {!isCleared && <p>A task keeps what it writes into its folder <code className="font-mono">output</code>, and what its <code className="font-mono">--keep</code> patterns name.</p>}
      </Empty>
    );
  }
  const chosen = all.find((file) => file.path === wanted) ?? all.find((file) => endingOf(file.path) in PICTURES) ?? all[0];
  const keptUntil = files.data.pages[0]?.kept_until;
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,20rem)_minmax(0,1fr)]">
      <div className="sheet overflow-hidden">
        <ul className="max-h-[60vh] divide-y divide-line overflow-y-auto">
          {all.map((file) => (
            <li key={file.path}>
              <button
                type="button"
                aria-pressed={file.path === chosen?.path}
                onClick={() => void navigate({ search: { tab: "files", file: file.path }, replace: true })}
                className="flex w-full items-center gap-2 px-3 py-2 text-left text-sm hover:bg-sunken aria-pressed:bg-accent-ground"
              >
                <Icon name="file" />
                <span className="min-w-0 flex-1 wrap-anywhere">{file.path}</span>
                <span className="shrink-0 text-xs text-soft">{formatBytes(file.blob.size_bytes)}</span>
              </button>
            </li>
          ))}
        </ul>
        <p className="border-t border-line px-3 py-2 text-xs text-soft">
          {plural(all.length, "file")}{files.hasNextPage ? " so far" : ""}{keptUntil && <>, kept until <Moment at={keptUntil} /></>}
        </p>
        {files.hasNextPage && <Button weight="quiet" className="w-full" onClick={() => void files.fetchNextPage()}>More files</Button>}
      </div>
      {chosen && <Preview key={chosen.path} file={chosen} />}
    </div>
  );
}

function Preview({ file }: { file: NamedFile }) {
  const ending = endingOf(file.path);
  const size = file.blob.size_bytes;
  const [error, setError] = useState<unknown>(null);
  const save = async () => {
    setError(null);
    try {
      const content = await bytes(`/v1/blobs/${file.blob.sha256}`);
      const address = URL.createObjectURL(content);
      const link = document.createElement("a");
      link.href = address;
      link.download = file.path.split("/").at(-1) ?? "file";
      link.click();
      URL.revokeObjectURL(address);
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <div className="sheet min-w-0 p-4">
      <div className="mb-3 flex flex-wrap items-center justify-between gap-2">
        <h2 className="min-w-0 font-semibold wrap-anywhere">{file.path}</h2>
        <Button icon="download" onClick={() => void save()}>Download</Button>
      </div>
      <ProblemNote error={error} />
      {ending in PICTURES && size <= MOST_PICTURE ? (
        <Picture file={file} type={PICTURES[ending] ?? ""} />
      ) : TABLES.includes(ending) || TEXTS.includes(ending) ? (
        <TextPreview file={file} isTable={TABLES.includes(ending)} />
      ) : (
        <p className="text-sm text-soft">There is no preview of this kind of file.</p>
      )}
    </div>
  );
}

const useContent = (file: NamedFile, most: number) =>
  useQuery({
    queryKey: ["blob", file.blob.sha256, most],
    queryFn: ({ signal }) =>
      bytes(`/v1/blobs/${file.blob.sha256}`, signal, file.blob.size_bytes > most ? `bytes=0-${String(most - 1)}` : undefined),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });

// A raster picture by its declared type: nothing that a browser would run.
function Picture({ file, type }: { file: NamedFile; type: string }) {
  const content = useContent(file, MOST_PICTURE);
  const { data } = content;
  const [isBroken, setBroken] = useState(false);
  const show = useCallback(
    (image: HTMLImageElement | null) => {
      if (image === null || data === undefined) return;
      const address = URL.createObjectURL(new Blob([data], { type }));
      image.src = address;
      return () => { URL.revokeObjectURL(address); };
    },
    [data, type],
  );
  if (content.isError) return <ProblemNote error={content.error} retry={() => void content.refetch()} />;
  if (data === undefined) return <Loading rows={4} />;
  if (isBroken) return <p className="text-sm text-soft">This file is not a picture that a browser can show.</p>;
  return <img ref={show} alt={`Output of the task: ${file.path}`} className="mx-auto max-h-[70vh] rounded-lg bg-sunken" onError={() => { setBroken(true); }} />;
}

function TextPreview({ file, isTable }: { file: NamedFile; isTable: boolean }) {
  const content = useContent(file, MOST_TEXT);
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    void content.data?.text().then(setText);
  }, [content.data]);
  if (content.isError) return <ProblemNote error={content.error} retry={() => void content.refetch()} />;
  if (text === null) return <Loading rows={4} />;
  const isCut = file.blob.size_bytes > MOST_TEXT;
  return (
    <>
      {isTable ? <TablePreview text={text} name={file.path} /> : (
        <pre className="max-h-[60vh] overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs" tabIndex={0} aria-label={file.path}>{text}</pre>
      )}
      {isCut && <p className="mt-2 text-xs text-soft">The first {formatBytes(MOST_TEXT)}. The download has everything.</p>}
    </>
  );
}

function TablePreview({ text, name }: { text: string; name: string }) {
  const [head = [], ...rows] = parseCsv(text, MOST_ROWS + 1);
  return (
    <>
      <Scroller label={name}>
        <table className={TABLE}>
          <thead><tr>{head.map((cell, index) => <th key={index} scope="col">{cell}</th>)}</tr></thead>
          <tbody>{rows.map((row, at) => <tr key={at}>{row.map((cell, index) => <td key={index} className="font-mono text-xs">{cell}</td>)}</tr>)}</tbody>
        </table>
      </Scroller>
      {rows.length === MOST_ROWS && <p className="mt-2 text-xs text-soft">The first {MOST_ROWS} rows.</p>}
    </>
  );
}
