// API keys: for programs and CI. The secret is shown once.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Schemas, api, newKey, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { Ago, Button, Empty, Loading, PageTitle, ProblemNote, Scroller, Section, TABLE } from "../components/basics";
import { Confirm } from "../components/dialog";
import { Check, Choice, TextField } from "../components/field";
import { SecretDialog } from "../components/secret";

type Key = Schemas["KeyView"];
type Scope = Schemas["NewKey"]["scopes"][number];

const SCOPES: [Scope, string, boolean][] = [
  ["tasks:read", "see your tasks, logs and files", true],
  ["tasks:write", "submit, cancel and retry tasks on your credit", true],
  ["pool:read", "see the pool's machines", true],
  ["account:read", "see your ledger and all your events", false],
  ["nodes:write", "change what your machines offer", false],
  ["metrics:read", "read the pool's metrics, if you are an admin", false],
];
const LIFETIMES: [string, string][] = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "a year"]];

export function KeysPage() {
  const keys = useQuery({ queryKey: ["keys"], queryFn: ({ signal }) => value(api.GET("/v1/me/keys", { signal })) });
  const refreshAll = useRefresh();
  const [revoking, setRevoking] = useState<Key | null>(null);
  return (
    <>
      <PageTitle title="API keys" about="For programs, scripts and CI. A key is sent as a bearer token, and can do only what its scopes say." />
      <div className="grid grid-cols-1 items-start gap-4 xl:grid-cols-[minmax(0,1fr)_24rem]">
        <div>
          <ProblemNote error={keys.error} />
          {keys.isPending && <Loading />}
          {keys.data?.keys.length === 0 && <Empty title="You have no API keys.">Create one for a program that runs tasks for you.</Empty>}
          {keys.data && keys.data.keys.length > 0 && (
            <Section>
              <Scroller label="API keys">
                <table className={TABLE}>
                  <thead><tr><th scope="col">Name</th><th scope="col">Scopes</th><th scope="col">Last used</th><th scope="col">Expires</th><th scope="col"><span className="sr-only">Actions</span></th></tr></thead>
                  <tbody>
                    {keys.data.keys.map((key) => (
                      <tr key={key.id}>
                        <td className="font-medium wrap-anywhere">{key.name}</td>
                        <td className="text-soft">{key.scopes.join(", ")}</td>
                        <td><Ago at={key.used_at} otherwise="never" /></td>
                        <td><Ago at={key.expires_at} /></td>
                        <td className="num"><Button weight="alarm" onClick={() => { setRevoking(key); }}>Revoke</Button></td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Scroller>
            </Section>
          )}
        </div>
        <NewKey onMade={() => void refreshAll(["keys"])} />
      </div>
      <Confirm
        isOpen={revoking !== null}
        onClose={() => { setRevoking(null); }}
        title="Revoke this key?"
        action="Revoke it"
        isAlarming
        run={async () => {
          if (revoking) await value(api.DELETE("/v1/me/keys/{key_id}", { params: { path: { key_id: revoking.id } } }));
          await refreshAll(["keys"]);
        }}
      >
        <p>Programs that use <strong>{revoking?.name}</strong> are refused at once.</p>
      </Confirm>
    </>
  );
}

function NewKey({ onMade }: { onMade: () => void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<Scope[]>(SCOPES.filter(([, , usual]) => usual).map(([scope]) => scope));
  const [days, setDays] = useState("90");
  const [secret, setSecret] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const make = async () => {
    setError(null);
    try {
      const made = await value(
        api.POST("/v1/me/keys", {
          params: { header: { "Idempotency-Key": newKey() } },
          body: { name: name.trim(), scopes, expires_in: Number(days) * 86_400 },
        }),
      );
      setSecret(made.secret);
      setName("");
      onMade();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Section title="New key">
      <form className="grid gap-3" onSubmit={(event) => { event.preventDefault(); void make(); }}>
        <TextField label="Name" required maxLength={100} placeholder="my-program" value={name} onChange={(event) => { setName(event.target.value); }} />
        <fieldset className="grid gap-1.5">
          <legend className="mb-1 text-sm font-medium">It may</legend>
          {SCOPES.map(([scope, text]) => (
            <Check key={scope} label={text} checked={scopes.includes(scope)} onChange={(event) => { setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((each) => each !== scope)); }} />
          ))}
        </fieldset>
        <Choice label="Valid for" value={days} options={LIFETIMES} onChange={(event) => { setDays(event.target.value); }} />
        <ProblemNote error={error} />
        <Button type="submit" weight="main" disabled={name.trim() === "" || scopes.length === 0}>Create the key</Button>
      </form>
      <SecretDialog title="Your new key" about="Copy it now: it is shown only here, and the server keeps a hash of it." secret={secret} onClose={() => { setSecret(null); }} />
    </Section>
  );
}
