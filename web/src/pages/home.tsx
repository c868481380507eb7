// The start page: what is going on, and the next step for a new user.

import { Link } from "@tanstack/react-router";
import { useMe, usePool } from "../api/hooks";
import { useMyNodes } from "../api/nodes";
import { useTasks } from "../api/tasks";
import { Ago, Credits, LinkButton, Loading, PageTitle, ProblemNote, Section, Stat, StateBadge, Stats } from "../components/basics";
import { formatCount, plural } from "../logic/numbers";

export function HomePage() {
  const me = useMe();
  const pool = usePool();
  const tasks = useTasks({});
  const nodes = useMyNodes();
  const recent = tasks.data?.pages[0]?.tasks.slice(0, 6) ?? [];
  const gpus = pool.data?.gpus;
  return (
    <>
      <PageTitle title="Everyone brings a GPU" actions={<LinkButton to="/submit" weight="main" icon="plus">Submit a task</LinkButton>} />
      <ProblemNote error={me.error ?? pool.error} />
      <Stats>
        <Stat label="Available credit" note={me.data && me.data.held_micro > 0n ? <><Credits micro={me.data.held_micro} /> reserved for running tasks</> : undefined}>
          {me.data ? <Credits micro={me.data.available_micro} /> : "…"}
        </Stat>
        <Stat label="Free GPUs in the pool" note={gpus && `${formatCount(gpus.busy)} busy, ${formatCount(gpus.away)} away`}>
          {gpus ? formatCount(gpus.free) : "…"}
        </Stat>
        <Stat label="Free CPUs" note={pool.data && plural(pool.data.nodes, "machine") + " online"}>
          {pool.data ? formatCount(pool.data.cpus.free) : "…"}
        </Stat>
        <Stat label="Waiting in the pool" note={pool.data && `${formatCount(pool.data.running_attempts)} running`}>
          {pool.data ? formatCount(pool.data.waiting_tasks) : "…"}
        </Stat>
      </Stats>
      {tasks.isSuccess && recent.length === 0 && nodes.data?.length === 0 && <FirstSteps />}
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <Section title="Recent tasks" actions={<LinkButton to="/tasks" weight="quiet" className="-mr-3">All tasks</LinkButton>}>
          {tasks.isPending && <Loading />}
          {tasks.isSuccess && recent.length === 0 && (
            <p className="text-soft">Nothing yet. <Link to="/submit" search={{ what: "template" }} className="text-accent underline">Submit a task</Link>: a template runs with two clicks.</p>
          )}
          <ul className="divide-y divide-line">
            {recent.map((task) => (
              <li key={task.id} className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-3 py-2 sm:grid-cols-[minmax(0,1fr)_6.5rem_auto]">
                <Link to="/tasks/$taskId" params={{ taskId: task.id }} className="min-w-0 truncate font-medium hover:text-accent">{task.name}</Link>
                <span className="w-24 max-sm:text-right"><StateBadge state={task.state} /></span>
                <span className="w-24 text-right text-sm text-soft max-sm:hidden"><Ago at={task.created_at} /></span>
              </li>
            ))}
          </ul>
        </Section>
        <Section title="My machines" actions={<LinkButton to="/machines" weight="quiet" className="-mr-3">All machines</LinkButton>}>
          {nodes.isPending && <Loading />}
          {nodes.isSuccess && nodes.data.length === 0 && (
            <p className="text-soft">You offer no machine. <Link to="/join" className="text-accent underline">One command</Link> offers a GPU to this pool, and Ctrl-C takes it back.</p>
          )}
          <ul className="divide-y divide-line">
            {nodes.data?.slice(0, 6).map((node) => (
              <li key={node.id} className="flex items-center justify-between gap-3 py-2">
                <Link to="/machines/$nodeId" params={{ nodeId: node.id }} className="min-w-0 truncate font-medium hover:text-accent">{node.name}</Link>
                <span className="flex shrink-0 items-center gap-3 text-sm text-soft">{plural(node.devices.length, "device")} <StateBadge state={node.state} /></span>
              </li>
            ))}
          </ul>
        </Section>
      </div>
    </>
  );
}

const STEPS = [
  { to: "/submit", search: { what: "template" }, title: "Run something", text: "Choose a template, press one button, and watch its picture arrive." },
  { to: "/join", search: {}, title: "Offer a GPU", text: "Two commands to copy. The machine stays yours: you take it back with one button." },
  { to: "/market", search: {}, title: "Look around", text: "Which devices are there, what they cost, and how many are free." },
] as const;

const FirstSteps = () => (
  <ul className="mb-5 grid grid-cols-1 gap-3 sm:grid-cols-3" aria-label="First steps">
    {STEPS.map((step, index) => (
      <li key={step.to}>
        <Link to={step.to as string} search={step.search} className="sheet block h-full p-4 hover:border-accent sm:p-5">
          <span aria-hidden className="mb-2 grid size-7 place-items-center rounded-full bg-accent-ground text-sm font-semibold text-accent">{index + 1}</span>
          <span className="block font-semibold">{step.title}</span>
          <span className="mt-1 block text-sm text-soft">{step.text}</span>
        </Link>
      </li>
    ))}
  </ul>
);
