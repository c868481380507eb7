// Sign-In with Ethereum (EIP-4361): the server's nonce in a message that the wallet signs.

import { createSiweMessage } from "viem/siwe";
import { getAddress } from "viem/utils";
import { api, value } from "../api/client";
import { Problem } from "../api/problem";
import { signIn } from "../api/session";
import { type Signer, keepSigner } from "./signer";

export async function signInWith(signer: Signer, invite: string, onStep: (text: string) => void) {
  onStep("Choose the account in your wallet.");
  const { address, chainId } = await signer.connect();
  const challenge = await value(api.POST("/v1/auth/challenge"));
  const here = window.location.origin;
  if (!challenge.origins.includes(here)) {
    throw new Problem(
      `This page was opened at ${here}, which is not an address of this server.`,
      `Open ${challenge.origins[0] ?? "the server's own address"} instead.`,
    );
  }
  const now = new Date();
  const message = createSiweMessage({
    address: getAddress(address),
    // The wallet's own chain if the server has it, which a contract wallet needs.
    chainId: challenge.chain_ids.includes(chainId) ? chainId : (challenge.chain_ids[0] ?? 1),
    domain: window.location.host,
    nonce: challenge.nonce,
    uri: here,
    version: "1",
    issuedAt: now,
    expirationTime: new Date(Date.parse(challenge.expires_at)),
    statement: "Sign in to Potluck in this browser.",
  });
  onStep("Check the message in your wallet, then sign it.");
  const signature = await signer.signText(address, message);
  onStep("One moment …");
  await signIn({ message, signature, ...(invite === "" ? {} : { invite }) });
  keepSigner(signer);
}
