// What this page asks of the server. The paths are those of wire/routes.py; a test compares them.

export const ROUTES = {
  SHOW_TERMINAL: ["GET", "/v1/auth/device/{user_code}"],
  DRAFT_TERMINAL: ["POST", "/v1/auth/device/{user_code}/draft"],
  APPROVE_TERMINAL: ["POST", "/v1/auth/device/{user_code}/approve"],
  DENY_TERMINAL: ["POST", "/v1/auth/device/{user_code}/deny"],
};

// What a person is told: what is wrong, what to do, and the stable code if the server gave one.
export class Problem extends Error {
  constructor(detail, hint = "", code = "") {
    super(detail);
    this.hint = hint;
    this.code = code;
  }
}

export async function call([method, path], userCode, body) {
  const url = path.replace("{user_code}", encodeURIComponent(userCode));
  const answer = await reach(url, {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
  });
  const said = await answer.json().catch(() => null);
  if (answer.ok) return said;
  throw new Problem(
    said?.detail ?? `The server answered ${answer.status}.`,
    said?.hint ?? "Try again in a moment.",
    said?.code,
  );
}

async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch {
    throw new Problem("The server does not answer.", "Try again in a moment.");
  }
}
