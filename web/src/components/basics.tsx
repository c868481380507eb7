// The small set of parts that every page is made of.

import { Link, type LinkProps } from "@tanstack/react-router";
import { type ComponentProps, type ReactNode, useEffect, useState } from "react";
import { type Problem, asProblem } from "../api/problem";
import { formatCredits } from "../logic/credits";
import { type Tone, spell, toneOf } from "../logic/states";
import { formatAgo, formatMoment } from "../logic/time";
import { Icon, type IconName } from "./icons";
import { useNow } from "./now";

type Weight = "main" | "plain" | "quiet" | "alarm";

const WEIGHTS: Record<Weight, string> = {
  main: "bg-accent text-on-accent border-transparent hover:brightness-110 font-semibold",
  plain: "bg-sheet border-strong-line hover:bg-sunken",
  quiet: "border-transparent hover:bg-sunken text-soft hover:text-ink",
  alarm: "bg-sheet border-alarm text-alarm hover:bg-alarm-ground font-semibold",
};
const SHAPE =
  "inline-flex items-center justify-center gap-1.5 rounded-lg border px-3 min-h-9 text-sm transition-colors " +
  "disabled:opacity-55 disabled:cursor-not-allowed whitespace-nowrap";

export function Button({
  weight = "plain",
  icon,
  className = "",
  children,
  ...rest
}: ComponentProps<"button"> & { weight?: Weight; icon?: IconName }) {
  return (
    <button type="button" className={`${SHAPE} ${WEIGHTS[weight]} ${className}`} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function LinkButton({
  weight = "plain",
  icon,
  className = "",
  children,
  ...rest
}: LinkProps & { weight?: Weight; icon?: IconName; className?: string; children?: ReactNode }) {
  return (
    <Link className={`${SHAPE} ${WEIGHTS[weight]} ${className}`} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </Link>
  );
}

export function IconButton({
  icon,
  label,
  className = "",
  ...rest
}: ComponentProps<"button"> & { icon: IconName; label: string }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      className={`inline-grid size-9 place-items-center rounded-lg text-soft hover:bg-sunken hover:text-ink disabled:opacity-50 ${className}`}
      {...rest}
    >
      <Icon name={icon} />
    </button>
  );
}

const TONES: Record<Tone, string> = {
  good: "bg-good-ground text-good",
  busy: "bg-busy-ground text-busy",
  wait: "bg-wait-ground text-wait",
  alarm: "bg-alarm-ground text-alarm",
  quiet: "bg-sunken text-soft",
};
const DOTS: Record<Tone, string> = {
  good: "bg-good",
  busy: "bg-busy",
  wait: "bg-wait",
  alarm: "bg-alarm",
  quiet: "bg-strong-line",
};

export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  return (
    <span
      className={`inline-flex items-center gap-1.5 rounded-full px-2 py-0.5 align-middle text-xs font-medium whitespace-nowrap ${TONES[tone]}`}
    >
      <span aria-hidden className={`size-1.5 rounded-full ${DOTS[tone]}`} />
      {children}
    </span>
  );
}

export const StateBadge = ({ state, children }: { state: string; children?: ReactNode }) => (
  <Badge tone={toneOf(state)}>{children ?? spell(state)}</Badge>
);

export function PageTitle({
  title,
  about,
  actions,
  children,
}: {
  title: ReactNode;
  about?: ReactNode;
  actions?: ReactNode;
  children?: ReactNode;
}) {
  useEffect(() => {
    if (typeof title === "string") document.title = `${title} · Potluck`;
  }, [title]);
  return (
    <header className="mb-5">
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2">
        <h1 className="min-w-0 text-xl font-semibold tracking-tight text-balance wrap-anywhere sm:text-2xl">
          {title}
        </h1>
        {actions && <div className="flex min-h-9 flex-wrap items-center gap-2">{actions}</div>}
      </div>
      {about && <p className="mt-1 max-w-prose text-soft">{about}</p>}
      {children}
    </header>
  );
}

export function Section({
  title,
  actions,
  about,
  children,
  className = "",
  level: Heading = "h2",
}: {
  title?: ReactNode;
  actions?: ReactNode;
  about?: ReactNode;
  children: ReactNode;
  className?: string;
  level?: "h2" | "h3";
}) {
  return (
    <section className={`sheet min-w-0 p-4 sm:p-5 ${className}`}>
      {(title || actions) && (
        <div className="mb-3 flex flex-wrap items-center justify-between gap-2">
          {title && <Heading className="font-semibold">{title}</Heading>}
          {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
        </div>
      )}
      {about && <p className="mb-3 max-w-prose text-sm text-soft">{about}</p>}
      {children}
    </section>
  );
}

export function Stat({ label, children, note }: { label: string; children: ReactNode; note?: ReactNode }) {
  return (
    <div className="sheet px-4 py-3">
      <p className="text-sm text-soft">{label}</p>
      <p className="mt-0.5 text-xl font-semibold tracking-tight">{children}</p>
      {note && <p className="mt-0.5 text-xs text-soft">{note}</p>}
    </div>
  );
}

export const Stats = ({ children }: { children: ReactNode }) => (
  <div className="mb-5 grid grid-cols-2 gap-3 max-lg:[&>:last-child:nth-child(odd)]:col-span-2 lg:grid-flow-col lg:auto-cols-fr lg:grid-cols-none">{children}</div>
);

export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="sheet grid place-items-center gap-2 px-6 py-12 text-center">
      <p className="font-semibold">{title}</p>
      {children && <div className="max-w-prose text-soft">{children}</div>}
      {action && <div className="mt-2">{action}</div>}
    </div>
  );
}

