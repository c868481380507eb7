// Epochs of the pool, who is to be paid, and the state of the contract's roots.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, orNull, value } from "../../api/client";
import { useRefresh } from "../../api/hooks";
import { Address, Ago, Badge, Button, Credits, Empty, Facts, Loading, PageTitle, ProblemNote, Scroller, Section, TABLE } from "../../components/basics";
import { Confirm } from "../../components/dialog";
import { formatCount } from "../../logic/numbers";
import { spell } from "../../logic/states";
import { StatementDialog } from "../statement";

export function EpochsPage() {
  const list = useInfiniteQuery({
    queryKey: ["epochs"],
    queryFn: ({ pageParam, signal }) => value(api.GET("/v1/epochs", { params: { query: { limit: 50, ...(pageParam === null ? {} : { cursor: pageParam }) } }, signal })),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  const epochs = list.data?.pages.flatMap((page) => page.epochs) ?? [];
  const [statement, setStatement] = useState<number | null>(null);
  return (
    <>
      <PageTitle title="Epochs" about="What each epoch earned, what was set aside for payouts, and who is to be paid." />
      <ProblemNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading rows={5} />}
      {list.isSuccess && epochs.length === 0 && <Empty title="No epoch has begun yet.">The leader begins the first one.</Empty>}
      <div className="grid grid-cols-1 gap-4">
        <Contract />
        {epochs.length > 0 && (
          <Section title="Epochs">
            <Scroller label="Epochs">
              <table className={TABLE}>
                <thead><tr><th scope="col">Epoch</th><th scope="col">Ends</th><th scope="col">State</th><th scope="col" className="num">Accounts</th><th scope="col" className="num">Earned</th><th scope="col" className="num">Fee</th><th scope="col" className="num">Set aside</th><th scope="col">Root</th><th scope="col"><span className="sr-only">Statement</span></th></tr></thead>
                <tbody>
                  {epochs.map((epoch) => (
                    <tr key={epoch.number}>
                      <td>{epoch.number}</td>
                      <td><Ago at={epoch.ends_at} /></td>
                      <td>{epoch.closed_at ? <Badge tone="good">closed</Badge> : <Badge tone="busy">open</Badge>}</td>
                      <td className="num">{formatCount(epoch.accounts)}</td>
                      <td className="num"><Credits micro={epoch.earned_micro} /></td>
                      <td className="num"><Credits micro={epoch.fee_micro} /></td>
                      <td className="num"><Credits micro={epoch.amount_micro} /></td>
                      <td>{epoch.roots.length === 0 ? "–" : epoch.roots.map((root) => <span key={root.root} className="block"><Address address={root.root} /> {root.state}{root.is_partial && " (a part: the next root has the other accounts)"}{root.transaction_state && `, ${spell(root.transaction_state)}`}{root.waits_because && `, waits: ${root.waits_because}`}</span>)}</td>
                      <td className="text-right">{epoch.closed_at && <Button weight="quiet" className="-my-1.5" onClick={() => { setStatement(epoch.number); }}>Statement</Button>}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroller>
            {list.hasNextPage && <Button className="mt-2" onClick={() => void list.fetchNextPage()}>Older</Button>}
          </Section>
        )}
        <Claimants />
      </div>
      {statement !== null && <StatementDialog epoch={statement} isOfPool onClose={() => { setStatement(null); }} />}
    </>
  );
}

function Contract() {
  const contract = useQuery({
    queryKey: ["contract"],
    queryFn: ({ signal }) => orNull(value(api.GET("/v1/contract", { signal }))),
  });
  const refreshAll = useRefresh();
  const [isOpen, setOpen] = useState(false);
  if (contract.data == null) return <ProblemNote error={contract.error} />;
  const { data } = contract;
  return (
    <Section title="Contract" actions={data.stopped_because ? <Button weight="main" onClick={() => { setOpen(true); }}>Resume payouts</Button> : <Badge tone="good">works</Badge>}>
      {data.stopped_because && <p role="alert" className="mb-3 rounded-lg bg-alarm-ground px-4 py-3 text-sm text-alarm wrap-anywhere">{data.stopped_because}</p>}
      <Facts items={[["Address", <Address key="a" address={data.contract} />], ["Chain", String(data.chain_id)], ["Token", <Address key="t" address={data.token} />], ["Confirmations", formatCount(data.confirmations)], ["Read until block", formatCount(data.read_block)], ["Pays", data.has_payouts ? "yes" : "no, it takes deposits only"]]} />
      <Confirm isOpen={isOpen} onClose={() => { setOpen(false); }} title="Resume payouts?" action="Resume" run={async () => { await value(api.POST("/v1/contract/resume")); await refreshAll(["contract"]); }}>
        <p>{data.stopped_because}</p><p className="mt-2">Resume only after the cause is gone.</p>
      </Confirm>
    </Section>
  );
}

function Claimants() {
  const list = useQuery({ queryKey: ["claimants"], queryFn: ({ signal }) => value(api.GET("/v1/claimants", { params: { query: { limit: 100 } }, signal })) });
  if (list.isPending) return <Loading />;
  if (list.isError) return <ProblemNote error={list.error} />;
  if (list.data.claimants.length === 0) return <Section title="Who is to be paid"><p className="text-sm text-soft">No account is due a payout.</p></Section>;
  return (
    <Section title="Who is to be paid" about="`potluck admin payouts export` writes them into a file, and `mark` records what you paid.">
      <Scroller label="Claimants">
        <table className={TABLE}>
          <thead><tr><th scope="col">Account</th><th scope="col" className="num">Claimable</th><th scope="col" className="num">Paid</th><th scope="col" className="num">Since epoch</th></tr></thead>
          <tbody>{list.data.claimants.map((each) => <tr key={each.account_id}><td className="wrap-anywhere">{each.label} <Address address={each.wallet} /></td><td className="num"><Credits micro={each.claimable_micro} /></td><td className="num"><Credits micro={each.paid_micro} /></td><td className="num">{each.unpaid_since_epoch ?? "–"}</td></tr>)}</tbody>
        </table>
      </Scroller>
    </Section>
  );
}
