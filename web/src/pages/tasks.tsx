// My tasks: the states are the filter, and the address holds the whole view.

import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Suspense, lazy, useMemo, useState } from "react";
import { useCounts } from "../api/counts";
import { type Task, type TaskSearch, previewAction, useTasks } from "../api/tasks";
import { Ago, Button, Copy, Credits, Empty, LinkButton, Loading, PageTitle, ProblemNote, StateBadge } from "../components/basics";
import { FilterField } from "../components/field";
import { useNow } from "../components/now";
import { SavedViews } from "../components/saved_views";
import { VirtualRows } from "../components/virtual_rows";
import { formatCount, plural } from "../logic/numbers";
import { TASK_STATES, type TaskState, readStates, spell, writeStates } from "../logic/states";
import { formatDuration, secondsBetween } from "../logic/time";
import type { Affected } from "./bulk";

const BulkDialog = lazy(() => import("./bulk").then((module) => ({ default: module.BulkDialog })));

const COLUMNS =
  "grid grid-cols-[1.5rem_minmax(0,1fr)_auto] items-center gap-x-3 px-3 lg:grid-cols-[1.5rem_minmax(0,2.2fr)_7.5rem_6rem_minmax(0,1fr)_7rem_6.5rem_7rem]";

const FILTERS = ["state", "name", "kind", "since"] as const;

export function TasksPage() {
  const search = useSearch({ from: "/tasks" });
  const navigate = useNavigate({ from: "/tasks" });
  const list = useTasks(search);
  const tasks = useMemo(() => list.data?.pages.flatMap((page) => page.tasks) ?? [], [list.data]);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<{ action: "cancel" | "retry"; tasks: Affected[]; hasMore: boolean } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const queries = useQueryClient();
  const change = (next: Partial<TaskSearch>) => {
    setChosen(new Set());
    void navigate({ search: { ...search, ...next }, replace: true });
  };
  const picked = tasks.filter((task) => chosen.has(task.id));
  const isFiltered = FILTERS.some((name) => search[name] !== undefined);
  const actOnChosen = (action: "cancel" | "retry") => { setBulk({ action, tasks: picked, hasMore: false }); };
  const actOnAll = (action: "cancel" | "retry") => {
    setError(null);
    previewAction(action, search).then((found) => { setBulk({ action, tasks: found.tasks, hasMore: found.has_more }); }, setError);
  };

  return (
    <>
      <PageTitle
        title="Tasks"
        actions={
          <LinkButton to="/submit" weight="main" icon="plus">
            Submit a task
          </LinkButton>
        }
      />
      <StateFilter search={search} change={change} />
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <label className="relative min-w-40 flex-1 sm:max-w-72">
          <span className="sr-only">Search by name</span>
          <FilterField
            data-search
            type="search"
            placeholder="Part of the name"
            value={search.name ?? ""}
            onFilter={(name) => { change({ name: name || undefined } as TaskSearch); }}
            className="field"
          />
        </label>
        <Select
          label="Kind"
          value={search.kind ?? ""}
          options={[["", "All kinds"], ["script", "Scripts"], ["function", "Functions"], ["container", "Containers"], ["command", "Commands"]]}
          onChange={(kind) => { change({ kind: kind || undefined } as TaskSearch); }}
        />
        <Select
          label="Submitted"
          value={search.since ?? ""}
          options={[["", "Any time"], ["day", "Last 24 hours"], ["week", "Last 7 days"], ["month", "Last 30 days"]]}
          onChange={(since) => { change({ since: since || undefined } as TaskSearch); }}
        />
        <SavedViews page="tasks" to="/tasks" isFiltered={isFiltered} />
        <div className="flex flex-wrap items-center gap-1 sm:ml-auto">
          {isFiltered && (
            <>
              <Button weight="quiet" onClick={() => { actOnAll("retry"); }}>Retry all …</Button>
              <Button weight="quiet" onClick={() => { actOnAll("cancel"); }}>Cancel all …</Button>
              <Copy text={window.location.href} label="Copy a link to this view" />
              <Button weight="quiet" onClick={() => { change({ state: undefined, name: undefined, kind: undefined, since: undefined } as unknown as TaskSearch); }}>
                Clear
              </Button>
            </>
          )}
        </div>
      </div>
      <ProblemNote error={error} />
      <ProblemNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading rows={8} />}
      {list.isSuccess && tasks.length === 0 && (
        <NoTasks
          isFiltered={isFiltered}
          name={search.name}
          older={list.hasNextPage && <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>{list.isFetchingNextPage ? "Searching …" : "Search older tasks"}</Button>}
        />
      )}
      {tasks.length > 0 && (
        <VirtualRows
          label="Tasks"
          items={tasks}
          keyOf={(task) => task.id}
          height={60}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          loadMore={() => void list.fetchNextPage()}
          head={
            <Head
              isAll={chosen.size > 0 && chosen.size === tasks.length}
              chooseAll={(all) => { setChosen(new Set(all ? tasks.map((task) => task.id) : [])); }}
            />
          }
        >
          {(task) => (
            <Row
              task={task}
              isChosen={chosen.has(task.id)}
              choose={(is) => {
                const next = new Set(chosen);
                if (is) next.add(task.id);
                else next.delete(task.id);
                setChosen(next);
              }}
            />
          )}
        </VirtualRows>
      )}
      {picked.length > 0 && (
        <div className="sheet sticky bottom-16 z-10 mt-3 flex flex-wrap items-center gap-2 p-3 shadow-lg lg:bottom-4">
          <p className="mr-auto text-sm font-medium">{plural(picked.length, "task")} selected</p>
          <Button icon="retry" onClick={() => { actOnChosen("retry"); }}>Retry …</Button>
          <Button weight="alarm" icon="stop" onClick={() => { actOnChosen("cancel"); }}>Cancel …</Button>
          <Button weight="quiet" onClick={() => { setChosen(new Set()); }}>Clear</Button>
        </div>
      )}
      {bulk !== null && (
        <Suspense>
        <BulkDialog
          {...bulk}
          onClose={(isDone) => {
            setBulk(null);
            if (isDone) {
              setChosen(new Set());
              void queries.invalidateQueries({ queryKey: ["tasks"] });
            }
          }}
        />
        </Suspense>
      )}
    </>
  );
}

