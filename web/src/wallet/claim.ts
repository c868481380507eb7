// The transaction that claims rewards. The contract pays the account.

import { encodeFunctionData, parseAbi } from "viem/utils";
import { type Schemas, api, value } from "../api/client";
import { Problem } from "../api/problem";
import type { Signer } from "./signer";

const ABI = parseAbi([
  "function claim(address account, uint256 cumulative, bytes32 expected_root, bytes32[] proof) returns (uint256)",
]);

type Hex = `0x${string}`;

/** Sends it, and returns the hash of the transaction. */
export async function claim(signer: Signer, proof: Schemas["ClaimProof"]): Promise<string> {
  const { address } = await signer.connect();
  const data = encodeFunctionData({
    abi: ABI,
    functionName: "claim",
    args: [proof.account as Hex, BigInt(proof.cumulative_units), proof.root as Hex, proof.proof as Hex[]],
  });
  if (signer.sendTransaction !== null) {
    return signer.sendTransaction({ from: address, to: proof.contract, data, chainId: proof.chain_id });
  }
  if (signer.signTransaction === null) throw new Error("This signer signs no transactions.");
  if (address.toLowerCase() !== proof.account.toLowerCase()) {
    throw new Problem(`This is the keystore of ${address}.`, `Open that of your account, ${proof.account}.`);
  }
  // The key has no node of its own: the server says what to sign around the claim, and sends it.
  const fees = await value(api.GET("/v1/me/rewards/claim/fees"));
  const transaction = await signer.signTransaction({
    chainId: proof.chain_id,
    to: proof.contract,
    data,
    nonce: fees.nonce,
    gas: BigInt(fees.gas),
    maxFeePerGas: BigInt(fees.max_fee_wei),
    maxPriorityFeePerGas: BigInt(fees.max_tip_wei),
  });
  return (await value(api.POST("/v1/me/rewards/claim", { body: { transaction } }))).transaction_hash;
}
