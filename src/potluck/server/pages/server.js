// Calls to the server. The paths are those of wire/routes.py; a test compares them.

export const ROUTES = {
  BROWSER_REFRESH: ["POST", "/v1/auth/browser/refresh"],
  SHOW_TERMINAL: ["GET", "/v1/auth/device/{user_code}"],
  DRAFT_TERMINAL: ["POST", "/v1/auth/device/{user_code}/draft"],
  APPROVE_TERMINAL: ["POST", "/v1/auth/device/{user_code}/approve"],
  DENY_TERMINAL: ["POST", "/v1/auth/device/{user_code}/deny"],
};

// An error for the user: the problem, a hint, and the server's error code if any.
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
  const content = await answer.json().catch(() => null);
  if (answer.ok) return content;
  throw new Problem(
    content?.detail ?? `The server answered ${answer.status}.`,
    content?.hint ?? "Try again in a moment.",
    content?.code,
  );
}

async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch {
    throw new Problem("The server does not respond.", "Try again in a moment.");
  }
}
