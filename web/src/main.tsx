import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ME } from "./api/hooks";
import { Problem, UNREACHABLE } from "./api/problem";
import { accessToken } from "./api/session";
import { makeRouter } from "./router";
import { startTheme } from "./theme";

// Nothing is polled by default: the event stream says what changed. What the server refuses is not
// asked again; what it could not answer is.
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      refetchOnWindowFocus: true,
      retry: (failures, error) => {
        const isTransient =
          !(error instanceof Problem) || error.code === UNREACHABLE || error.status === 503 || error.status === 429;
        return isTransient && failures < 8;
      },
      retryDelay: (failures) => Math.min(10_000, 500 * 2 ** failures),
    },
  },
});

startTheme();
const router = makeRouter(queries);
const root = document.getElementById("root");
if (root === null) throw new Error("The page has no root.");
// The code and the first requests of the page do not wait until the frame is drawn.
void router.load();
void accessToken().then((token) => (token === null ? undefined : queries.prefetchQuery(ME)), () => undefined);
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