function StateFilter({ search, change }: { search: TaskSearch; change: (next: Partial<TaskSearch>) => void }) {
  const counts = useCounts(search);
  const states = readStates(search.state);
  const toggle = (state: TaskState) => {
    const next = states.includes(state) ? states.filter((each) => each !== state) : [...states, state];
    change({ state: writeStates(next) } as Partial<TaskSearch>);
  };
  return (
    <div role="group" aria-label="States" className="-mx-4 mb-3 flex gap-1.5 overflow-x-auto px-4 pb-1 sm:mx-0 sm:flex-wrap sm:px-0">
      {TASK_STATES.map((state) => {
        const count = counts.data?.counts[state];
        return (
          <button
            key={state}
            type="button"
            aria-pressed={states.includes(state)}
            onClick={() => { toggle(state); }}
            className="inline-flex min-h-9 items-center gap-2 rounded-full border border-line bg-sheet py-1 pr-3 pl-1.5 text-sm hover:border-strong-line aria-pressed:border-accent aria-pressed:bg-accent-ground"
          >
            <StateBadge state={state} />
            {count !== undefined && <span className="font-medium">{formatCount(count)}{counts.data?.capped?.includes(state) ? "+" : ""}</span>}
          </button>
        );
      })}
    </div>
  );
}

function Select({ label, value, options, onChange }: { label: string; value: string; options: [string, string][]; onChange: (value: string) => void }) {
  return (
    <select aria-label={label} className="field w-auto!" value={value} onChange={(event) => { onChange(event.target.value); }}>
      {options.map(([name, text]) => (
        <option key={name} value={name}>{text}</option>
      ))}
    </select>
  );
}

