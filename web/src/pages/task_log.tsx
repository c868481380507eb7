// The log: followed while the task runs, searchable, and complete as a download.

import { saveFile } from "../components/save_file";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { type Schemas, api, value } from "../api/client";
import { parseExact } from "../api/exact";
import { type StreamStatus, openStream } from "../api/stream";
import type { Task } from "../api/tasks";
import { Button, ProblemNote } from "../components/basics";
import { Check } from "../components/field";
import { LogText, findLines, fromBase64 } from "../logic/log_text";
import { formatCount, plural } from "../logic/numbers";
import { isFinal } from "../logic/states";

type Followed = Schemas["FollowedState"] | Schemas["FollowedLog"];

const ROW = 20;
const COLORS: Record<string, string> = { stderr: "text-alarm", potluck: "text-busy" };

interface Shown {
  text: LogText;
  count: number;
  isCleared: boolean;
}

const nothing = (): Shown => ({ text: new LogText(), count: 0, isCleared: false });

export function LogTab({ task }: { task: Task }) {
  const [attempt, setAttempt] = useState<number | null>(null);
  const numbers = task.attempts.map((each) => each.number);
  return (
    <div>
      {numbers.length > 1 && (
        <label className="mb-2 flex items-center gap-2 text-sm">
          Attempt
          <select className="field w-auto!" value={attempt ?? ""} onChange={(event) => { setAttempt(event.target.value === "" ? null : Number(event.target.value)); }}>
            <option value="">newest</option>
            {numbers.map((number) => <option key={number} value={number}>{number}</option>)}
          </select>
        </label>
      )}
      {attempt === null && !(isFinal(task.state) || task.items) ? <FollowedLog task={task} /> : <StoredLog key={attempt} task={task} attempt={attempt} />}
    </div>
  );
}

function FollowedLog({ task }: { task: Task }) {
  const [log, setLog] = useState<Shown>(nothing);
  const [status, setStatus] = useState<StreamStatus>("connecting");
  const queries = useQueryClient();
  useEffect(() => {
    let text = new LogText();
    let attempt: string | null = null;
    let isOver = false;
    return openStream(`/v1/tasks/${task.id}/follow`, {
      isOver: () => isOver,
      onStatus: setStatus,
      onEvent: (event) => {
        const said = parseExact(event.data) as Followed;
        if (said.event === "state") {
          queries.setQueryData(["task", task.id], said.task);
          isOver = isFinal(said.task.state);
          return;
        }
        if (said.page.attempt_id !== attempt) {
          attempt = said.page.attempt_id;
          text = new LogText();
        }
        for (const piece of said.page.pieces) text.push(piece.stream, fromBase64(piece.data), piece.at);
        setLog({ text, count: text.lines.length, isCleared: said.page.cleared });
      },
    });
  }, [task.id, queries]);
  return <LogView task={task} log={log} note={status === "live" ? "live" : status === "ended" ? "complete" : "connecting …"} />;
}

function StoredLog({ task, attempt }: { task: Task; attempt: number | null }) {
  const [log, setLog] = useState<Shown>(nothing);
  const [note, setNote] = useState("loading …");
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const control = new AbortController();
    const read = async () => {
      const text = new LogText();
      for (let offset = 0; ; ) {
        const page = await logPage(task.id, attempt, offset, control.signal);
        for (const piece of page.pieces) text.push(piece.stream, fromBase64(piece.data), piece.at);
        setLog({ text, count: text.lines.length, isCleared: page.cleared });
        if (page.next_offset <= offset || page.pieces.length === 0) break;
        offset = page.next_offset;
      }
      setNote("complete");
    };
    read().catch((problem: unknown) => { if (!control.signal.aborted) setError(problem); });
    return () => { control.abort(); };
  }, [task.id, attempt]);
  return (
    <>
      <ProblemNote error={error} />
      <LogView task={task} log={log} note={note} />
    </>
  );
}

const logPage = (taskId: string, attempt: number | null, offset: number, signal?: AbortSignal) =>
  value(
    api.GET("/v1/tasks/{task_id}/logs", {
      params: { path: { task_id: taskId }, query: { offset, ...(attempt === null ? {} : { attempt }) } },
      ...(signal === undefined ? {} : { signal }),
    }),
  );

