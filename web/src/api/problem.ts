// Errors for people: what is wrong, and what to do.

export class Problem extends Error {
  constructor(
    detail: string,
    readonly hint = "",
    readonly code = "",
    readonly status = 0,
  ) {
    super(detail);
    this.name = "Problem";
  }
}

export const UNREACHABLE = "unreachable";

export function unreachable(): Problem {
  return new Problem(
    "The server does not respond.",
    "The page tries again by itself. Your tasks and machines continue.",
    UNREACHABLE,
  );
}

export function problemOf(body: unknown, status: number): Problem {
  const fields = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const text = (name: string) => (typeof fields[name] === "string" ? fields[name] : "");
  return new Problem(
    text("detail") || `The server answered ${String(status)}.`,
    text("hint") || (text("detail") ? "" : "Try again in a moment."),
    text("code"),
    status,
  );
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem("This page has failed.", error instanceof Error ? error.message : "Reload it.");
}
