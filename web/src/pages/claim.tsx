// Claiming rewards from the contract, with a wallet of this browser or one from a keystore file.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, orNull, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { Address, Button, Credits, Facts, ProblemNote, Section } from "../components/basics";
import { KeystoreForm } from "../components/keystore_form";
import { type FoundWallet, watchWallets } from "../wallet/injected";
import { type Signer, currentSigner } from "../wallet/signer";

export function ClaimSection({ claimableMicro }: { claimableMicro: bigint }) {
  const contract = useQuery({ queryKey: ["contract"], queryFn: ({ signal }) => orNull(value(api.GET("/v1/contract", { signal }))) });
  const proof = useQuery({
    queryKey: ["rewards", "claim"],
    queryFn: ({ signal }) => orNull(value(api.GET("/v1/me/rewards/claim", { signal }))),
    enabled: contract.data?.has_payouts === true,
  });
  const refreshAll = useRefresh();
  const [wallets, setWallets] = useState<FoundWallet[]>([]);
  const [sent, setSent] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => watchWallets(setWallets), []);
  if (contract.data === undefined) return <ProblemNote error={contract.error} />;
  if (contract.data === null || !contract.data.has_payouts) {
    return claimableMicro > 0n ? (
      <Section title="Claimable">
        <p className="text-sm"><Credits micro={claimableMicro} /> credits are set aside for you. This pool has no contract that pays: its operator pays by other means, and records it here.</p>
      </Section>
    ) : null;
  }
  const send = async (signer: Signer) => {
    if (proof.data == null) return;
    setBusy(true);
    setError(null);
    try {
      const { claim } = await import("../wallet/claim");
      setSent(await claim(signer, proof.data));
      await refreshAll(["rewards"]);
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  // A wallet that was opened in this tab, from a keystore; those of the browser announce themselves.
  const opened = currentSigner();
  const signers = [...(opened?.isLocal ? [opened] : []), ...wallets.map((wallet) => wallet.signer)];
  const claimable = proof.data?.claimable_micro ?? 0n;
  return (
    <Section title="Claim with your wallet">
      {contract.data.stopped_because && <p className="mb-3 rounded-lg bg-wait-ground px-4 py-3 text-sm text-wait">Payouts are stopped until an admin has looked: {contract.data.stopped_because}</p>}
      <Facts
        items={[
          ["Claimable now", <span key="now" className="font-semibold"><Credits micro={claimable} /> credits</span>],
          ["Contract", <span key="contract"><Address address={contract.data.contract} /> on chain {contract.data.chain_id}</span>],
          ["Token", <Address key="token" address={contract.data.token} />],
        ]}
      />
      <ProblemNote error={error ?? proof.error} />
      {claimable === 0n ? (
        <p className="mt-3 text-sm text-soft">Nothing to claim now. Rewards that you let be paid out are claimable when their epoch is closed and its root was accepted.</p>
      ) : (
        <div className="mt-4 grid gap-4">
          {signers.length > 0 && (
            <div className="flex flex-wrap gap-2">
              {signers.map((signer, index) => (
                <Button key={index} weight="main" disabled={isBusy || sent !== null} onClick={() => void send(signer)}>{isBusy ? (signer.isLocal ? "Sending it …" : "Check it in your wallet …") : `Claim with ${signer.name}`}</Button>
              ))}
            </div>
          )}
          {sent === null && (opened?.isLocal !== true) && (
            <details open={signers.length === 0}>
              <summary className="text-sm text-soft">With a keystore file</summary>
              <div className="mt-3 max-w-md"><KeystoreForm action="Open it and claim" onOpen={send} /></div>
            </details>
          )}
          <p className="text-sm text-soft">The wallet pays the fee of the transaction in the coin of the chain. <code className="font-mono">potluck claim</code> does the same in a terminal.</p>
        </div>
      )}
      {sent && <p role="status" className="mt-3 text-sm wrap-anywhere">Sent as <code className="font-mono">{sent}</code>. It counts as paid when it is deep enough in the chain.</p>}
    </Section>
  );
}
