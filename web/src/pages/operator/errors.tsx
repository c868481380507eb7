// Errors of the server, in groups, the latest first.

import { useQuery } from "@tanstack/react-query";
import { api, value } from "../../api/client";
import { Ago, Empty, Loading, PageTitle, ProblemNote, Section } from "../../components/basics";
import { plural } from "../../logic/numbers";

export function ErrorsPage() {
  const list = useQuery({ queryKey: ["errors"], queryFn: ({ signal }) => value(api.GET("/v1/errors", { signal })), refetchInterval: 60_000 });
  return (
    <>
      <PageTitle title="Errors" about="Exceptions and errors that the server logged, in groups. Secrets are removed from them." />
      <ProblemNote error={list.error} />
      {list.isPending && <Loading />}
      {list.data?.errors.length === 0 && <Empty title="No errors.">The server has logged none.</Empty>}
      <div className="grid grid-cols-1 gap-3">
        {list.data?.errors.map((group) => (
          <Section key={group.fingerprint} title={<span className="wrap-anywhere">{group.kind}</span>} actions={<span className="text-sm text-soft">{plural(group.occurrences, "time")}, last <Ago at={group.last_at} /></span>}>
            <p className="text-sm wrap-anywhere">{group.message}</p>
            <p className="mt-1 font-mono text-xs text-soft wrap-anywhere">{group.place} on {group.instance}</p>
            {group.trace && (
              <details className="mt-2 text-sm">
                <summary className="text-accent">Trace</summary>
                <pre className="mt-2 max-h-80 overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs" tabIndex={0} aria-label="Trace">{group.trace}</pre>
              </details>
            )}
          </Section>
        ))}
      </div>
    </>
  );
}
