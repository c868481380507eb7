// A signed statement of an epoch: what was earned and set aside, with the server's signature.

import { useQuery } from "@tanstack/react-query";
import { type Schemas, api, value } from "../api/client";
import { writeExact } from "../api/exact";
import { Address, Button, Copy, Credits, Facts, Loading, Moment, ProblemNote, Scroller, TABLE } from "../components/basics";
import { Dialog } from "../components/dialog";
import { saveFile } from "../components/save_file";
import { formatCredits } from "../logic/credits";

type Signed = Schemas["SignedStatement"];

/** Of the reader's own account, or for admins of all accounts. */
export function StatementDialog({ epoch, isOfPool, onClose }: { epoch: number; isOfPool: boolean; onClose: () => void }) {
  const params = { path: { epoch: String(epoch) } };
  const signed = useQuery({
    queryKey: ["statement", isOfPool, epoch],
    queryFn: ({ signal }) =>
      value(isOfPool ? api.GET("/v1/epochs/{epoch}/statement", { params, signal }) : api.GET("/v1/me/rewards/epochs/{epoch}", { params, signal })),
    staleTime: Infinity,
  });
  return (
    <Dialog isOpen onClose={onClose} title={`Statement of epoch ${String(epoch)}`} wide>
      {signed.isPending && <Loading />}
      <ProblemNote error={signed.error} />
      {signed.data && <Statement signed={signed.data} epoch={epoch} />}
    </Dialog>
  );
}

function Statement({ signed, epoch }: { signed: Signed; epoch: number }) {
  const { statement } = signed;
  const name = `potluck-statement-${String(epoch)}`;
  return (
    <div className="grid gap-4 text-sm">
      <Facts
        items={[
          ["From", <Moment key="from" at={statement.starts_at} />],
          ["Until", <Moment key="until" at={statement.ends_at} />],
          ["Signed by", <span key="by"><code className="font-mono text-xs">{signed.signer}</code>, the server</span>],
          ["SHA-256", <code key="hash" className="font-mono text-xs">{signed.sha256}</code>],
          ["Signature", <span key="signature"><code className="font-mono text-xs">{signed.signature}</code> <Copy text={signed.signature} label="Copy the signature" /></span>],
        ]}
      />
      <Scroller label="Amounts">
        <table className={TABLE}>
          <thead><tr><th scope="col">Wallet</th><th scope="col" className="num">Earned</th><th scope="col" className="num">Fee</th><th scope="col" className="num">Set aside</th><th scope="col" className="num">In all</th></tr></thead>
          <tbody>
            {statement.lines.map((line) => (
              <tr key={line.wallet}>
                <td><Address address={line.wallet} /></td>
                <td className="num"><Credits micro={line.earned_micro} aligned /></td>
                <td className="num"><Credits micro={line.fee_micro} aligned /></td>
                <td className="num"><Credits micro={line.amount_micro} aligned /></td>
                <td className="num"><Credits micro={line.cumulative_micro} aligned /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
      <p className="text-soft">
        Anyone can check the signature without the server: <code className="font-mono">potluck rewards verify {name}.json --signer {signed.signer}</code>.
      </p>
      <div className="flex flex-wrap gap-2">
        <Button weight="main" icon="download" onClick={() => { saveFile(`${name}.json`, writeExact(signed), "application/json"); }}>Download, with signature</Button>
        <Button icon="download" onClick={() => { saveFile(`${name}.csv`, csvOf(signed), "text/csv"); }}>As a table (CSV)</Button>
      </div>
    </div>
  );
}

function csvOf({ statement }: Signed): string {
  const rows = statement.lines.map((line) =>
    [line.wallet, line.earned_micro, line.fee_micro, line.amount_micro, line.cumulative_micro].map((each) => (typeof each === "bigint" ? formatCredits(each, 6, "en").replaceAll(",", "").replace("−", "-") : each)).join(","),
  );
  return ["wallet,earned,fee,set_aside,in_all", ...rows, ""].join("\n");
}
