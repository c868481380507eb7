// Accounts and invites: labels, roles, credit, quotas, suspension.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { type Schemas, api, newKey, value } from "../../api/client";
import { useRefresh } from "../../api/hooks";
import { Address, Ago, Badge, Button, Credits, Empty, Loading, PageTitle, ProblemNote, Section } from "../../components/basics";
import { Confirm, Dialog } from "../../components/dialog";
import { Check, FilterField, TextField } from "../../components/field";
import { SecretDialog } from "../../components/secret";
import { ListHead, VirtualRows } from "../../components/virtual_rows";
import { formatCredits, parseCredits } from "../../logic/credits";
import { QUOTAS, type QuotaName } from "../../logic/ledger_words";
import { plural, rangeSentence, readNumber } from "../../logic/numbers";
import { readSize, writeSize } from "../../logic/option_values";

type Quota = (typeof QUOTAS)[number];
type Account = Schemas["AccountView"];
type Role = Account["roles"][number];
const USES = [1, 1_000_000] as const;
const NO_AMOUNT = "Write it like 0.5 or 1000.";
const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 lg:grid-cols-[minmax(0,1fr)_17rem_8rem_8rem_7rem]";

export function AccountsPage() {
  const search = useSearch({ from: "/operator/accounts" });
  const navigate = useNavigate({ from: "/operator/accounts" });
  const [chosen, setChosen] = useState<string | null>(null);
  const list = useInfiniteQuery({
    queryKey: ["accounts"],
    queryFn: ({ pageParam, signal }) => value(api.GET("/v1/accounts", { params: { query: { limit: 500, ...(pageParam === null ? {} : { cursor: pageParam }) } }, signal })),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  useEffect(() => {
    if (search.find !== undefined && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [search.find, hasNextPage, isFetchingNextPage, fetchNextPage]);
  const all = useMemo(() => list.data?.pages.flatMap((page) => page.accounts) ?? [], [list.data]);
  const wanted = search.find?.toLowerCase();
  const accounts = wanted === undefined ? all : all.filter((account) => [account.address, account.label, account.id, ...account.roles].some((text) => text.toLowerCase().includes(wanted)));
  const account = all.find((each) => each.id === chosen);
  return (
    <>
      <PageTitle title="Accounts" />
      <FilterField
        data-search
        type="search"
        aria-label="Search accounts"
        placeholder="Address, label or role"
        className="field mb-3 max-w-80"
        value={search.find ?? ""}
        onFilter={(find) => { void navigate({ search: { find }, replace: true }); }}
      />
      <ProblemNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading rows={8} />}
      {list.isSuccess && accounts.length === 0 && <Empty title="No accounts match." />}
      {accounts.length > 0 && (
        <VirtualRows label="Accounts" head={<ListHead columns={COLUMNS} names={["Account", "Roles", "Credits", "Joined", "Action"]} right={["Credits", "Action"]} />} items={accounts} keyOf={(each) => each.id} height={56} hasMore={hasNextPage} isLoadingMore={isFetchingNextPage} loadMore={() => void fetchNextPage()}>
          {(each) => (
            <div className={`${COLUMNS} h-full text-sm hover:bg-sunken`}>
              <span role="cell" className="min-w-0">
                <button type="button" className="block max-w-full truncate font-medium hover:text-accent" onClick={() => { setChosen(each.id); }}>{each.label || <Address address={each.address} />}</button>
                {each.label && <Address address={each.address} />}
              </span>
              <span role="cell" className="flex flex-wrap gap-1">{each.suspended_at ? <Badge tone="alarm">suspended</Badge> : each.roles.map((role) => <span key={role} className={role === "admin" ? "" : "max-lg:hidden"}><Badge tone={role === "admin" ? "busy" : "quiet"}>{role}</Badge></span>)}</span>
              <span role="cell" className="hidden text-right lg:block"><Credits micro={each.available_micro} /></span>
              <span role="cell" className="hidden text-soft lg:block"><Ago at={each.created_at} /></span>
              <span role="cell" className="hidden text-right lg:block"><Button onClick={() => { setChosen(each.id); }}>Manage</Button></span>
            </div>
          )}
        </VirtualRows>
      )}
      {account && <Manage account={account} onClose={() => { setChosen(null); }} />}
      <Invites />
    </>
  );
}

function Manage({ account, onClose }: { account: Account; onClose: () => void }) {
  const refreshAll = useRefresh();
  const [label, setLabel] = useState(account.label);
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [said, setSaid] = useState("");
  const params = { path: { account_id: account.id } };
  const micro = parseCredits(amount);
  const isAmountWrong = amount.trim() !== "" && (micro === null || micro <= 0n);
  const run = async (action: () => Promise<unknown>, done: string) => {
    setError(null);
    setSaid("");
    try {
      await action();
      setSaid(done);
      await refreshAll(["accounts"]);
    } catch (problem) {
      setError(problem);
    }
  };
  const toggle = (role: Role, has: boolean) => {
    const roles = has ? [...account.roles, role] : account.roles.filter((each) => each !== role);
    void run(() => value(api.PUT("/v1/accounts/{account_id}/roles", { params, body: { roles } })), "The roles have changed.");
  };
  return (
    <Dialog isOpen onClose={onClose} title={account.label || "Account"} wide>
      <p className="mb-4 font-mono text-xs wrap-anywhere">{account.address}</p>
      <div className="grid gap-5 text-sm">
        <form className="flex items-end gap-2" onSubmit={(event) => { event.preventDefault(); void run(() => value(api.PUT("/v1/accounts/{account_id}/label", { params, body: { label } })), "The label has changed."); }}>
          <TextField fieldClass="flex-1" label="Label" hint="What admins call it. Its owner does not see it." maxLength={200} value={label} onChange={(event) => { setLabel(event.target.value); }} />
          <Button type="submit" className="mb-5">Save</Button>
        </form>
        <fieldset className="flex flex-wrap gap-4">
          <legend className="mb-1 font-medium">Roles</legend>
          {(["consumer", "provider", "admin"] as const).map((role) => <Check key={role} label={role} checked={account.roles.includes(role)} onChange={(event) => { toggle(role, event.target.checked); }} />)}
        </fieldset>
        <div>
          <p className="mb-2 font-medium">Credit: <Credits micro={account.available_micro} /> available, <Credits micro={account.held_micro} /> reserved</p>
          <div className="flex flex-wrap items-start gap-2 [&>button]:mt-6">
            <TextField fieldClass="w-40" label="Amount" inputMode="decimal" placeholder="100" problem={isAmountWrong ? NO_AMOUNT : null} value={amount} onChange={(event) => { setAmount(event.target.value); }} />
            <TextField fieldClass="min-w-40 flex-1" label="Reason, to take credit" value={reason} onChange={(event) => { setReason(event.target.value); }} />
            <Button weight="main" disabled={micro === null || micro <= 0n} onClick={() => void run(() => value(api.POST("/v1/accounts/{account_id}/grants", { params: { ...params, header: { "Idempotency-Key": newKey() } }, body: { amount_micro: micro ?? 0n } })).then(() => { setAmount(""); }), `${formatCredits(micro ?? 0n)} credits were granted.`)}>Grant</Button>
            <Button weight="alarm" disabled={micro === null || micro <= 0n || reason.trim() === ""} onClick={() => void run(() => value(api.POST("/v1/accounts/{account_id}/takes", { params: { ...params, header: { "Idempotency-Key": newKey() } }, body: { amount_micro: micro ?? 0n, reason: reason.trim() } })), `${formatCredits(micro ?? 0n)} credits were taken.`)}>Take</Button>
          </div>
        </div>
        <QuotaForm account={account} run={run} />
        <Suspension account={account} run={run} />
        <p role="status">{said}</p>
        <ProblemNote error={error} />
      </div>
    </Dialog>
  );
}

type Run = (action: () => Promise<unknown>, done: string) => Promise<void>;

const quotaText = (name: QuotaName, limit: number | null) =>
  limit === null ? "" : name === "max_blob_bytes" ? writeSize(limit) : String(limit);

/** A limit as it was typed; undefined if it is none. */
function readLimit({ name, bounds }: Quota, text: string): number | null | undefined {
  if (text.trim() === "") return name === "weight" ? undefined : null;
  return (bounds ? readNumber(text, ...bounds) : readSize(text)) ?? undefined;
}

function QuotaForm({ account, run }: { account: Account; run: Run }) {
  const [texts, setTexts] = useState(() => Object.fromEntries(QUOTAS.map(({ name }) => [name, quotaText(name, account.quota[name])])) as Record<QuotaName, string>);
  const read = QUOTAS.map((quota) => [quota.name, readLimit(quota, texts[quota.name])] as const);
  const isWrong = read.some(([, limit]) => limit === undefined);
  const save = () =>
    value(api.PUT("/v1/accounts/{account_id}/quota", { params: { path: { account_id: account.id } }, body: Object.fromEntries(read) as Schemas["SetQuota"] }));
  return (
    <form onSubmit={(event) => { event.preventDefault(); if (!isWrong) void run(save, "The quota has changed."); }}>
      <p className="mb-2 font-medium">Quota</p>
      <div className="grid grid-cols-1 gap-3 sm:grid-cols-2">
        {QUOTAS.map((quota) => (
          <TextField
            key={quota.name}
            label={quota.label}
            hint={quota.name === "weight" ? quota.about : `${quota.about} Empty: as the server has it.`}
            problem={readLimit(quota, texts[quota.name]) === undefined ? (quota.bounds ? rangeSentence(...quota.bounds) : "Write it with its unit, such as 50 GiB.") : null}
            value={texts[quota.name]}
            onChange={(event) => { setTexts({ ...texts, [quota.name]: event.target.value }); }}
          />
        ))}
        <div className="flex items-start pt-6"><Button type="submit" disabled={isWrong}>Save the quota</Button></div>
      </div>
    </form>
  );
}

function Suspension({ account, run }: { account: Account; run: Run }) {
  const [reason, setReason] = useState("");
  const params = { path: { account_id: account.id } };
  if (account.suspended_at) {
    return (
      <div>
        <p className="mb-2">Suspended <Ago at={account.suspended_at} />{account.suspended_for && `: ${account.suspended_for}`}</p>
        <Button onClick={() => void run(() => value(api.POST("/v1/accounts/{account_id}/resume", { params })), "It is active again.")}>Resume the account</Button>
      </div>
    );
  }
  return (
    <div className="flex items-end gap-2">
      <TextField fieldClass="flex-1" label="Reason to suspend it" hint="It is refused at once, and its tasks end. It sees the reason." value={reason} onChange={(event) => { setReason(event.target.value); }} />
      <Button weight="alarm" className="mb-5" disabled={reason.trim() === ""} onClick={() => void run(() => value(api.POST("/v1/accounts/{account_id}/suspend", { params, body: { reason } })), "It is suspended.")}>Suspend</Button>
    </div>
  );
}

function Invites() {
  const list = useQuery({ queryKey: ["invites"], queryFn: ({ signal }) => value(api.GET("/v1/invites", { signal })) });
  const refreshAll = useRefresh();
  const [note, setNote] = useState("");
  const [credit, setCredit] = useState("0");
  const [uses, setUses] = useState("1");
  const [isProvider, setProvider] = useState(false);
  const [code, setCode] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [revoking, setRevoking] = useState<Schemas["InviteView"] | null>(null);
  const micro = parseCredits(credit);
  const number = readNumber(uses, ...USES);
  const make = async () => {
    setError(null);
    try {
      const made = await value(api.POST("/v1/invites", { params: { header: { "Idempotency-Key": newKey() } }, body: { note, uses: number ?? 1, credit_micro: micro ?? 0n, roles: isProvider ? ["consumer", "provider"] : ["consumer"] } }));
      setCode(made.code);
      await refreshAll(["invites"]);
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Section title="Invites" className="mt-6" about="A code lets new wallets join, with roles and credit.">
      <form className="mb-3 flex flex-wrap items-start gap-3 [&>:nth-child(n+4)]:mt-6" onSubmit={(event) => { event.preventDefault(); void make(); }}>
        <TextField fieldClass="min-w-40 flex-1" label="For" placeholder="Ada" value={note} onChange={(event) => { setNote(event.target.value); }} />
        <TextField fieldClass="w-32" label="Credit for each" inputMode="decimal" problem={micro === null || micro < 0n ? NO_AMOUNT : null} value={credit} onChange={(event) => { setCredit(event.target.value); }} />
        <TextField fieldClass="w-24" label="Uses" inputMode="numeric" problem={number === null ? rangeSentence(...USES) : null} value={uses} onChange={(event) => { setUses(event.target.value); }} />
        <Check label="Also a provider" checked={isProvider} onChange={(event) => { setProvider(event.target.checked); }} />
        <Button type="submit" weight="main" disabled={micro === null || micro < 0n || number === null}>Make an invite</Button>
      </form>
      <ProblemNote error={error ?? list.error} />
      {list.data?.invites.length === 0 && <p className="text-sm text-soft">No invite is open.</p>}
      <ul className="divide-y divide-line">
        {list.data?.invites.map((invite) => (
          <li key={invite.id} className="flex items-center justify-between gap-3 py-2 text-sm">
            <span className="min-w-0 wrap-anywhere">{invite.note || "no note"}: {invite.roles.join(", ")}, {plural(invite.uses_left, "use")} left, <Credits micro={invite.credit_micro} /> credits, ends <Ago at={invite.expires_at} /></span>
            <Button weight="alarm" onClick={() => { setRevoking(invite); }}>Revoke</Button>
          </li>
        ))}
      </ul>
      <SecretDialog title="The invite" about="Send it to the person: it is shown only here." secret={code} onClose={() => { setCode(null); }} />
      <Confirm isOpen={revoking !== null} onClose={() => { setRevoking(null); }} title="Revoke this invite?" action="Revoke it" isAlarming run={async () => { if (revoking) await value(api.DELETE("/v1/invites/{invite_id}", { params: { path: { invite_id: revoking.id } } })); await refreshAll(["invites"]); }} />
    </Section>
  );
}
