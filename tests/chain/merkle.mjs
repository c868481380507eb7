// OpenZeppelin's tree of the leaves on stdin, and whether it accepts the proofs that come with them.
import { StandardMerkleTree } from "@openzeppelin/merkle-tree";
import { readFileSync } from "node:fs";

const { types, leaves, asked, root, proofs } = JSON.parse(readFileSync(0, "utf8"));
const tree = StandardMerkleTree.of(leaves, types);
const answer = {
  root: tree.root,
  proofs: asked.map((index) => tree.getProof(index)),
  accepted: asked.map((index, place) =>
    StandardMerkleTree.verify(root, types, leaves[index], proofs[place]),
  ),
};
process.stdout.write(JSON.stringify(answer));
