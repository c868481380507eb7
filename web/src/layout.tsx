// The frame of every page: navigation, the state of the live stream, the theme, and the keys.

import { useQueryClient } from "@tanstack/react-query";
import { Link, type LinkProps, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { Suspense, lazy, useEffect, useRef, useState } from "react";
import { useMe, useSession } from "./api/hooks";
import { pauseLive, startLive, stopLive, useLive } from "./api/live";
import { asProblem } from "./api/problem";
import { refresh, signOut } from "./api/session";
import { Address, Button, Credits, IconButton, ProblemNote } from "./components/basics";
import { Icon, type IconName } from "./components/icons";
import { useKeys } from "./keys";
import { formatCount } from "./logic/numbers";
import logo from "./potluck.svg";
import { chooseTheme, useTheme } from "./theme";
import { keepSigner } from "./wallet/signer";

// Dialogs are not needed to show a page.
const KeysDialog = lazy(() => import("./keys_help").then((module) => ({ default: module.KeysDialog })));

interface Place {
  to: LinkProps["to"];
  text: string;
  icon: IconName;
  isExact?: boolean;
}

const WORK: Place[] = [
  { to: "/tasks", text: "Tasks", icon: "tasks" },
  { to: "/submit", text: "Submit", icon: "plus" },
  { to: "/market", text: "Market", icon: "market" },
  { to: "/volumes", text: "Volumes", icon: "disk" },
];
const MACHINES: Place[] = [
  { to: "/machines", text: "My machines", icon: "machine" },
  { to: "/rewards", text: "Rewards", icon: "coins" },
  { to: "/join", text: "Add a machine", icon: "download" },
];
const ACCOUNT: Place[] = [
  { to: "/account", text: "Account", icon: "user" },
  { to: "/keys", text: "API keys", icon: "key" },
  { to: "/webhooks", text: "Webhooks", icon: "hook" },
];
const OPERATOR: Place[] = [
  { to: "/operator", text: "Health", icon: "pulse", isExact: true },
  { to: "/operator/tasks", text: "All tasks", icon: "list" },
  { to: "/operator/nodes", text: "Nodes", icon: "machine" },
  { to: "/operator/accounts", text: "Accounts", icon: "user" },
  { to: "/operator/epochs", text: "Epochs", icon: "coins" },
  { to: "/operator/alerts", text: "Alerts", icon: "bell" },
  { to: "/operator/errors", text: "Errors", icon: "file" },
  { to: "/operator/audit", text: "Audit", icon: "shield" },
];
const OPEN_PAGES = ["/sign-in", "/join", "/device"];

export function Layout() {
  const session = useSession();
  const path = useRouterState({ select: (state) => state.location.pathname });
  const address = useRouterState({ select: (state) => state.location.href });
  const navigate = useNavigate();
  const main = useRef<HTMLElement>(null);
  const keys = useKeys();
  useLiveStream();

  const isOpenPage = OPEN_PAGES.includes(path);
  useEffect(() => {
    if (session.phase === "out" && !isOpenPage) {
      void navigate({ to: "/sign-in", search: address === "/" ? {} : { to: address }, replace: true });
    }
  }, [session.phase, isOpenPage, address, navigate]);

  // A new page begins at its top, and a screen reader hears it. The browser does so for the first,
  // and scrolling would calculate the layout of the empty page.
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current === path) return;
    shown.current = path;
    window.scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [path]);

  if (session.phase === "unknown") return <Waiting />;
  return (
    <div className="mx-auto flex min-h-screen max-w-[100rem]">
      <a
        href="#main"
        className="sr-only z-50 rounded-lg bg-accent px-4 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to the content
      </a>
      {session.phase === "in" && <SideBar path={path} onKeys={keys.open} />}
      <div className="flex min-w-0 flex-1 flex-col">
        {session.phase === "out" && <OpenBar />}
        <main
          id="main"
          ref={main}
          tabIndex={-1}
          className={`w-full min-w-0 flex-1 overflow-x-clip px-4 pt-4 pb-24 sm:px-6 lg:pt-7 lg:pb-10 ${session.phase === "in" ? "lg:px-9" : "mx-auto max-w-3xl"}`}
        >
          {(session.phase === "in" || isOpenPage) && <Outlet />}
        </main>
      </div>
      {keys.isOpen && <Suspense><KeysDialog {...keys} /></Suspense>}
    </div>
  );
}

/** While it is unknown whether the user is signed in: an unreachable server is asked again. */
function Waiting() {
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const ask = () => {
      refresh().catch((problem: unknown) => {
        setError(asProblem(problem));
        timer = setTimeout(ask, 2000);
      });
    };
    ask();
    return () => { clearTimeout(timer); };
  }, []);
  return (
    <main className="grid min-h-screen place-content-center gap-3 p-6 text-center">
      <h1 className="sr-only">Potluck</h1>
      <img src={logo} alt="" className="mx-auto size-12 animate-pulse" />
      <ProblemNote error={error} />
    </main>
  );
}

function useLiveStream() {
  const session = useSession();
  const queries = useQueryClient();
  const account = session.phase === "in" ? session.accountId : null;
  useEffect(() => {
    if (account === null) return;
    startLive(queries);
    return () => {
      stopLive();
      queries.clear();
    };
  }, [account, queries]);
}

function OpenBar() {
  return (
    <header className="mx-auto flex w-full max-w-3xl items-center justify-between px-4 pt-4 sm:px-6">
      <Brand />
      <div className="flex items-center gap-1">
        <Link to="/join" className="rounded-lg px-3 py-2 text-sm text-soft hover:bg-sunken hover:text-ink">
          Join
        </Link>
        <a href="/docs" className="rounded-lg px-3 py-2 text-sm text-soft hover:bg-sunken hover:text-ink">
          API
        </a>
        <ThemeButton />
      </div>
    </header>
  );
}

