// Volumes: data sets that are put once and mounted read-only in any task.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { type Volume, useVolumes, volumeName } from "../api/volumes";
import { Address, Ago, Badge, Button, Command, Copy, Empty, LinkButton, Loading, PageTitle, ProblemNote, Scroller, Section, TABLE } from "../components/basics";
import { Confirm } from "../components/dialog";
import { Field, TextField } from "../components/field";
import { formatBytes, formatCount, plural } from "../logic/numbers";
import { readTime, writeTime } from "../logic/option_values";

const WALLET = /^0x[0-9a-fA-F]{40}$/;

export function VolumesPage() {
  const list = useVolumes();
  return (
    <>
      <PageTitle title="Volumes" about="Data sets that are put once and mounted read-only in any task. Machines keep them, so that the next task starts without a download." />
      <ProblemNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading />}
      <div className="grid grid-cols-1 gap-4">
        {list.data?.volumes.length === 0 && <Empty title="You have no volumes.">Put a folder from a terminal. Only what is new is sent when you put it again.</Empty>}
        {list.data?.volumes.map((volume) => <VolumeCard key={volume.id} volume={volume} />)}
        <Section title="In a terminal">
          <div className="grid grid-cols-1 gap-2">
            <Command text="potluck volume put imagenet ./imagenet" label="Put a folder" />
            <Command text="potluck cp imagenet:train/labels.csv ." label="Copy a file out of it" />
          </div>
        </Section>
      </div>
    </>
  );
}

function VolumeCard({ volume }: { volume: Volume }) {
  const [isOpen, setOpen] = useState(false);
  const [isRemoving, setRemoving] = useState(false);
  const refreshAll = useRefresh();
  const name = volumeName(volume);
  return (
    <Section
      title={<span className="flex flex-wrap items-center gap-2"><span className="wrap-anywhere">{volume.name}</span>{!volume.is_own && <Badge tone="busy">shared with you</Badge>}{volume.shared_with.length > 0 && <Badge tone="quiet">{`shared with ${plural(volume.shared_with.length, "wallet")}`}</Badge>}</span>}
      actions={<LinkButton to="/submit" search={{ volume: `${name}:/data` }} icon="plus">Use in a task</LinkButton>}
    >
      <p className="text-sm text-soft">
        {formatBytes(volume.newest.size_bytes)} in {plural(volume.newest.files, "file")}, put <Ago at={volume.newest.put_at} />, {plural(volume.versions, "version")}
        {volume.is_own ? `, ${formatBytes(volume.stored_bytes)} stored` : <>, of <Address address={volume.owner} /></>}
      </p>
      <div className="mt-3 flex flex-wrap gap-2">
        <Button aria-expanded={isOpen} onClick={() => { setOpen(!isOpen); }}>{volume.is_own ? "Versions and sharing" : "Versions"}</Button>
        {volume.is_own && <Button weight="quiet" onClick={() => { setRemoving(true); }}>Remove</Button>}
      </div>
      {isOpen && <Versions volume={volume} />}
      {isOpen && volume.is_own && <Terms volume={volume} />}
      <Confirm isOpen={isRemoving} onClose={() => { setRemoving(false); }} title={`Remove ${volume.name}?`} action="Remove it" isAlarming run={async () => { await value(api.DELETE("/v1/volumes/{volume_id}", { params: { path: { volume_id: volume.id } } })); await refreshAll(["volumes"]); }}>
        <p>All its versions are removed. Tasks that mount it keep it until they have ended.</p>
      </Confirm>
    </Section>
  );
}

