// Form fields with a label, a hint and, if the value is wrong, a sentence beside it.

import { type ComponentProps, type ReactNode, useEffect, useId, useRef, useState } from "react";

export function Field({
  label,
  hint,
  problem,
  children,
  className = "",
}: {
  label: ReactNode;
  hint?: ReactNode;
  problem?: string | null | undefined;
  children: (ids: { id: string; "aria-describedby": string | undefined; "aria-invalid": boolean }) => ReactNode;
  className?: string;
}) {
  const id = useId();
  const describing = hint || problem ? `${id}-hint` : undefined;
  return (
    <div className={className}>
      <label htmlFor={id} className="mb-1 block text-sm font-medium">
        {label}
      </label>
      {children({ id, "aria-describedby": describing, "aria-invalid": Boolean(problem) })}
      {describing && (
        <p id={describing} className={`mt-1 text-xs ${problem ? "text-alarm" : "text-soft"}`}>
          {problem ?? hint}
        </p>
      )}
    </div>
  );
}

type Texts = { label: ReactNode; hint?: ReactNode; problem?: string | null | undefined; fieldClass?: string };

export function TextField({
  label,
  hint,
  problem,
  fieldClass,
  className = "",
  ...rest
}: ComponentProps<"input"> & Texts) {
  return (
    <Field label={label} hint={hint} problem={problem} className={fieldClass ?? ""}>
      {(ids) => <input {...ids} className={`field ${className}`} spellCheck={false} autoComplete="off" {...rest} />}
    </Field>
  );
}

export function Choice({
  label,
  hint,
  problem,
  fieldClass,
  options,
  className = "",
  ...rest
}: ComponentProps<"select"> & Texts & { options: [string, string][] }) {
  return (
    <Field label={label} hint={hint} problem={problem} className={fieldClass ?? ""}>
      {(ids) => (
        <select {...ids} className={`field ${className}`} {...rest}>
          {options.map(([name, text]) => (
            <option key={name} value={name}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Check({ label, hint, ...rest }: ComponentProps<"input"> & { label: ReactNode; hint?: ReactNode }) {
  return (
    <label className="flex items-start gap-2 text-sm">
      <input type="checkbox" className="mt-0.5 size-4 shrink-0 accent-accent" {...rest} />
      <span>
        {label}
        {hint && <span className="block text-xs text-soft">{hint}</span>}
      </span>
    </label>
  );
}

/** Buttons of which one is chosen. */
export function Segments<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}) {
  return (
    <div role="group" aria-label={label} className="inline-flex flex-wrap gap-1 rounded-lg bg-sunken p-1">
      {options.map(([name, text]) => (
        <button
          key={name}
          type="button"
          aria-pressed={name === value}
          onClick={() => { onChange(name); }}
          className="min-h-8 rounded-md px-3 text-sm text-soft aria-pressed:bg-sheet aria-pressed:font-medium aria-pressed:text-ink aria-pressed:shadow-sm"
        >
          {text}
        </button>
      ))}
    </div>
  );
}

const TYPING_MS = 300;

/** A filter that holds a moment after the last key. It does not wait until the field is left: the
 * click that leaves it would meet a list that changes under it. */
export function FilterField({ value, onFilter, ...rest }: Omit<ComponentProps<"input">, "value" | "onChange"> & { value: string; onFilter: (text: string) => void }) {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState({ value, sent: value });
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => { clearTimeout(timer.current); }, []);
  if (value !== known.value) {
    // Changed from elsewhere, such as by a saved view.
    if (value !== known.sent) setText(value);
    setKnown({ value, sent: known.sent });
  }
  const send = (next: string) => {
    clearTimeout(timer.current);
    setKnown((each) => ({ ...each, sent: next }));
    if (next !== value) onFilter(next);
  };
  return (
    <input
      {...rest}
      value={text}
      onChange={(event) => {
        const next = event.target.value;
        setText(next);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => { send(next); }, TYPING_MS);
      }}
      onKeyDown={(event) => { if (event.key === "Enter") send(event.currentTarget.value); }}
    />
  );
}
