// The page of the device flow: enter the code, review, sign, back to the terminal.
//
// Foreign text (the machine's name, the wallet's name, errors) is only ever set as text. The server
// writes the message to sign, with the code in it; this page passes it to the wallet and back.

import { Problem, ROUTES, call } from "./server.js";
import { connect, signText, signTypedData, watchWallets } from "./wallet.js";

const MAY = {
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
const VIEWS = ["enter", "ask", "signing", "done", "refused"];
const part = (id) => document.getElementById(id);

let userCode = "";

function show(view) {
  for (const name of VIEWS) part(name).hidden = name !== view;
  part(`${view}-title`).focus();
}

function tell(problem) {
  part("problem").hidden = problem === null;
  part("problem-detail").textContent = problem?.message ?? "";
  part("problem-hint").textContent = problem?.hint ?? "";
}

// Runs an action; on failure shows the problem and the given view.
async function attempt(action, viewOnFailure) {
  tell(null);
  try {
    await action();
  } catch (error) {
    const isProblem = error instanceof Problem;
    show(isProblem && error.code === "not_found" ? "enter" : viewOnFailure);
    tell(isProblem ? error : new Problem("This page has failed.", "Reload it."));
    if (!isProblem) console.error(error);
  }
}

async function look(typed) {
  const letters = typed.replace(/[^a-z]/gi, "");
  if (letters.length !== 8) {
    throw new Problem("The code has eight letters.", "Type it as your terminal shows it.");
  }
  const request = await call(ROUTES.SHOW_TERMINAL, letters);
  userCode = request.user_code;
  part("ask-code").textContent = request.user_code;
  part("ask-machine").textContent = request.machine || "an unnamed terminal";
  part("ask-scopes").replaceChildren(...request.scopes.map(scopeItem));
  part("ask-key").hidden = part("ask-key-name").hidden = request.node_key === null;
  part("ask-key-address").textContent = request.node_key ?? "";
  part("ask-until").dateTime = request.expires_at;
  part("ask-until").textContent = new Date(request.expires_at).toLocaleTimeString([], {
    timeStyle: "short",
  });
  show("ask");
}

function scopeItem(scope) {
  const item = document.createElement("li");
  item.textContent = MAY[scope] ?? scope;
  return item;
}

function offer(wallets) {
  part("no-wallet").hidden = wallets.length > 0;
  part("wallets").replaceChildren(...wallets.map(walletButton));
}

function walletButton(wallet) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "main";
  button.textContent = `Sign with ${wallet.name}`;
  button.addEventListener("click", () => attempt(() => approve(wallet), "ask"));
  return button;
}

async function approve(wallet) {
  step("Choose the account for the terminal.");
  const { address, chainId } = await connect(wallet);
  const draft = await call(ROUTES.DRAFT_TERMINAL, userCode, {
    address,
    chain_id: chainId,
    origin: window.location.origin,
  });
  step(`Check that the message contains ${userCode}, then sign it.`);
  const signature = await signText(wallet, address, draft.message);
  const delegation = await delegate(wallet, address, draft);
  step("One moment …");
  await call(ROUTES.APPROVE_TERMINAL, userCode, { message: draft.message, signature, delegation }).catch(
    (problem) => {
      throw onAnotherChain(problem, chainId, draft.chain_id);
    },
  );
  part("done-address").textContent = address;
  show("done");
}

async function delegate(wallet, address, draft) {
  if (draft.delegation === null) return null;
  const until = new Date(draft.delegation.expires_at * 1000).toLocaleDateString();
  step(`Second signature: it authorises the node key to work for you until ${until}.`);
  const signature = await signTypedData(wallet, address, draft.typed_data);
  return { ...draft.delegation, signature };
}

// A key's signature is valid on every chain; a contract wallet is verified on the named chain.
function onAnotherChain(problem, walletChain, namedChain) {
  if (problem.code !== "not_signed_in" || walletChain === namedChain) return problem;
  const hint = `If yours is a contract wallet, switch it to chain ${namedChain} and try again.`;
  return new Problem(problem.message, hint, problem.code);
}

function step(text) {
  part("signing-step").textContent = text;
  if (part("signing").hidden) show("signing");
}

async function refuse() {
  await call(ROUTES.DENY_TERMINAL, userCode);
  show("refused");
}

// Browsers do not send the fragment, so no log and no referrer contains the code.
async function start() {
  const given = window.location.hash.slice(1);
  if (!given) return show("enter");
  part("code").value = given;
  return attempt(() => look(given), "enter");
}

part("enter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(() => look(part("code").value), "enter");
});
part("refuse").addEventListener("click", () => attempt(refuse, "ask"));
window.addEventListener("hashchange", start);
watchWallets(offer);
start();
