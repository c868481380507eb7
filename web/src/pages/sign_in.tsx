// Signing in: with a wallet of the browser, with a keystore file, or with a wallet made here.

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useSession } from "../api/hooks";
import { Button, PageTitle, ProblemNote, Section } from "../components/basics";
import { Check, TextField } from "../components/field";
import { KeystoreForm } from "../components/keystore_form";
import { saveFile } from "../components/save_file";
import { type FoundWallet, watchWallets } from "../wallet/injected";
import type { LocalWallet } from "../wallet/local_key";
import type { Signer } from "../wallet/signer";

const SHORTEST_PASSWORD = 8;

export function SignInPage() {
  const { to, invite: given = "" } = useSearch({ from: "/sign-in" });
  const session = useSession();
  const navigate = useNavigate();
  const [wallets, setWallets] = useState<FoundWallet[]>([]);
  const [invite, setInvite] = useState(given);
  const [step, setStep] = useState("");
  const [error, setError] = useState<unknown>(null);

  useEffect(() => watchWallets(setWallets), []);
  useEffect(() => {
    if (session.phase !== "in") return;
    // Only a path of this page: an address elsewhere is not followed.
    const target = to?.startsWith("/") && !to.startsWith("//") ? to : "/";
    void navigate({ href: target, replace: true });
  }, [session.phase, to, navigate]);

  const enter = async (signer: Signer) => {
    setError(null);
    try {
      const { signInWith } = await import("../wallet/sign_in");
      await signInWith(signer, invite.trim(), setStep);
    } catch (problem) {
      setError(problem);
    } finally {
      setStep("");
    }
  };

  return (
    <div className="mx-auto grid max-w-xl gap-4 pt-4">
      <PageTitle
        title="Sign in"
        about="Your account is a wallet: there is no name, e-mail address or password to register. Signing in costs nothing and sends no transaction."
      />
      {session.phase === "out" && session.problem && <ProblemNote error={session.problem} />}
      <Section title="With a wallet of this browser">
        {wallets.length === 0 ? (
          <p className="text-sm text-soft">
            No wallet was found. Install a wallet extension, or use one of the ways below.
          </p>
        ) : (
          <div className="grid gap-2">
            {wallets.map(({ id, signer }) => (
              <Button key={id} weight="main" disabled={step !== ""} onClick={() => void enter(signer)}>
                Sign in with {signer.name}
              </Button>
            ))}
          </div>
        )}
        <p role="status" className="text-sm not-empty:mt-2">
          {step}
        </p>
        <ProblemNote error={error} />
      </Section>
      <NewWallet enter={enter} />
      <Section title="With a keystore file">
        <KeystoreForm action="Open it and sign in" onOpen={enter} />
      </Section>
      <Section>
        <TextField
          label="Invite"
          hint="Only if this pool asks new accounts for one."
          value={invite}
          onChange={(event) => { setInvite(event.target.value); }}
        />
      </Section>
      <p className="px-1 text-sm text-soft">
        Does a terminal show a code? <Link className="text-accent underline" to="/device">Approve it here</Link>. New here?{" "}
        <Link className="text-accent underline" to="/join">
          How to join this pool
        </Link>
        .
      </p>
    </div>
  );
}

function NewWallet({ enter }: { enter: (signer: Signer) => Promise<void> }) {
  const [password, setPassword] = useState("");
  const [wallet, setWallet] = useState<LocalWallet | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [isSaved, setSaved] = useState(false);
  const make = async () => {
    setBusy(true);
    const { makeWallet } = await import("../wallet/local_key");
    setWallet(await makeWallet(password));
    setPassword("");
    setBusy(false);
  };
  return (
    <Section title="With a new wallet">
      {wallet === null ? (
        <form
          className="grid gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            void make();
          }}
        >
          <TextField
            label="Password for the new wallet"
            type="password"
            autoComplete="new-password"
            hint={`${String(SHORTEST_PASSWORD)} characters or more. It encrypts the file that you keep, and cannot be reset.`}
            value={password}
            onChange={(event) => { setPassword(event.target.value); }}
          />
          <Button type="submit" disabled={isBusy || password.length < SHORTEST_PASSWORD}>
            {isBusy ? "Making and encrypting it …" : "Make a wallet in this browser"}
          </Button>
        </form>
      ) : (
        <div className="grid gap-3 text-sm">
          <p>
            Your new wallet is <code className="font-mono wrap-anywhere">{wallet.address}</code>. Download its
            keystore: it is the only copy, and this browser keeps none.
          </p>
          <Button
            icon="download"
            onClick={() => {
              saveFile(wallet.file.name, wallet.file.text, "application/json");
              setSaved(true);
            }}
          >
            Download the keystore
          </Button>
          <Check
            label="I have the file and the password"
            hint="Without both of them the account is lost."
            disabled={!isSaved}
            onChange={(event) => { if (event.target.checked) void enter(wallet.signer); }}
          />
        </div>
      )}
    </Section>
  );
}
