// Submit a task: what to run, what it needs, and, as it is typed, which devices suit it, what it
// would cost and when it would start.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useEffectEvent, useMemo, useRef, useState } from "react";
import { type Schemas, api, newKey, value } from "../api/client";
import { useMe, useRefresh } from "../api/hooks";
import { Problem } from "../api/problem";
import { useTemplates } from "../api/templates";
import { upload, uploadFolder } from "../api/upload";
import { Ago, Badge, Button, Credits, Loading, PageTitle, Price, ProblemNote, Section, Words } from "../components/basics";
import { Field, Segments, TextField } from "../components/field";
import { formatBytes, formatCount, plural } from "../logic/numbers";
import { EMPTY_FORM, type Form, type Problems, TASK_OPTIONS, type TaskRequest, formOf, optionsOf, readForm } from "../logic/request";
import { refusedField } from "../logic/refused_field";
import { formatDuration } from "../logic/time";
import { Options } from "./submit_options";
import { TemplateForm, templateRequest, withFiles } from "./template_form";

const NO_OPTIONS = {};
const EXAMPLE = `# /// script
# dependencies = []
# ///
print("Hello from a GPU pool")
`;

export function SubmitPage() {
  const { from } = useSearch({ from: "/submit" });
  if (from === undefined) return <SubmitForm key="new" earlier={null} />;
  return <SubmitAgain key={from} taskId={from} />;
}

/** The form, filled with what an earlier task was. */
function SubmitAgain({ taskId }: { taskId: string }) {
  const earlier = useQuery({
    queryKey: ["task", taskId, "request"],
    queryFn: ({ signal }) => value(api.GET("/v1/tasks/{task_id}/request", { params: { path: { task_id: taskId } }, signal })),
  });
  if (earlier.isPending) return <Loading rows={5} />;
  if (earlier.isError) return <ProblemNote error={earlier.error} retry={() => void earlier.refetch()} />;
  return <SubmitForm earlier={earlier.data} />;
}

