import { expect, test } from "vitest";
import { folderFiles, packFolder } from "../src/logic/folder";

const folder = (files: Record<string, string>) => new Map(Object.entries(files).map(([path, text]) => [path, new File([text], path)]));

test("what a .gitignore excludes is left out, as on the command line", async () => {
  const chosen = folder({
    ".gitignore": "*.log\n/build/\ndata/*\n!data/keep.csv\n",
    "train.py": "", "a.log": "", "src/b.log": "", "build/x.o": "", "src/build/y.o": "",
    "data/big.csv": "", "data/keep.csv": "", "src/.gitignore": "!b.log\nsecret.*\n", "src/secret.txt": "", "secret.txt": "",
    ".git/config": "", "src/__pycache__/m.pyc": "",
  });
  expect([...(await folderFiles(chosen)).keys()]).toEqual([".gitignore", "data/keep.csv", "secret.txt", "src/.gitignore", "src/b.log", "src/build/y.o", "train.py"]);
});

test("an archive has whole blocks, and its directories come first", async () => {
  const bytes = new Uint8Array(await packFolder(folder({ "src/a.py": "print()" })).arrayBuffer());
  const text = new TextDecoder().decode(bytes);
  expect(bytes.length).toBe(5 * 512);
  expect([text.slice(0, 4), text.slice(156, 157), text.slice(512, 520), text.slice(1024, 1031)]).toEqual(["src/", "5", "src/a.py", "print()"]);
});