/** A sentence of the server: what is between backticks is a command. */
export const Words = ({ text }: { text: string }) => (
  <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index} className="font-mono">{part}</code> : part))}</>
);

export function ProblemNote({ error, retry }: { error: unknown; retry?: () => void }) {
  if (error === null || error === undefined) return null;
  const problem: Problem = asProblem(error);
  return (
    <div role="alert" className="my-3 rounded-lg bg-alarm-ground px-4 py-3 text-sm text-alarm">
      <p className="font-medium wrap-anywhere"><Words text={problem.message} /></p>
      {problem.hint && <p className="mt-0.5 wrap-anywhere"><Words text={problem.hint} /></p>}
      {retry && (
        <Button weight="alarm" className="mt-2" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function Loading({ rows = 3 }: { rows?: number }) {
  return (
    <div role="status" aria-label="Loading" className="grid gap-2">
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} className="h-11 animate-pulse rounded-lg bg-sunken" />
      ))}
    </div>
  );
}

export function Ago({ at, otherwise = "–" }: { at: string | null | undefined; otherwise?: string }) {
  const now = useNow();
  if (at == null) return <span className="text-soft">{otherwise}</span>;
  return (
    <time dateTime={at} title={formatMoment(at)}>
      {formatAgo(at, now)}
    </time>
  );
}

export const Moment = ({ at }: { at: string }) => <time dateTime={at}>{formatMoment(at)}</time>;

/** `aligned` has all six places, so that the amounts of a column stand below each other. */
export function Credits({ micro, sign = false, aligned = false }: { micro: bigint; sign?: boolean; aligned?: boolean }) {
  if (aligned && micro === 0n) return <span className="text-soft">–</span>;
  return (
    <span className="whitespace-nowrap">
      {sign && micro > 0n ? "+" : ""}
      {formatCredits(micro, aligned ? 6 : 2)}
    </span>
  );
}

export function Price({ microPerHour }: { microPerHour: bigint }) {
  if (microPerHour === 0n) return <span>free</span>;
  return (
    <span className="whitespace-nowrap">
      {formatCredits(microPerHour)}
      <span className="text-soft"> /h</span>
    </span>
  );
}

export function Facts({ items }: { items: [ReactNode, ReactNode][] }) {
  return (
    <dl className="grid gap-x-6 gap-y-2 text-sm sm:grid-cols-[max-content_1fr]">
      {items.map(([name, fact], index) => (
        <div key={index} className="contents max-sm:block">
          <dt className="text-soft">{name}</dt>
          <dd className="min-w-0 wrap-anywhere max-sm:mb-1">{fact}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Bar({ share, tone = "busy", label }: { share: number; tone?: Tone; label: string }) {
  const percent = Math.max(0, Math.min(100, share * 100));
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(percent)}
      className="h-1.5 w-full overflow-hidden rounded-full bg-sunken"
    >
      <div className={`h-full rounded-full ${DOTS[tone]}`} style={{ width: `${String(percent)}%` }} />
    </div>
  );
}

export function Copy({ text, label = "Copy", name = "Copy" }: { text: string; label?: string; name?: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => { setCopied(false); }, 2000);
    return () => { clearTimeout(timer); };
  }, [isCopied]);
  return (
    <Button
      weight="quiet"
      icon={isCopied ? "check" : "copy"}
      aria-label={isCopied ? "Copied" : label}
      onClick={() => {
        void copy(text).then(() => { setCopied(true); });
      }}
    >
      {isCopied ? "Copied" : name}
    </Button>
  );
}

// The clipboard needs HTTPS or this machine; a selection works everywhere.
async function copy(text: string) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export function Command({ text, label }: { text: string; label: string }) {
  return (
    <div className="flex items-start gap-2 rounded-lg bg-sunken p-2 pl-3">
      <pre className="min-w-0 flex-1 overflow-x-auto py-1.5 font-mono text-sm max-sm:text-xs max-sm:whitespace-pre-wrap max-sm:wrap-anywhere" tabIndex={0} aria-label={label}>
        <code>{text}</code>
      </pre>
      <Copy text={text} label={`Copy: ${label}`} />
    </div>
  );
}

export const Id = ({ id }: { id: string }) => (
  <code className="font-mono text-xs text-soft" title={id}>
    {id.length > 20 ? `…${id.slice(-8)}` : id}
  </code>
);

export const Address = ({ address }: { address: string }) => (
  <code className="font-mono text-xs" title={address}>
    {address.length > 12 ? `${address.slice(0, 6)}…${address.slice(-4)}` : address}
  </code>
);

export const TABLE = "w-full text-sm [&_th]:text-left [&_th]:font-medium [&_th]:text-soft [&_th]:pb-2 [&_th:not(:last-child)]:pr-4 [&_td]:py-2 [&_td:not(:last-child)]:pr-4 [&_td]:align-top [&_tbody_tr]:border-t [&_tbody_tr]:border-line [&_.num]:text-right";

export const Scroller = ({ children, label }: { children: ReactNode; label: string }) => (
  <div className="relative -mx-4 overflow-x-auto px-4 sm:-mx-5 sm:px-5" role="region" aria-label={label} tabIndex={0}>
    {children}
  </div>
);
