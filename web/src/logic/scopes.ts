// What a credential with a scope may do, in words.

const MAY: Record<string, string> = {
  "tasks:read": "see your tasks and their output",
  "tasks:write": "submit and cancel tasks on your credit",
  "pool:read": "see the pool's machines",
  "account:read": "see your account",
  "account:write": "manage your keys, sessions and roles",
  "nodes:write": "change what your machines offer, and pause or drain them",
  "metrics:read": "read the pool's metrics, if you are an admin",
  "node": "take tasks as this machine",
  "admin": "administer the pool, if you are an admin",
};

export const scopeWords = (scope: string) => MAY[scope] ?? scope;
