// The arguments of a template: `--NAME=VALUE`, with a default for each parameter.

const ARGUMENT = /^--([^=]+)=(.*)$/s;

export function defaults(arguments_: readonly string[]): Record<string, string> {
  const found = arguments_.map((each) => ARGUMENT.exec(each)).filter((match) => match !== null);
  return Object.fromEntries(found.map((match) => [match[1] ?? "", match[2] ?? ""]));
}

/** Parameters that were given replace the defaults; empty ones keep them. */
export function withParameters(arguments_: readonly string[], given: Record<string, string>): string[] {
  const rest = new Map(Object.entries(given).filter(([, text]) => text.trim() !== ""));
  const replaced = arguments_.map((each) => {
    const name = ARGUMENT.exec(each)?.[1] ?? "";
    const text = rest.get(name)?.trim();
    rest.delete(name);
    return text === undefined ? each : `--${name}=${text}`;
  });
  return [...replaced, ...[...rest].map(([name, text]) => `--${name}=${text.trim()}`)];
}
