// What can sign: a wallet of this browser, or a key that was opened in this tab.

export interface Signer {
  readonly name: string;
  /** Asks for the account, where the wallet has several. */
  connect(): Promise<{ address: string; chainId: number }>;
  signText(address: string, text: string): Promise<string>;
  /** EIP-712. */
  signTypedData(address: string, typedData: unknown): Promise<string>;
  /** Its key is in this tab. */
  readonly isLocal: boolean;
  /** Sends a transaction by the wallet's own node; null for a key in this tab, which has none. */
  readonly sendTransaction: null | ((transaction: Transaction) => Promise<string>);
  /** Signs a transaction that the server sends; null for a wallet that sends its own. */
  readonly signTransaction: null | ((transaction: PreparedTransaction) => Promise<string>);
}

export interface Transaction {
  from: string;
  to: string;
  data: string;
  chainId: number;
}

/** With all that a signature covers. */
export interface PreparedTransaction {
  chainId: number;
  nonce: number;
  to: string;
  data: string;
  gas: bigint;
  maxFeePerGas: bigint;
  maxPriorityFeePerGas: bigint;
}

let current: Signer | null = null;

/** The signer of this tab's sign-in, for later signatures; a reload forgets it. */
export const currentSigner = () => current;
export function keepSigner(signer: Signer | null) {
  current = signer;
}