function SubmitForm({ earlier }: { earlier: Schemas["OriginalRequest"] | null }) {
  const search = useSearch({ from: "/submit" });
  const templates = useTemplates();
  const before = earlier === null ? undefined : (earlier.request as TaskRequest);
  const [files, setFiles] = useState<File[]>([]);
  const [folder, setFolder] = useState<File[]>([]);
  const [form, setForm] = useState<Form>(before !== undefined ? formOf(before) : {
    ...EMPTY_FORM,
    what: (["template", "script", "command", "container"] as const).find((each) => each === search.what) ?? (search.template ? "template" : "script"),
    options: { ...(search.model === undefined ? {} : { model: search.model }), ...(search.volume === undefined ? {} : { volume: search.volume }) },
  });
  const [templateName, setTemplateName] = useState(search.template ?? "");
  const [parameters, setParameters] = useState<Record<string, string>>({});
  const wallet = useMe().data?.address;
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const [key, setKey] = useState(newKey);
  const [tries, setTries] = useState(0);
  const [left, setLeft] = useState<readonly string[]>([]); // fields that have been left: what is wrong in them is said
  const place = useRef<HTMLFormElement>(null);
  const navigate = useNavigate();
  const refreshAll = useRefresh();
  const template = templates.data?.find((each) => each.name === templateName) ?? templates.data?.[0];

  const read = useMemo(() => {
    if (form.what !== "template") return readForm(form, { earlier: before, wallet });
    if (template === undefined) return { problems: {} };
    return readForm(form, { template: templateRequest(template, parameters), wallet });
  }, [form, template, parameters, before, wallet]);
  const request = "request" in read ? read.request : undefined;
  const wrong: Problems = "problems" in read ? read.problems : {};
  const problems = tries > 0 ? wrong : Object.fromEntries(left.map((name) => [name, wrong[name]]));
  useEffect(() => {
    if (tries > 0) place.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [tries]);

  const set = (change: Partial<Form>) => {
    setForm((known) => ({ ...known, ...change }));
    setKey(newKey());
  };
  const submit = async () => {
    setTries(tries + 1);
    if (request === undefined) return;
    setBusy(true);
    setError(null);
    try {
      const whole = form.what === "template" && template !== undefined ? await withFiles(request, template) : await withInputs(request, files, folder);
      const task = await value(api.POST("/v1/tasks", { params: { header: { "Idempotency-Key": key } }, body: whole }));
      await refreshAll(["tasks"]);
      await navigate({ to: "/tasks/$taskId", params: { taskId: task.id } });
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  const kinds = (templates.data?.length ?? 0) > 0 ? ([["template", "Template"]] as const) : [];
  return (
    <form
      ref={place}
      onBlur={({ target }: { target: EventTarget & { name?: string } }) => { if (target.name && !left.includes(target.name)) setLeft([...left, target.name]); }}
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <PageTitle title={before === undefined ? "Submit a task" : "Submit it again"} />
      {earlier !== null && earlier.secret_count > 0 && (
        <p className="mb-4 rounded-lg bg-wait-ground px-4 py-3 text-sm text-wait">
          The task had {plural(earlier.secret_count, "secret")}, which {earlier.secret_count === 1 ? "is" : "are"} not kept. Submit it with <code className="font-mono">potluck run --secret</code>.
        </p>
      )}
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-[minmax(0,1fr)_21rem]">
        <div className="grid grid-cols-1 gap-4">
          <Section title="What to run">
            <div className="mb-4">
              <Segments
                label="What to run"
                value={form.what}
                onChange={(what) => { set({ what }); }}
                options={[...kinds, ["script", "Script"], ["command", "Command"], ["container", "Container"]]}
              />
            </div>
            {form.what === "template" && template && (
              <TemplateForm
                templates={templates.data ?? []}
                template={template}
                choose={(name) => {
                  setTemplateName(name);
                  setParameters({});
                  setKey(newKey());
                }}
                parameters={parameters}
                change={(name, text) => {
                  setParameters((known) => ({ ...known, [name]: text }));
                  setKey(newKey());
                }}
              />
            )}
            {form.what === "script" && <Script form={form} set={set} problem={problems.source} />}
            {form.what === "container" && (
              <TextField label="Image" placeholder="docker.io/library/busybox:1.37" value={form.image} problem={problems.image} onChange={(event) => { set({ image: event.target.value }); }} />
            )}
            {form.what !== "template" && (
              <div className="mt-3 grid gap-3 sm:grid-cols-2">
                <InputFiles files={files} change={(next) => { setFiles(next); setKey(newKey()); }} kept={keptFiles(before)} />
                <InputFolder files={folder} change={(next) => { setFolder(next); setKey(newKey()); }} isKept={before?.spec.folder != null} />
              </div>
            )}
            {form.what !== "template" && (
              <TextField
                fieldClass="mt-3"
                className="font-mono"
                label={form.what === "script" ? "Arguments" : "Command"}
                hint={form.what === "container" ? "Empty: the image's own command." : "Words as in a shell; quotes keep spaces together."}
                problem={problems.words}
                value={form.words}
                onChange={(event) => { set({ words: event.target.value }); }}
              />
            )}
          </Section>
          <Options
            written={form.options}
            usual={form.what === "template" && template ? optionsOf(template.request as TaskRequest) : NO_OPTIONS}
            set={(name, text) => { set({ options: { ...form.options, [name]: text } }); }}
            problems={problems}
            about={form.what === "template" ? "Fields that you leave empty stay as the template has them." : undefined}
          />
        </div>
        <div className="lg:sticky lg:top-6">
          <Outlook request={request} wrong={wrong} />
          {error instanceof Problem && error.code === "unaffordable" ? (
            <p role="alert" className="my-3 rounded-lg bg-alarm-ground px-4 py-3 text-sm text-alarm">Nothing was submitted: your credit is not enough to start it. Ask an admin of this pool for credit, or earn some with a machine of your own.</p>
          ) : (
            <ProblemNote error={ofField(error)} />
          )}
          {tries > 0 && request === undefined && <p role="alert" className="mt-3 text-sm text-alarm">Some fields need a correction.</p>}
          <Button type="submit" weight="main" className="mt-3 w-full" disabled={isBusy}>
            {isBusy ? "Submitting …" : "Submit the task"}
          </Button>
        </div>
      </div>
    </form>
  );
}

const keptFiles = (before: TaskRequest | undefined) => before?.spec.files?.map((file) => file.path) ?? [];

async function withInputs(request: TaskRequest, files: File[], folder: File[]): Promise<TaskRequest> {
  if (folder.length > 0) return withInputs({ ...request, spec: { ...request.spec, folder: await uploadFolder(folder) } }, files, []);
  if (files.length === 0) return request;
  const sent = await Promise.all(files.map((file) => upload(file.name, file)));
  const names = new Set(sent.map((file) => file.path));
  const kept = (request.spec.files ?? []).filter((file) => !names.has(file.path));
  return { ...request, spec: { ...request.spec, files: [...kept, ...sent] } };
}

function InputFiles({ files, change, kept }: { files: File[]; change: (files: File[]) => void; kept: string[] }) {
  return (
    <TextField
      label="Files for the task"
      type="file"
      multiple
      hint={files.length > 0 ? files.map((file) => `${file.name} (${formatBytes(file.size)})`).join(", ") : kept.length > 0 ? `As before: ${kept.join(", ")}` : "They are beside it when it runs, and cannot be changed there."}
      onChange={(event) => { change([...(event.target.files ?? [])]); }}
    />
  );
}

const DIRECTORY = { webkitdirectory: "" }; // which the types of React lack

function InputFolder({ files, change, isKept }: { files: File[]; change: (files: File[]) => void; isKept: boolean }) {
  return (
    <TextField
      label="Folder"
      type="file"
      {...DIRECTORY}
      hint={files.length > 0 ? `${plural(files.length, "file")}; what its .gitignore excludes is not sent.` : isKept ? "As before." : "It is sent without the files in its .gitignore; the task runs in it."}
      onChange={(event) => { change([...(event.target.files ?? [])]); }}
    />
  );
}

/** A file, and not onto the field of the files beside the script, which takes its own. */
const isForPage = (event: DragEvent) =>
  event.dataTransfer?.types.includes("Files") === true && !(event.target instanceof Element && event.target.closest("input[type=file]") !== null);

function Script({ form, set, problem }: { form: Form; set: (change: Partial<Form>) => void; problem: string | undefined }) {
  const [isOver, setOver] = useState(false);
  const take = async (file: File | undefined) => {
    if (file === undefined) return;
    set({ filename: file.name, source: await file.text() });
  };
  const drop = useEffectEvent((event: DragEvent) => {
    if (!isForPage(event)) return;
    event.preventDefault();
    setOver(false);
    void take(event.dataTransfer?.files[0]);
  });
  // Anywhere on the page: the browser would open a file that is dropped beside a field for it.
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (!isForPage(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent) => { if (event.relatedTarget === null) setOver(false); };
    const dropped = (event: DragEvent) => { drop(event); };
    window.addEventListener("dragover", over);
    window.addEventListener("dragleave", leave);
    window.addEventListener("drop", dropped);
    return () => {
      window.removeEventListener("dragover", over);
      window.removeEventListener("dragleave", leave);
      window.removeEventListener("drop", dropped);
    };
  }, []);
  return (
    <div className="grid gap-3">
      <div className={`flex flex-wrap items-center justify-between gap-2 rounded-lg border-2 border-dashed px-4 py-3 text-sm ${isOver ? "border-accent bg-accent-ground" : "border-line"}`}>
        <span>Drop a Python file here</span>
        <label className="cursor-pointer text-accent underline">
          or choose one
          <input type="file" accept=".py,text/x-python" className="sr-only" onChange={(event) => void take(event.target.files?.[0])} />
        </label>
      </div>
      <Field label={`Source of ${form.filename}`} problem={problem} hint="Dependencies go into a PEP 723 block at its top.">
        {(ids) => (
          <textarea {...ids} spellCheck={false} rows={12} className="field font-mono text-sm" placeholder={EXAMPLE} value={form.source} onChange={(event) => { set({ source: event.target.value }); }} />
        )}
      </Field>
    </div>
  );
}

/** Their names decide on which machines it may run; their values leave the page with the task only. */
const withoutSecrets = (request: TaskRequest): TaskRequest =>
  request.secrets === undefined ? request : { ...request, secrets: Object.fromEntries(Object.keys(request.secrets).map((name) => [name, "-"])) };

/** What the server refuses about a field, in the words of the form. */
function ofField(error: unknown): unknown {
  const sentence = error instanceof Problem ? refusedField(error.message) : null;
  return sentence === null ? error : new Problem(sentence);
}

const OUTLOOKS = { now: ["good", "starts now"], later: ["wait", "starts later"], never: ["alarm", "would not start"] } as const;

function Outlook({ request, wrong }: { request: TaskRequest | undefined; wrong: Problems }) {
  const settled = useSettled(useMemo(() => request && withoutSecrets(request), [request]));
  const estimate = useQuery({
    queryKey: ["estimate", JSON.stringify(settled, (_, each: unknown) => (typeof each === "bigint" ? each.toString() : each))],
    queryFn: ({ signal }) => value(api.POST("/v1/tasks/estimate", { body: settled as TaskRequest, signal })),
    enabled: settled !== undefined,
    placeholderData: keepPreviousData,
    retry: false,
  });
  if (settled === undefined) {
    const options = TASK_OPTIONS.filter((option) => wrong[option.name] !== undefined).map((option) => option.title);
    if (options.length > 0) return <Section title="Estimate"><p className="text-sm text-soft">It needs a correction of {options.join(", ")}.</p></Section>;
    return <Section title="Estimate"><p className="text-sm text-soft">Say what to run, and this shows which devices suit it, what it costs and when it starts.</p></Section>;
  }
  if (estimate.isError) return <Section title="Estimate"><ProblemNote error={ofField(estimate.error)} /></Section>;
  const { data } = estimate;
  if (data === undefined) return <Section title="Estimate"><p className="text-sm text-soft">One moment …</p></Section>;
  const [tone, word] = OUTLOOKS[data.outlook];
  return (
    <Section title="Estimate" actions={<Badge tone={tone}>{word}</Badge>}>
      <div aria-live="polite">
        <p className="mb-2 text-3xl font-semibold tracking-tight" data-matching>
          {formatCount(data.suitable_devices)}
          <span className="ml-2 text-sm font-normal text-soft">{data.suitable_devices === 1 ? "device matches" : "devices match"}, {formatCount(data.free_devices)} free</span>
        </p>
        <p className="text-sm">{data.sentence}</p>
      </div>
      <Money estimate={data} />
      {data.estimated_start !== null && data.outlook !== "now" && <p className="mt-2 text-sm text-soft">Expected to start <Ago at={data.estimated_start} />{data.basis && ` (${data.basis})`}.</p>}
      {data.expected_seconds !== null && <p className="mt-2 text-sm text-soft">Expected to run for {formatDuration(data.expected_seconds)}.</p>}
      {data.changes.length > 0 && (
        <>
          <h3 className="mt-3 text-sm text-soft">What would help</h3>
          <ul className="list-disc pl-5 text-sm">{data.changes.map((change) => <li key={change}><Words text={change} /></li>)}</ul>
        </>
      )}
      {data.refusals.length > 0 && (
        <details className="mt-3 text-sm">
          <summary className="text-soft">{plural(data.nodes, "machine")} considered</summary>
          <ul className="mt-1 list-disc pl-5">{data.refusals.map((each) => <li key={each.code}>{each.sentence}</li>)}</ul>
        </details>
      )}
    </Section>
  );
}

function Money({ estimate }: { estimate: Schemas["Estimate"] }) {
  const { cheapest_micro_per_hour: low, dearest_micro_per_hour: high } = estimate;
  if (low === null || high === null) return null;
  return (
    <dl className="mt-3 grid grid-cols-[1fr_auto] gap-y-1 border-t border-line pt-3 text-sm">
      <dt className="text-soft">Price of what it reserves</dt>
      <dd><Price microPerHour={low} />{high !== low && <> to <Price microPerHour={high} /></>}</dd>
      {estimate.hold_micro !== null && estimate.hold_micro > 0n && <><dt className="text-soft">Reserved at its start</dt><dd><Credits micro={estimate.hold_micro} /></dd></>}
      {estimate.expected_micro !== null && estimate.expected_micro > 0n && <><dt className="text-soft">Expected cost</dt><dd><Credits micro={estimate.expected_micro} /></dd></>}
      {estimate.most_micro !== null && estimate.most_micro > 0n && <><dt className="text-soft">At most, up to its time limit</dt><dd><Credits micro={estimate.most_micro} /></dd></>}
      <dt className="text-soft">Your credit</dt>
      <dd className={estimate.can_pay ? "" : "text-alarm"}><Credits micro={estimate.available_micro} /></dd>
      <dd className="col-span-2 mt-1 text-xs text-soft">You pay for the time it runs and the share of the device that it reserves. What was reserved and not used comes back.</dd>
    </dl>
  );
}

/** The value once it has not changed for a moment: an estimate is not asked for at each key. */
function useSettled<T>(given: T): T {
  const [settled, setSettled] = useState(given);
  useEffect(() => {
    const timer = setTimeout(() => { setSettled(given); }, 400);
    return () => { clearTimeout(timer); };
  }, [given]);
  return settled;
}
