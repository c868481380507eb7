// Opens a wallet from its keystore file. The key stays in this tab's memory.

import { useState } from "react";
import type { Signer } from "../wallet/signer";
import { Button, ProblemNote } from "./basics";
import { TextField } from "./field";

export function KeystoreForm({ action, onOpen }: { action: string; onOpen: (signer: Signer) => Promise<void> }) {
  const [file, setFile] = useState<File | null>(null);
  const [password, setPassword] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const open = async () => {
    if (file === null) return;
    setBusy(true);
    setError(null);
    try {
      const { openWallet } = await import("../wallet/local_key");
      await onOpen(await openWallet(await file.text(), password));
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      className="grid gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        void open();
      }}
    >
      <TextField
        label="Keystore"
        type="file"
        accept=".json,application/json"
        hint="As downloaded here, or as the command line keeps it."
        onChange={(event) => { setFile(event.target.files?.[0] ?? null); }}
      />
      <TextField
        label="Its password"
        type="password"
        autoComplete="current-password"
        value={password}
        onChange={(event) => { setPassword(event.target.value); }}
      />
      <ProblemNote error={error} />
      <Button type="submit" disabled={isBusy || file === null || password === ""}>
        {isBusy ? "Opening it …" : action}
      </Button>
    </form>
  );
}