function Versions({ volume }: { volume: Volume }) {
  const path = { volume_id: volume.id };
  const details = useQuery({
    queryKey: ["volumes", volume.id],
    queryFn: ({ signal }) => value(api.GET("/v1/volumes/{volume_id}", { params: { path }, signal })),
  });
  const refreshAll = useRefresh();
  const [removing, setRemoving] = useState<string | null>(null);
  if (details.isPending) return <Loading />;
  if (details.isError) return <ProblemNote error={details.error} />;
  return (
    <div className="mt-4">
      <Scroller label={`Versions of ${volume.name}`}>
        <table className={TABLE}>
          <thead><tr><th scope="col">Version</th><th scope="col">Put</th><th scope="col">Last used</th><th scope="col" className="num">Files</th><th scope="col" className="num">Size</th><th scope="col"><span className="sr-only">Actions</span></th></tr></thead>
          <tbody>
            {details.data.versions.map((version, index) => (
              <tr key={version.version}>
                <td className="whitespace-nowrap"><code className="font-mono text-xs" title={version.version}>{version.version.slice(0, 12)}</code> {index === 0 && <Badge tone="good">newest</Badge>}</td>
                <td className="whitespace-nowrap text-soft"><Ago at={version.put_at} /></td>
                <td className="whitespace-nowrap text-soft"><Ago at={version.used_at} /></td>
                <td className="num">{formatCount(version.files)}</td>
                <td className="num whitespace-nowrap">{formatBytes(version.size_bytes)}</td>
                <td className="text-right whitespace-nowrap">
                  <Copy text={`${volumeName(volume)}@${version.version.slice(0, 12)}`} label="Copy the name of this version" />
                  {volume.is_own && details.data.versions.length > 1 && <Button weight="quiet" onClick={() => { setRemoving(version.version); }}>Remove</Button>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
      <Confirm isOpen={removing !== null} onClose={() => { setRemoving(null); }} title="Remove this version?" action="Remove it" isAlarming run={async () => { if (removing !== null) await value(api.DELETE("/v1/volumes/{volume_id}/versions/{version}", { params: { path: { ...path, version: removing } } })); await refreshAll(["volumes"]); }}>
        <p>Tasks that mount it keep it until they have ended.</p>
      </Confirm>
    </div>
  );
}

/** Who may mount it, and how long versions are kept. */
function Terms({ volume }: { volume: Volume }) {
  const refreshAll = useRefresh();
  const [wallets, setWallets] = useState(volume.shared_with.join("\n"));
  const [most, setMost] = useState(volume.keep_versions === null ? "" : String(volume.keep_versions));
  const [time, setTime] = useState(volume.keep_seconds === null ? "" : writeTime(volume.keep_seconds));
  const [said, setSaid] = useState("");
  const [error, setError] = useState<unknown>(null);
  const named = wallets.split(/[\s,]+/).filter(Boolean);
  const wrong = named.find((wallet) => !WALLET.test(wallet));
  const seconds = time.trim() === "" ? null : readTime(time);
  const isTimeWrong = time.trim() !== "" && (seconds === null || seconds < 60);
  const isMostWrong = most.trim() !== "" && !/^[1-9]\d{0,2}$|^1000$/.test(most.trim());
  const save = async () => {
    setError(null);
    setSaid("");
    try {
      await value(api.PATCH("/v1/volumes/{volume_id}", { params: { path: { volume_id: volume.id } }, body: { shared_with: named, keep_versions: most.trim() === "" ? null : Number(most), keep_seconds: seconds } }));
      setSaid("Saved.");
      await refreshAll(["volumes"]);
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <form className="mt-4 grid gap-3 border-t border-line pt-4" onSubmit={(event) => { event.preventDefault(); void save(); }}>
      <Field label="Share with these wallets" problem={wrong === undefined ? null : `${wrong} is not the address of a wallet.`} hint="One address in each line. They can mount and copy it, and cannot change it.">
        {(ids) => <textarea {...ids} rows={2} spellCheck={false} className="field font-mono text-sm" placeholder="0x…" value={wallets} onChange={(event) => { setWallets(event.target.value); }} />}
      </Field>
      <div className="grid gap-3 sm:grid-cols-2">
        <TextField label="Keep at most this many versions" inputMode="numeric" hint="Empty: all of them." problem={isMostWrong ? "A whole number from 1 to 1000." : null} value={most} onChange={(event) => { setMost(event.target.value); }} />
        <TextField label="Remove versions that are not used for" hint="Such as 30d. Empty: never." problem={isTimeWrong ? "Write it like 12h or 30d." : null} value={time} onChange={(event) => { setTime(event.target.value); }} />
      </div>
      <ProblemNote error={error} />
      <div className="flex items-center gap-3">
        <Button type="submit" disabled={wrong !== undefined || isTimeWrong || isMostWrong}>Save</Button>
        <p role="status" className="text-sm text-soft">{said}</p>
      </div>
    </form>
  );
}