/** A page of a search compares the names of a number of tasks, so that there may be older matches. */
function NoTasks({ isFiltered, name, older }: { isFiltered: boolean; name: string | undefined; older: React.ReactNode }) {
  if (name !== undefined) {
    return <Empty title={older ? `None of your newest tasks has “${name}” in its name.` : `No task has “${name}” in its name.`} action={older}>Other filters hold too: clear them to search all tasks.</Empty>;
  }
  if (isFiltered) {
    return <Empty title="No tasks match.">Choose other states, or clear the filters.</Empty>;
  }
  return (
    <Empty title="You have no tasks yet." action={<LinkButton to="/submit" weight="main" icon="plus">Submit your first task</LinkButton>}>
      Submit one here, or run <code className="font-mono">potluck run hello.py</code> in a terminal.
    </Empty>
  );
}

function Head({ isAll, chooseAll }: { isAll: boolean; chooseAll: (all: boolean) => void }) {
  return (
    <div role="rowgroup" className="border-b border-line bg-sunken text-xs text-soft">
      <div role="row" className={`${COLUMNS} min-h-9`}>
        <span role="columnheader" className="flex">
          <input type="checkbox" aria-label="Select all loaded tasks" className="size-4 accent-accent" checked={isAll} onChange={(event) => { chooseAll(event.target.checked); }} />
        </span>
        <span role="columnheader">Name</span>
        <span role="columnheader" className="max-lg:sr-only">State</span>
        <span role="columnheader" className="hidden lg:block">Kind</span>
        <span role="columnheader" className="hidden lg:block">Machine</span>
        <span role="columnheader" className="hidden lg:block">Submitted</span>
        <span role="columnheader" className="hidden lg:block">Duration</span>
        <span role="columnheader" className="hidden text-right lg:block">Cost</span>
      </div>
    </div>
  );
}

function Row({ task, isChosen, choose }: { task: Task; isChosen: boolean; choose: (is: boolean) => void }) {
  const now = useNow();
  const node = task.attempts.at(-1)?.node_name;
  const why = task.waiting?.sentence ?? (task.state === "failed" ? task.detail || spell(task.reason ?? "") : "");
  const items = task.items;
  return (
    <div className={`${COLUMNS} h-full ${isChosen ? "bg-accent-ground" : "hover:bg-sunken"}`}>
      <span role="cell" className="flex">
        <input type="checkbox" aria-label={`Select ${task.name}`} className="size-4 accent-accent" checked={isChosen} onChange={(event) => { choose(event.target.checked); }} />
      </span>
      <span role="cell" className="min-w-0">
        <Link to="/tasks/$taskId" params={{ taskId: task.id }} className="block truncate font-medium hover:text-accent">
          {task.name}
        </Link>
        <span className="block truncate text-xs text-soft">
          {items ? `${formatCount(items.succeeded)} of ${plural(items.total, "item")}${items.failed > 0 ? `, ${formatCount(items.failed)} failed` : ""}` : why}
          <span className="lg:hidden">
            {(items ?? why) ? " · " : ""}
            <Ago at={task.created_at} />
          </span>
        </span>
      </span>
      <span role="cell" className="flex"><StateBadge state={task.state}>{task.phase === task.state ? undefined : spell(task.phase)}</StateBadge></span>
      <span role="cell" className="hidden text-sm text-soft lg:block">{task.kind}</span>
      <span role="cell" className="hidden truncate text-sm text-soft lg:block">{node ?? "–"}</span>
      <span role="cell" className="hidden text-sm text-soft lg:block"><Ago at={task.created_at} /></span>
      <span role="cell" className="hidden text-sm text-soft lg:block">
        {task.started_at == null ? "–" : formatDuration(secondsBetween(task.started_at, task.finished_at, now))}
      </span>
      <span role="cell" className="hidden text-right text-sm lg:block">
        <Credits micro={task.charge_micro} aligned />
      </span>
    </div>
  );
}