const Brand = () => (
  <Link to="/" className="flex items-center gap-2 rounded-lg font-semibold tracking-tight">
    <img src={logo} alt="" className="size-7" />
    Potluck
  </Link>
);

function SideBar({ path, onKeys }: { path: string; onKeys: () => void }) {
  // The path where the menu was opened: on any other page it is closed.
  const [openedAt, setOpenedAt] = useState<string | null>(null);
  const isOpen = openedAt === path;
  return (
    <>
      <header className="fixed inset-x-0 bottom-0 z-30 flex items-center justify-around border-t border-line bg-sheet px-1 pb-[env(safe-area-inset-bottom)] lg:hidden">
        {([...WORK.slice(0, 3), MACHINES[0]] as Place[]).map((place) => (
          <Link
            key={place.to}
            to={place.to as string}
            className="flex min-h-14 flex-1 flex-col items-center justify-center gap-0.5 text-xs text-soft data-[status=active]:font-medium data-[status=active]:text-accent"
          >
            <Icon name={place.icon} className="size-5" />
            {place.text === "My machines" ? "Machines" : place.text}
          </Link>
        ))}
        <button
          type="button"
          aria-expanded={isOpen}
          aria-controls="navigation"
          onClick={() => { setOpenedAt(isOpen ? null : path); }}
          className="flex min-h-14 flex-1 flex-col items-center justify-center gap-0.5 text-xs text-soft"
        >
          <Icon name={isOpen ? "close" : "menu"} className="size-5" />
          More
        </button>
      </header>
      <div
        id="navigation"
        className={`${isOpen ? "fixed inset-0 z-20 flex" : "hidden"} w-full flex-col overflow-y-auto bg-ground p-4 pb-20 lg:sticky lg:top-0 lg:flex lg:h-screen lg:w-60 lg:shrink-0 lg:border-r lg:border-line lg:bg-transparent lg:pb-4`}
      >
        <div className="mb-4 px-2">
          <Brand />
        </div>
        <nav aria-label="Pages" className="grid grid-cols-1 gap-3">
          <Group places={WORK} />
          <Group title="Provide" places={MACHINES} />
          <Group title="Account" places={ACCOUNT} />
          <OperatorGroup />
        </nav>
        <div className="mt-auto grid gap-2 pt-6">
          <LiveState />
          <Who />
          <div className="flex items-center justify-between">
            <a href="/docs" className="flex items-center gap-2 rounded-lg px-2 py-1.5 text-sm text-soft hover:text-ink">
              <Icon name="book" /> API
            </a>
            <div className="flex">
              <Button weight="quiet" aria-label="Keyboard shortcuts" onClick={onKeys}>
                ?
              </Button>
              <ThemeButton />
            </div>
          </div>
        </div>
      </div>
    </>
  );
}

function OperatorGroup() {
  const me = useMe();
  return me.data?.roles.includes("admin") ? <Group title="Operate" places={OPERATOR} /> : null;
}

function Group({ title, places }: { title?: string; places: Place[] }) {
  return (
    <div>
      {title && <p className="mb-0.5 px-2 text-xs font-medium text-soft">{title}</p>}
      <ul className="grid">
        {places.map((place) => (
          <li key={place.to}>
            <Link
              to={place.to as string}
              activeOptions={{ exact: place.isExact ?? false, includeSearch: false }}
              className="flex items-center gap-2.5 rounded-lg px-2 py-1.5 text-soft hover:bg-sunken hover:text-ink lg:py-1 lg:text-sm data-[status=active]:bg-accent-ground data-[status=active]:font-medium data-[status=active]:text-accent"
            >
              <Icon name={place.icon} />
              {place.text}
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function LiveState() {
  const live = useLive();
  if (live.status === "off") return null;
  const isAway = live.status === "waiting" || live.status === "connecting";
  const text = live.isPaused
    ? live.missed > 0
      ? `Paused, ${formatCount(live.missed)} new`
      : "Paused"
    : isAway
      ? "Connecting …"
      : "Live";
  const dot = live.isPaused || isAway ? "bg-wait" : "bg-good";
  return (
    <div className="flex items-center justify-between rounded-lg border border-line pl-3" data-live={live.status}>
      <p className="flex items-center gap-2 text-sm" role="status">
        <span aria-hidden className={`size-2 rounded-full ${dot}`} />
        {text}
      </p>
      <IconButton
        icon={live.isPaused ? "play" : "pause"}
        label={live.isPaused ? "Resume live updates" : "Pause live updates"}
        onClick={() => { pauseLive(!live.isPaused); }}
      />
    </div>
  );
}

function Who() {
  const me = useMe();
  const session = useSession();
  if (session.phase !== "in") return null;
  return (
    <div className="flex items-center justify-between gap-2 rounded-lg border border-line pl-3">
      <Link to="/account" className="min-w-0 py-1.5 text-sm">
        <Address address={session.address} />
        {me.data && (
          <span className="block text-xs text-soft">
            <Credits micro={me.data.available_micro} /> credits
          </span>
        )}
      </Link>
      <IconButton
        icon="out"
        label="Sign out"
        onClick={() => {
          keepSigner(null);
          void signOut().catch(() => undefined);
        }}
      />
    </div>
  );
}

function ThemeButton() {
  const theme = useTheme();
  const other = theme === "dark" ? "light" : "dark";
  return (
    <IconButton
      icon={theme === "dark" ? "sun" : "moon"}
      label={`Use the ${other} theme`}
      onClick={() => { chooseTheme(other); }}
    />
  );
}
