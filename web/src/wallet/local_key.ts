// A wallet that is made in this browser. Its key is in memory while the tab is open; what is kept is
// a keystore file (Web3 Secret Storage, as `potluck login` writes it), encrypted with a password.

import * as Keystore from "ox/Keystore";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { Problem } from "../api/problem";
import type { Signer } from "./signer";

export interface LocalWallet {
  signer: Signer;
  address: string;
  file: { name: string; text: string };
}

type Hex = `0x${string}`;

const ITERATIONS = 262_144; // as other wallets have it

export async function makeWallet(password: string): Promise<LocalWallet> {
  const key = generatePrivateKey();
  const account = privateKeyToAccount(key);
  const [derive, derivation] = await Keystore.pbkdf2Async({ password, iterations: ITERATIONS });
  const keystore = Keystore.encrypt(key, derive, derivation);
  const address = account.address.slice(2).toLowerCase();
  const text = JSON.stringify({ ...keystore, address }, null, 1);
  return { signer: signer(key), address: account.address, file: { name: `potluck-wallet-${address}.json`, text } };
}

export async function openWallet(text: string, password: string): Promise<Signer> {
  let keystore: Keystore.Keystore;
  try {
    keystore = JSON.parse(text) as Keystore.Keystore;
    if (keystore.crypto.kdfparams.salt === "") throw new Error("no salt");
  } catch {
    throw new Problem("This file is not a keystore.", "Choose the file that you downloaded with the wallet.");
  }
  try {
    return signer(Keystore.decrypt(keystore, await deriveKey(keystore, password)));
  } catch {
    throw new Problem("The password does not open this keystore.", "Check the password and the file.");
  }
}

/** The asynchronous scrypt of ox has fixed parameters; the synchronous one uses those of the file. */
function deriveKey(keystore: Keystore.Keystore, password: string): Promise<Keystore.Key> | Keystore.Key {
  return keystore.crypto.kdf === "scrypt"
    ? Keystore.toKey(keystore, { password })
    : Keystore.toKeyAsync(keystore, { password });
}

function signer(key: Hex): Signer {
  const account = privateKeyToAccount(key);
  return {
    name: "the wallet in this tab",
    connect: () => Promise.resolve({ address: account.address, chainId: 0 }),
    signText: (_, text) => account.signMessage({ message: text }),
    signTypedData: (_, typedData) => account.signTypedData(typedData as Parameters<typeof account.signTypedData>[0]),
    isLocal: true,
    sendTransaction: null,
    signTransaction: ({ to, data, ...rest }) => account.signTransaction({ type: "eip1559", to: to as Hex, data: data as Hex, ...rest }),
  };
}
