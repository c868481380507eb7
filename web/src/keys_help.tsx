// The list of keys.

import { Dialog } from "./components/dialog";
import { PLACES } from "./keys";

export function KeysDialog({ isOpen, close }: { isOpen: boolean; close: () => void }) {
  const rows: [string, string][] = [
    ["/", "Search on this page"],
    ["?", "This list"],
    ["Esc", "Close a dialog"],
    ...Object.entries(PLACES).map(([key, place]): [string, string] => [`g ${key}`, place.text]),
  ];
  return (
    <Dialog isOpen={isOpen} onClose={close} title="Keyboard shortcuts">
      <dl className="grid grid-cols-[max-content_1fr] gap-x-6 gap-y-2">
        {rows.map(([key, text]) => (
          <div key={key} className="contents">
            <dt>
              {key.split(" ").map((each) => (
                <kbd key={each} className="mr-1 rounded border border-strong-line bg-sunken px-1.5 py-0.5 font-mono text-sm">
                  {each}
                </kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
