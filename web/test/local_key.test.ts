import { expect, test } from "vitest";
import { makeWallet, openWallet } from "../src/wallet/local_key";

const PASSWORD = "a long password";
// As the command line writes it: scrypt with r=8 and p=1, here with fewer rounds.
const FROM_COMMAND_LINE = `{"address": "19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A", "crypto": {"cipher": "aes-128-ctr", "cipherparams": {"iv": "690d560f75424193a5c5235ef53b6b84"}, "ciphertext": "d96ab3bbb149c72debb295dde880ab6d8bce84377227a09ac8d79949f5813994", "kdf": "scrypt", "kdfparams": {"dklen": 32, "n": 4096, "r": 8, "p": 1, "salt": "9ff9d3e39eb8ce6e37d6d82c5d4212a7"}, "mac": "9467eb885019bb25481c1efd8b14ff45160c68df3a830fc2987036289e1767c8"}, "id": "a876c33b-fab8-4e04-9e24-6ff3e61ad2d6", "version": 3}`;

test("a keystore of the command line opens", async () => {
  const wallet = await openWallet(FROM_COMMAND_LINE, PASSWORD);
  expect((await wallet.connect()).address).toBe("0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A");
});

test("a keystore that was made here opens", async () => {
  const made = await makeWallet(PASSWORD);
  const wallet = await openWallet(made.file.text, PASSWORD);
  expect((await wallet.connect()).address).toBe(made.address);
});

test("a wrong password, and a file that is no keystore", async () => {
  await expect(openWallet(FROM_COMMAND_LINE, "another one")).rejects.toThrow("does not open this keystore");
  await expect(openWallet("{}", PASSWORD)).rejects.toThrow("not a keystore");
});
