// All tasks of the pool. Their names and content stay with their accounts.

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, value } from "../../api/client";
import { Address, Ago, Credits, Empty, Id, Loading, PageTitle, ProblemNote, StateBadge } from "../../components/basics";
import { ListHead, VirtualRows } from "../../components/virtual_rows";
import { TASK_STATES, type TaskState, readStates, spell, writeStates } from "../../logic/states";

const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 lg:grid-cols-[7rem_minmax(0,1.5fr)_8rem_6rem_7rem_minmax(0,1fr)_6rem]";

export function PoolTasksPage() {
  const search = useSearch({ from: "/operator/tasks" });
  const navigate = useNavigate({ from: "/operator/tasks" });
  const states = readStates(search.state);
  const list = useInfiniteQuery({
    queryKey: ["pool-tasks", search],
    queryFn: ({ pageParam, signal }) =>
      value(
        api.GET("/v1/pool/tasks", {
          params: {
            query: {
              limit: 100,
              ...(states.length === 0 ? {} : { state: states }),
              ...(search.account === undefined ? {} : { account: search.account }),
              ...(pageParam === null ? {} : { cursor: pageParam }),
            },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  const tasks = useMemo(() => list.data?.pages.flatMap((page) => page.tasks) ?? [], [list.data]);
  const toggle = (state: TaskState) => {
    const next = states.includes(state) ? states.filter((each) => each !== state) : [...states, state];
    void navigate({ search: { ...search, state: writeStates(next) ?? "" }, replace: true });
  };
  return (
    <>
      <PageTitle title="All tasks" about="Whose they are, where they are and what they cost. Names, content, logs and files stay with their accounts." />
      <div role="group" aria-label="States" className="mb-3 flex flex-wrap gap-1.5">
        {TASK_STATES.map((state) => (
          <button key={state} type="button" aria-pressed={states.includes(state)} onClick={() => { toggle(state); }} className="rounded-full border border-line bg-sheet p-1.5 aria-pressed:border-accent aria-pressed:bg-accent-ground"><StateBadge state={state} /></button>
        ))}
        {search.account && <Link to="/operator/tasks" className="self-center px-2 text-sm text-accent underline">of all accounts</Link>}
      </div>
      <ProblemNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading rows={8} />}
      {list.isSuccess && tasks.length === 0 && <Empty title="No tasks match." />}
      {tasks.length > 0 && (
        <VirtualRows
          head={<ListHead columns={COLUMNS} names={["Task", "Account", "State", "Kind", "Submitted", "Where, or why it ended", "Cost"]} right={["Cost"]} />}
          label="All tasks"
          items={tasks}
          keyOf={(task) => task.id}
          height={52}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          loadMore={() => void list.fetchNextPage()}
        >
          {(task) => (
            <div className={`${COLUMNS} h-full text-sm hover:bg-sunken`}>
              <span role="cell"><Id id={task.id} /></span>
              <span role="cell" className="min-w-0 truncate max-lg:hidden"><Link to="/operator/tasks" search={{ account: task.account_id }} className="hover:text-accent">{task.label || <Address address={task.address} />}</Link></span>
              <span role="cell"><StateBadge state={task.state} /></span>
              <span role="cell" className="hidden text-soft lg:block">{task.kind}</span>
              <span role="cell" className="hidden text-soft lg:block"><Ago at={task.created_at} /></span>
              <span role="cell" className="hidden truncate text-soft lg:block">{task.reason ? spell(task.reason) : task.node_ids.length > 0 ? `on ${String(task.node_ids.length)} node${task.node_ids.length === 1 ? "" : "s"}` : "–"}</span>
              <span role="cell" className="hidden text-right lg:block"><Credits micro={task.charge_micro} aligned /></span>
            </div>
          )}
        </VirtualRows>
      )}
    </>
  );
}
