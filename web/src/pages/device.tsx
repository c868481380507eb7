// Approving a terminal: enter its code, review what it asks for, sign, and go back to it.
//
// The server writes the message to sign, with the code in it; this page passes it to the wallet.

import { useCallback, useEffect, useState } from "react";
import { type Schemas, api, value } from "../api/client";
import { Problem } from "../api/problem";
import { Button, Facts, Moment, PageTitle, ProblemNote, Section } from "../components/basics";
import { TextField } from "../components/field";
import { KeystoreForm } from "../components/keystore_form";
import { scopeWords } from "../logic/scopes";
import { type FoundWallet, watchWallets } from "../wallet/injected";
import { type Signer, currentSigner } from "../wallet/signer";

type Request = Schemas["TerminalView"];
type View = { name: "enter" } | { name: "ask"; request: Request } | { name: "done"; address: string } | { name: "denied" };

export function DevicePage() {
  const [view, setView] = useState<View>({ name: "enter" });
  const [code, setCode] = useState(() => window.location.hash.slice(1));
  const [error, setError] = useState<unknown>(null);
  const look = useCallback(async (typed: string) => {
    setError(null);
    const letters = typed.replace(/[^a-z]/gi, "");
    try {
      if (letters.length !== 8) throw new Problem("The code has eight letters.", "Type it as your terminal shows it.");
      const request = await value(api.GET("/v1/auth/device/{user_code}", { params: { path: { user_code: letters } } }));
      setView({ name: "ask", request });
    } catch (problem) {
      setView({ name: "enter" });
      setError(problem);
    }
  }, []);
  // Browsers do not send the fragment, so no log and no referrer contains the code.
  useEffect(() => {
    const read = () => {
      const given = window.location.hash.slice(1);
      if (given === "") return;
      setCode(given);
      void look(given);
    };
    read();
    window.addEventListener("hashchange", read);
    return () => { window.removeEventListener("hashchange", read); };
  }, [look]);
  return (
    <div className="mx-auto grid max-w-xl gap-4 pt-4">
      {view.name === "enter" && (
        <>
          <PageTitle title="Enter the code from your terminal" about={<><code className="font-mono text-sm">potluck login --browser</code> shows it. A terminal that you approve acts as you.</>} />
          <Section>
            <form className="grid gap-3" onSubmit={(event) => { event.preventDefault(); void look(code); }}>
              <TextField label="Code" placeholder="XXXX-XXXX" className="h-12 text-center font-mono text-xl tracking-widest uppercase" maxLength={12} autoCapitalize="characters" hint="The code has eight letters." value={code} onChange={(event) => { setCode(event.target.value); }} />
              <ProblemNote error={error} />
              <Button type="submit" weight="main">Continue</Button>
            </form>
          </Section>
        </>
      )}
      {view.name === "ask" && <Ask request={view.request} onDone={(address) => { setView({ name: "done", address }); }} onDenied={() => { setView({ name: "denied" }); }} />}
      {view.name === "done" && <PageTitle title="Signed. Go back to your terminal." about={<>It is signed in as <code className="font-mono text-sm wrap-anywhere">{view.address}</code>. You can close this page; <code className="font-mono">Account</code> lists your sessions and can end them.</>} />}
      {view.name === "denied" && <PageTitle title="Denied" about="The terminal cannot sign in, and the code is no longer valid. You can close this page." />}
    </div>
  );
}

