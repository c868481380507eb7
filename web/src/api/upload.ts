// Files for a task: hashed here, sent in parts, and skipped if the account has them already.

import { type Schemas, api, authorisedFetch, value } from "./client";
import { problemOf } from "./problem";

export async function upload(path: string, content: Blob): Promise<Schemas["NamedFile"]> {
  const blob = { sha256: await hash(content), size_bytes: content.size };
  const begun = await value(api.POST("/v1/uploads", { body: { blob } }));
  if (!begun.complete) {
    for (let number = begun.parts_done; number * begun.part_bytes < content.size; number += 1) {
      await sendPart(begun, number, content);
    }
    await value(api.POST("/v1/uploads/{upload_id}/finish", { params: { path: { upload_id: begun.upload_id } } }));
  }
  return { path, blob };
}

/** The folder as an archive, without what its `.gitignore` excludes. */
export async function uploadFolder(chosen: readonly File[]): Promise<Schemas["NamedFile"]["blob"]> {
  const { folderFiles, packFolder } = await import("../logic/folder");
  const named = new Map(chosen.map((file) => [file.webkitRelativePath.replace(/^[^/]*\//, ""), file]));
  return (await upload("folder.tar", packFolder(await folderFiles(named)))).blob;
}

async function sendPart(begun: Schemas["Upload"], number: number, content: Blob) {
  const start = number * begun.part_bytes;
  const answer = await authorisedFetch(
    new Request(`/v1/uploads/${begun.upload_id}/parts/${String(number)}`, {
      method: "PUT",
      headers: { "Content-Type": "application/octet-stream" },
      body: content.slice(start, start + begun.part_bytes),
      credentials: "omit",
    }),
  );
  if (!answer.ok) throw problemOf(await answer.json().catch(() => null), answer.status);
}

// The browser's own hash needs HTTPS or this machine; elsewhere a script does it.
async function hash(content: Blob): Promise<string> {
  const data = new Uint8Array(await content.arrayBuffer());
  if (window.isSecureContext) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  const { sha256 } = await import("viem/utils");
  return sha256(data).slice(2);
}
