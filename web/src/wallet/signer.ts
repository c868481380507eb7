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
  /** Sends a transaction; null where this signer has no node to send it to. */
  readonly sendTransaction: null | ((transaction: Transaction) => Promise<string>);
}

export interface Transaction {
  from: string;
  to: string;
  data: string;
  chainId: number;
}

let current: Signer | null = null;

/** The signer of this tab's sign-in, for later signatures; a reload forgets it. */
export const currentSigner = () => current;
export function keepSigner(signer: Signer | null) {
  current = signer;
}