function Ask({ request, onDone, onDenied }: { request: Request; onDone: (address: string) => void; onDenied: () => void }) {
  const [wallets, setWallets] = useState<FoundWallet[]>([]);
  const [step, setStep] = useState("");
  const [error, setError] = useState<unknown>(null);
  useEffect(() => watchWallets(setWallets), []);
  // A wallet that was opened in this tab, from a keystore; those of the browser announce themselves.
  const opened = currentSigner();
  const signers = [...(opened?.isLocal ? [opened] : []), ...wallets.map((wallet) => wallet.signer)];
  const attempt = async (action: () => Promise<void>) => {
    setError(null);
    try {
      await action();
    } catch (problem) {
      setError(problem);
    } finally {
      setStep("");
    }
  };
  const approve = (signer: Signer) =>
    attempt(async () => { onDone(await approveTerminal(signer, request.user_code, setStep)); });
  const deny = () =>
    attempt(async () => {
      await value(api.POST("/v1/auth/device/{user_code}/deny", { params: { path: { user_code: request.user_code } } }));
      onDenied();
    });
  return (
    <>
      <PageTitle title="A terminal wants to sign in as you" />
      <Section>
        <p className="mb-3 rounded-lg bg-sunken py-3 text-center font-mono text-2xl font-semibold tracking-widest">{request.user_code}</p>
        <p className="mb-4 text-sm">Continue only if your own terminal shows exactly this code now. If someone sent you here, deny.</p>
        <Facts
          items={[
            ["Machine", <bdi key="machine">{request.machine || "an unnamed terminal"}</bdi>],
            ["It will be able to", <ul key="scopes" className="list-disc pl-4">{request.scopes.map((scope) => <li key={scope}>{scopeWords(scope)}</li>)}</ul>],
            ...(request.node_key === null ? [] : [["Node key", <span key="key"><code className="font-mono text-xs">{request.node_key}</code> This machine also joins the pool as your provider, with this key. You sign twice.</span>] as [string, React.ReactNode]]),
            ["Valid until", <Moment key="until" at={request.expires_at} />],
          ]}
        />
        <div className="mt-5 grid gap-2">
          {signers.map((signer) => <Button key={signer.name} weight="main" disabled={step !== ""} onClick={() => void approve(signer)}>Sign with {signer.name}</Button>)}
          <Button weight="alarm" disabled={step !== ""} onClick={() => void deny()}>This was not me: deny</Button>
        </div>
        <p role="status" className="text-sm not-empty:mt-2">{step}</p>
        <ProblemNote error={error} />
      </Section>
      {signers.length === 0 && (
        <Section title="With a keystore file" about="This browser has no wallet. Open yours from its file, or open this page in a browser with a wallet.">
          <KeystoreForm action="Open it and sign" onOpen={approve} />
        </Section>
      )}
    </>
  );
}

async function approveTerminal(signer: Signer, userCode: string, onStep: (text: string) => void): Promise<string> {
  const params = { path: { user_code: userCode } };
  onStep("Choose the account for the terminal.");
  const { address, chainId } = await signer.connect();
  const draft = await value(api.POST("/v1/auth/device/{user_code}/draft", { params, body: { address, chain_id: chainId, origin: window.location.origin } }));
  onStep(`Check that the message contains ${userCode}, then sign it.`);
  const signature = await signer.signText(address, draft.message);
  const delegation = draft.delegation === null ? null : await delegate(signer, address, draft.delegation, draft.typed_data, onStep);
  onStep("One moment …");
  try {
    await value(api.POST("/v1/auth/device/{user_code}/approve", { params, body: { message: draft.message, signature, delegation } }));
  } catch (problem) {
    throw onAnotherChain(problem, chainId, draft.chain_id);
  }
  return address;
}

async function delegate(signer: Signer, address: string, wanted: NonNullable<Schemas["TerminalDraft"]["delegation"]>, typedData: unknown, onStep: (text: string) => void) {
  const until = new Date(wanted.expires_at * 1000).toLocaleDateString();
  onStep(`Second signature: it authorises the node key to work for you until ${until}.`);
  return { ...wanted, signature: await signer.signTypedData(address, typedData) };
}

// A key's signature is valid on every chain; a contract wallet is verified on the named chain.
function onAnotherChain(problem: unknown, walletChain: number, namedChain: number): unknown {
  if (!(problem instanceof Problem) || problem.code !== "not_signed_in" || walletChain === namedChain) return problem;
  return new Problem(problem.message, `If yours is a contract wallet, switch it to chain ${String(namedChain)} and try again.`);
}
