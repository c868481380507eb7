// A secret that is shown once.

import { Command } from "./basics";
import { Dialog } from "./dialog";

export function SecretDialog({ title, about, secret, onClose }: { title: string; about: string; secret: string | null; onClose: () => void }) {
  return (
    <Dialog isOpen={secret !== null} onClose={onClose} title={title}>
      <p className="mb-3 text-sm">{about}</p>
      <Command text={secret ?? ""} label="The secret" />
    </Dialog>
  );
}
