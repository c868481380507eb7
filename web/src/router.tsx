// Every page and its address. Filters are in the address too, so that a view can be sent to others.

import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
} from "@tanstack/react-router";
import { prefetchCounts } from "./api/counts";
import { accessToken } from "./api/session";
import { type TaskSearch, prefetchTasks } from "./api/tasks";
import { Layout } from "./layout";
import { NotFoundPage } from "./pages/not_found";
import { PageError } from "./pages/page_error";

const LONGEST = 500; // as the path of a file

/** Of the search parameters, the texts with these names; empty ones are left out. */
function texts<Name extends string>(...names: Name[]) {
  return (search: Record<string, unknown>): Partial<Record<Name, string>> => {
    const found: Partial<Record<Name, string>> = {};
    for (const name of names) {
      const given = search[name];
      const text = typeof given === "number" || typeof given === "boolean" ? String(given) : given;
      if (typeof text === "string" && text !== "") found[name] = text.slice(0, LONGEST);
    }
    return found;
  };
}

function wholeNumber<Name extends string>(name: Name, search: Record<string, unknown>): Partial<Record<Name, number>> {
  const given = search[name];
  return typeof given === "number" && Number.isInteger(given) && given >= 0 ? ({ [name]: given } as Record<Name, number>) : {};
}

/** Requests of a page begin with its code, and not when that has been drawn for the first time. */
const whenSignedIn = (ask: () => Promise<unknown>) => accessToken().then((token) => token !== null && ask(), () => undefined);

const rootRoute = createRootRouteWithContext<{ queries: QueryClient }>()({
  component: Layout,
  notFoundComponent: NotFoundPage,
  errorComponent: PageError,
});

const at = <Path extends string>(path: Path) => ({ getParentRoute: () => rootRoute, path }) as const;

const routes = [
  createRoute({ ...at("/"), component: lazyRouteComponent(() => import("./pages/home"), "HomePage") }),
  createRoute({
    ...at("/sign-in"),
    validateSearch: texts("to", "invite"),
    component: lazyRouteComponent(() => import("./pages/sign_in"), "SignInPage"),
  }),
  createRoute({
    ...at("/tasks"),
    validateSearch: texts("state", "name", "kind", "since"),
    loaderDeps: ({ search }: { search: TaskSearch }) => search,
    loader: ({ context, deps }) => {
      void whenSignedIn(() => Promise.all([prefetchTasks(context.queries, deps), prefetchCounts(context.queries, deps)]));
    },
    component: lazyRouteComponent(() => import("./pages/tasks"), "TasksPage"),
  }),
  createRoute({
    ...at("/tasks/$taskId"),
    validateSearch: (search: Record<string, unknown>) => ({ ...texts("tab", "file")(search), ...wholeNumber("item", search) }),
    component: lazyRouteComponent(() => import("./pages/task"), "TaskPage"),
  }),
  createRoute({
    ...at("/submit"),
    validateSearch: texts("what", "template", "model", "from", "volume"),
    component: lazyRouteComponent(() => import("./pages/submit"), "SubmitPage"),
  }),
  createRoute({ ...at("/webhooks"), component: lazyRouteComponent(() => import("./pages/webhooks"), "WebhooksPage") }),
  createRoute({ ...at("/volumes"), component: lazyRouteComponent(() => import("./pages/volumes"), "VolumesPage") }),
  createRoute({ ...at("/keys"), component: lazyRouteComponent(() => import("./pages/keys"), "KeysPage") }),
  createRoute({ ...at("/account"), component: lazyRouteComponent(() => import("./pages/account"), "AccountPage") }),
  createRoute({ ...at("/machines"), component: lazyRouteComponent(() => import("./pages/machines"), "MachinesPage") }),
  createRoute({
    ...at("/machines/$nodeId"),
    component: lazyRouteComponent(() => import("./pages/machine"), "MachinePage"),
  }),
  createRoute({ ...at("/device"), component: lazyRouteComponent(() => import("./pages/device"), "DevicePage") }),
  createRoute({ ...at("/join"), component: lazyRouteComponent(() => import("./pages/join"), "JoinPage") }),
  createRoute({ ...at("/rewards"), component: lazyRouteComponent(() => import("./pages/rewards"), "RewardsPage") }),
  createRoute({
    ...at("/market"),
    validateSearch: texts("kind", "model", "vendor", "memory", "price", "free", "label", "reliability"),
    component: lazyRouteComponent(() => import("./pages/market"), "MarketPage"),
  }),
  createRoute({ ...at("/operator"), component: lazyRouteComponent(() => import("./pages/operator/health"), "HealthPage") }),
  createRoute({
    ...at("/operator/tasks"),
    validateSearch: texts("state", "account", "kind"),
    component: lazyRouteComponent(() => import("./pages/operator/pool_tasks"), "PoolTasksPage"),
  }),
  createRoute({
    ...at("/operator/nodes"),
    validateSearch: texts("find", "state"),
    component: lazyRouteComponent(() => import("./pages/operator/nodes"), "NodesPage"),
  }),
  createRoute({
    ...at("/operator/accounts"),
    validateSearch: texts("find"),
    component: lazyRouteComponent(() => import("./pages/operator/accounts"), "AccountsPage"),
  }),
  createRoute({
    ...at("/operator/alerts"),
    component: lazyRouteComponent(() => import("./pages/operator/alerts"), "AlertsPage"),
  }),
  createRoute({
    ...at("/operator/errors"),
    component: lazyRouteComponent(() => import("./pages/operator/errors"), "ErrorsPage"),
  }),
  createRoute({
    ...at("/operator/epochs"),
    component: lazyRouteComponent(() => import("./pages/operator/epochs"), "EpochsPage"),
  }),
  createRoute({
    ...at("/operator/audit"),
    component: lazyRouteComponent(() => import("./pages/operator/audit"), "AuditPage"),
  }),
] as const;

export function makeRouter(queries: QueryClient) {
  return createRouter({
    routeTree: rootRoute.addChildren(routes),
    context: { queries },
    defaultPreload: "intent",
    scrollRestoration: false,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
