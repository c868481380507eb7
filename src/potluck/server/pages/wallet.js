// The wallets of this browser (EIP-6963, else window.ethereum), and requests to them (EIP-1193).

import { Problem } from "./server.js";

const REJECTED = 4001;
const BUSY = -32002;

// Calls `changed` with the list whenever another wallet announces itself.
export function watchWallets(changed) {
  const found = new Map();
  window.addEventListener("eip6963:announceProvider", (event) => {
    const { info, provider } = event.detail ?? {};
    if (typeof provider?.request !== "function" || typeof info?.uuid !== "string") return;
    found.set(info.uuid, { name: String(info.name || "your wallet").slice(0, 40), provider });
    changed([...found.values()]);
  });
  window.dispatchEvent(new Event("eip6963:requestProvider"));
  if (found.size === 0) changed(fallback());
}

function fallback() {
  const provider = window.ethereum;
  return typeof provider?.request === "function" ? [{ name: "your wallet", provider }] : [];
}

export async function connect(wallet) {
  const accounts = await ask(wallet, "eth_requestAccounts", []);
  if (!Array.isArray(accounts) || typeof accounts[0] !== "string") {
    throw new Problem("The wallet has no account.", "Unlock it or create one, then try again.");
  }
  const chain = Number(await ask(wallet, "eth_chainId", []));
  return { address: accounts[0], chainId: Number.isSafeInteger(chain) ? chain : 0 };
}

export function signText(wallet, address, text) {
  const bytes = new TextEncoder().encode(text);
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  return ask(wallet, "personal_sign", [`0x${digits.join("")}`, address]);
}

export function signTypedData(wallet, address, typedData) {
  return ask(wallet, "eth_signTypedData_v4", [address, JSON.stringify(typedData)]);
}

async function ask(wallet, method, params) {
  try {
    return await wallet.provider.request({ method, params });
  } catch (error) {
    throw explain(error);
  }
}

function explain(error) {
  if (error?.code === REJECTED) {
    return new Problem("You declined in the wallet.", "Nothing was signed. Try again, or deny.");
  }
  if (error?.code === BUSY) {
    return new Problem("The wallet has an open request.", "Open it and answer that first.");
  }
  const message = String(error?.message ?? "no reason given").slice(0, 200);
  return new Problem("The wallet reported an error.", message);
}
