// The wallets of this browser (EIP-6963, else window.ethereum), and requests to them (EIP-1193).

import { Problem } from "../api/problem";
import type { Signer, Transaction } from "./signer";

interface Provider {
  request(call: { method: string; params?: unknown[] }): Promise<unknown>;
}

const REJECTED = 4001;
const BUSY = -32002;
const UNKNOWN_CHAIN = 4902;

export interface FoundWallet {
  id: string;
  signer: Signer;
}

/** Calls `changed` with the list whenever another wallet announces itself. */
export function watchWallets(changed: (wallets: FoundWallet[]) => void): () => void {
  const found = new Map<string, FoundWallet>();
  const announce = (event: Event) => {
    const { info, provider } = (event as CustomEvent<{ info?: { uuid?: unknown; name?: unknown }; provider?: unknown }>)
      .detail;
    if (!isProvider(provider) || typeof info?.uuid !== "string") return;
    const name = typeof info.name === "string" && info.name !== "" ? info.name.slice(0, 40) : "your wallet";
    found.set(info.uuid, { id: info.uuid, signer: injected(name, provider) });
    changed([...found.values()]);
  };
  window.addEventListener("eip6963:announceProvider", announce);
  window.dispatchEvent(new Event("eip6963:requestProvider"));
  const other = (window as { ethereum?: unknown }).ethereum;
  if (found.size === 0 && isProvider(other)) {
    changed([{ id: "injected", signer: injected("your wallet", other) }]);
  }
  return () => {
    window.removeEventListener("eip6963:announceProvider", announce);
  };
}

const isProvider = (value: unknown): value is Provider =>
  typeof (value as Provider | undefined)?.request === "function";

function injected(name: string, provider: Provider): Signer {
  const ask = async (method: string, params: unknown[] = []) => {
    try {
      return await provider.request({ method, params });
    } catch (error) {
      throw explain(error);
    }
  };
  return {
    name,
    connect: async () => {
      const accounts = await ask("eth_requestAccounts");
      const first: unknown = Array.isArray(accounts) ? accounts[0] : undefined;
      if (typeof first !== "string") {
        throw new Problem("The wallet has no account.", "Unlock it or create one, then try again.");
      }
      const chainId = Number(await ask("eth_chainId"));
      return { address: first, chainId: Number.isSafeInteger(chainId) ? chainId : 0 };
    },
    signText: async (address, text) => {
      const digits = Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, "0"));
      return String(await ask("personal_sign", [`0x${digits.join("")}`, address]));
    },
    signTypedData: async (address, typedData) => String(await ask("eth_signTypedData_v4", [address, JSON.stringify(typedData)])),
    isLocal: false,
    signTransaction: null,
    sendTransaction: async ({ from, to, data, chainId }: Transaction) => {
      const chain = `0x${chainId.toString(16)}`;
      if (Number(await ask("eth_chainId")) !== chainId) {
        await ask("wallet_switchEthereumChain", [{ chainId: chain }]);
      }
      return String(await ask("eth_sendTransaction", [{ from, to, data }]));
    },
  };
}

function explain(error: unknown): Problem {
  const { code, message } = (error ?? {}) as { code?: number; message?: unknown };
  if (code === REJECTED) return new Problem("You declined in the wallet.", "Nothing was signed. Try again.");
  if (code === BUSY) return new Problem("The wallet has an open request.", "Open it and answer that first.");
  if (code === UNKNOWN_CHAIN) {
    return new Problem("The wallet does not know this chain.", "Add it to the wallet, then try again.");
  }
  const reason = typeof message === "string" ? message.slice(0, 200) : "It gave no reason.";
  return new Problem("The wallet reported an error.", reason);
}
