// Dialogs: a question with its consequences, and an answer in place if it is refused.

import { Dialog as Base } from "@base-ui/react/dialog";
import type { ReactNode } from "react";
import { useState } from "react";
import { Button, IconButton, ProblemNote } from "./basics";

export function Dialog({
  isOpen,
  onClose,
  title,
  children,
  wide = false,
}: {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  wide?: boolean;
}) {
  return (
    <Base.Root
      open={isOpen}
      onOpenChange={(open) => {
        if (!open) onClose();
      }}
    >
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-[rgb(20_15_10/0.5)]" />
        <Base.Popup
          className={`sheet fixed inset-x-3 top-[8vh] z-50 mx-auto max-h-[84vh] overflow-y-auto p-5 shadow-2xl ${wide ? "max-w-3xl" : "max-w-lg"}`}
        >
          <div className="mb-3 flex items-start justify-between gap-3">
            <Base.Title className="text-lg font-semibold">{title}</Base.Title>
            <Base.Close render={<IconButton icon="close" label="Close" className="-mt-1 -mr-1" />} />
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** Asks before something that cannot be taken back. The action's refusal is shown in the dialog. */
export function Confirm({
  isOpen,
  onClose,
  title,
  action,
  run,
  children,
  isAlarming = false,
}: {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  action: string;
  run: () => Promise<unknown>;
  children?: ReactNode;
  isAlarming?: boolean;
}) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const close = () => {
    setError(null);
    onClose();
  };
  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      await run();
      close();
    } catch (refusal) {
      setError(refusal);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog isOpen={isOpen} onClose={close} title={title}>
      <div className="text-sm">{children}</div>
      <ProblemNote error={error} />
      <div className="mt-5 flex flex-wrap justify-end gap-2">
        <Button onClick={close}>Back</Button>
        <Button weight={isAlarming ? "alarm" : "main"} disabled={isBusy} onClick={() => void confirm()}>
          {isBusy ? "One moment …" : action}
        </Button>
      </div>
    </Dialog>
  );
}
