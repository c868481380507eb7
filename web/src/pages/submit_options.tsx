// The options of a task as fields, from the one table; what is rarely used is folded.

import { useState } from "react";
import { useVolumes, volumeName } from "../api/volumes";
import { Section, Words } from "../components/basics";
import { Check, Choice, Field, TextField } from "../components/field";
import type { TaskOption } from "../logic/option_values";
import { type Problems, TASK_OPTIONS } from "../logic/request";

interface Fields {
  written: Record<string, string>;
  usual: Record<string, string>; // what holds for an empty field instead of the default
  set: (name: string, text: string) => void;
  problems: Problems;
}

const COMMON = TASK_OPTIONS.filter((option) => option.is_common);
const RARE = TASK_OPTIONS.filter((option) => !option.is_common);
const SEVERAL: readonly string[] = ["words", "owners", "volumes"];
const TITLE = "What it needs";
const PANELS = [...new Set(RARE.map((option) => option.panel))];

export function Options({ about, ...fields }: Fields & { about: string | undefined }) {
  // What an earlier task or an address has set is not hidden, and neither is what is wrong.
  const [isOpen, setOpen] = useState(RARE.some((option) => fields.written[option.name]));
  const isWrong = RARE.some((option) => fields.problems[option.name] !== undefined);
  return (
    <Section title={TITLE} about={about}>
      <div className="grid gap-3 sm:grid-cols-2 xl:grid-cols-3">
        {COMMON.map((option) => <OptionField key={option.name} option={option} {...fields} />)}
      </div>
      <details className="mt-4" open={isOpen || isWrong} onToggle={(event) => { setOpen(event.currentTarget.open); }}>
        <summary className="text-sm font-medium text-accent">More options</summary>
        {PANELS.map((panel) => (
          <fieldset key={panel} className="mt-4">
            <legend className="mb-2 text-sm font-semibold">{panel === TITLE ? "More of what it needs" : panel || "General"}</legend>
            <div className="grid gap-3 sm:grid-cols-2 xl:grid-cols-3">
              {RARE.filter((option) => option.panel === panel).map((option) => <OptionField key={option.name} option={option} {...fields} />)}
            </div>
          </fieldset>
        ))}
      </details>
    </Section>
  );
}

function OptionField({ option, written, usual, set, problems }: Fields & { option: TaskOption }) {
  const { name, title } = option;
  const help = <Words text={SEVERAL.includes(option.reader) ? `${option.help} Several have spaces between them.` : option.help} />;
  const text = written[name] ?? "";
  const change = (next: string) => { set(name, next); };
  const problem = problems[name];
  const otherwise = usual[name] ?? option.default;
  if (option.reader === "flag") {
    return <Check label={title} hint={problem ?? help} checked={text === "yes"} onChange={(event) => { change(event.target.checked ? "yes" : ""); }} />;
  }
  if (option.reader === "choice") {
    const choices = (option.choices ?? []).map((each): [string, string] => [each, each]);
    return <Choice name={name} label={title} hint={help} problem={problem} value={text} options={[["", otherwise === "" ? "any" : otherwise], ...choices]} onChange={(event) => { change(event.target.value); }} />;
  }
  if (option.reader === "variables") {
    return (
      <Field label={title} hint={<>{help} One on each line.</>} problem={problem}>
        {(ids) => <textarea {...ids} name={name} rows={2} spellCheck={false} autoComplete="off" className="field font-mono text-sm" placeholder={otherwise || "NAME=VALUE"} value={text} onChange={(event) => { change(event.target.value); }} />}
      </Field>
    );
  }
  const field = <TextField name={name} label={title} hint={help} problem={problem} placeholder={otherwise || option.metavar} value={text} onChange={(event) => { change(event.target.value); }} />;
  return option.reader === "volumes" ? <div>{field}<VolumeNames text={text} change={change} /></div> : field;
}

/** The account's first volumes, to add with a click. */
function VolumeNames({ text, change }: { text: string; change: (text: string) => void }) {
  const volumes = useVolumes();
  return (
    <p className="mt-1 flex flex-wrap gap-x-3 text-xs">
      {volumes.data?.volumes.slice(0, 8).map((volume) => <button key={volume.id} type="button" className="text-accent underline" onClick={() => { change(`${text} ${volumeName(volume)}:/${volume.name}`.trim()); }}>{volume.name}</button>)}
    </p>
  );
}
