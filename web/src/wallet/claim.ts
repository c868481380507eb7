// The transaction that claims rewards. Anyone may send it; the contract pays the account.

import { encodeFunctionData, parseAbi } from "viem/utils";
import type { Schemas } from "../api/client";
import type { Signer } from "./signer";

const ABI = parseAbi([
  "function claim(address account, uint256 cumulative, bytes32 expected_root, bytes32[] proof) returns (uint256)",
]);

type Hex = `0x${string}`;

/** Sends it with the wallet, and returns the hash of the transaction. */
export async function claim(signer: Signer, proof: Schemas["ClaimProof"]): Promise<string> {
  if (signer.sendTransaction === null) throw new Error("This signer sends no transactions.");
  const { address } = await signer.connect();
  const data = encodeFunctionData({
    abi: ABI,
    functionName: "claim",
    args: [proof.account as Hex, BigInt(proof.cumulative_units), proof.root as Hex, proof.proof as Hex[]],
  });
  return signer.sendTransaction({ from: address, to: proof.contract, data, chainId: proof.chain_id });
}