function LogView({ task, log, note }: { task: Task; log: Shown; note: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const [wanted, setWanted] = useState("");
  const [match, setMatch] = useState(-1); // none is shown yet
  const { lines } = log.text;
  const matches = useMemo(() => findLines(log.text.lines, wanted), [log, wanted]);
  const rows = useVirtualizer({ count: log.count, getScrollElement: () => place.current, estimateSize: () => ROW, overscan: 30 });
  useEffect(() => {
    if (isFollowing && log.count > 0) rows.scrollToIndex(log.count - 1, { align: "end" });
  }, [isFollowing, log.count, rows]);
  const goTo = useCallback(
    (next: number) => {
      const at = matches[(next + matches.length) % matches.length];
      if (at === undefined) return;
      setMatch((next + matches.length) % matches.length);
      setFollowing(false);
      rows.scrollToIndex(at, { align: "center" });
    },
    [matches, rows],
  );
  const current = matches[match];
  return (
    <div className="sheet overflow-hidden">
      <div className="flex flex-wrap items-center gap-2 border-b border-line p-2">
        <input
          data-search
          type="search"
          aria-label="Search in the log"
          placeholder="Search in the log"
          className="field max-w-64"
          value={wanted}
          onChange={(event) => {
            setWanted(event.target.value);
            setMatch(-1);
          }}
          onKeyDown={(event) => { if (event.key === "Enter") goTo(event.shiftKey ? Math.max(match, 0) - 1 : match + 1); }}
        />
        {wanted !== "" && (
          <>
            <span role="status" className="text-sm text-soft">{matches.length === 0 ? "no match" : match < 0 ? plural(matches.length, "match", "matches") : `${formatCount(match + 1)} of ${formatCount(matches.length)}`}</span>
            <Button weight="quiet" disabled={matches.length === 0} onClick={() => { goTo(Math.max(match, 0) - 1); }}>Previous</Button>
            <Button weight="quiet" disabled={matches.length === 0} onClick={() => { goTo(match + 1); }}>Next</Button>
          </>
        )}
        <div className="ml-auto flex items-center gap-3">
          <span className="text-sm text-soft">{plural(log.count, "line")}, {note}</span>
          <Check label="Follow" checked={isFollowing} onChange={(event) => { setFollowing(event.target.checked); }} />
          <Button icon="download" weight="quiet" disabled={log.count === 0} onClick={() => { download(task, log.text); }}>Download</Button>
        </div>
      </div>
      <div
        ref={place}
        tabIndex={0}
        role="region"
        aria-label="Log"
        className={`overflow-auto bg-sunken py-2 font-mono text-xs ${isFinal(task.state) || log.count === 0 ? "max-h-[50vh]" : "h-[50vh] min-h-64"}`}
        onWheel={(event) => { if (event.deltaY < 0) setFollowing(false); }}
      >
        {log.count === 0 ? (
          <p className="px-4 py-2 font-sans text-sm text-soft">
            {log.isCleared ? "The log has been deleted: its time was over." : isFinal(task.state) ? "It wrote nothing." : "Nothing yet. Output appears here as the task writes it."}
          </p>
        ) : (
          <div className="relative w-max min-w-full" style={{ height: rows.getTotalSize() }}>
            {rows.getVirtualItems().map((row) => {
              const line = lines[row.index];
              return (
                <div
                  key={row.key}
                  className={`absolute top-0 left-0 min-w-full px-4 whitespace-pre ${COLORS[line?.stream ?? ""] ?? ""} ${row.index === current && wanted !== "" ? "bg-wait-ground" : ""}`}
                  style={{ height: ROW, lineHeight: `${String(ROW)}px`, transform: `translateY(${String(row.start)}px)` }}
                >
                  {line?.text === "" ? " " : line?.text}
                </div>
              );
            })}
          </div>
        )}
      </div>
    </div>
  );
}

const download = (task: Task, text: LogText) => {
  saveFile(`${task.id}.log`, text.lines.map((line) => `${line.text}\n`).join(""), "text/plain");
};
