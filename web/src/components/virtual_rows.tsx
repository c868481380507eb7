// Rows of a long list: only those near the window are in the page, and pages come as they are
// reached. The window scrolls, so that find-in-page, the keyboard and phones work as everywhere.

import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { Button } from "./basics";

/** The headings of a list on a wide screen; on a phone its rows have fewer columns, and none. */
export function ListHead({ columns, names, right = [] }: { columns: string; names: readonly string[]; right?: readonly string[] }) {
  return (
    <div role="rowgroup" className="hidden border-b border-line bg-sunken text-xs text-soft lg:block">
      <div role="row" className={`${columns} min-h-9`}>
        {names.map((name) => <span key={name} role="columnheader" className={right.includes(name) ? "text-right" : ""}>{name}</span>)}
      </div>
    </div>
  );
}

export function VirtualRows<T>({
  items,
  keyOf,
  height,
  children,
  label,
  head,
  hasMore = false,
  isLoadingMore = false,
  loadMore,
}: {
  items: readonly T[];
  keyOf: (item: T) => string;
  height: number;
  children: (item: T, index: number) => ReactNode;
  label: string;
  head?: ReactNode;
  hasMore?: boolean;
  isLoadingMore?: boolean;
  loadMore?: () => void;
}) {
  const place = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const isEmpty = items.length === 0;
  useLayoutEffect(() => {
    const top = place.current?.getBoundingClientRect().top ?? 0;
    setMargin(top + window.scrollY);
  }, [isEmpty]);
  const rows = useWindowVirtualizer({
    count: items.length,
    estimateSize: () => height,
    overscan: 12,
    scrollMargin: margin,
    getItemKey: (index) => keyOf(items[index] as T),
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && !isLoadingMore && last >= items.length - 25) loadMore?.();
  }, [hasMore, isLoadingMore, last, items.length, loadMore]);
  return (
    <div role="table" aria-label={label} aria-rowcount={hasMore ? -1 : items.length} className="sheet overflow-clip">
      {head}
      <div ref={place} role="rowgroup" className="relative" style={{ height: rows.getTotalSize() }}>
        {shown.map((row) => (
          <div
            key={row.key}
            role="row"
            aria-rowindex={row.index + 1}
            className="absolute inset-x-0 top-0 border-line not-first:border-t"
            style={{ height, transform: `translateY(${String(row.start - margin)}px)` }}
          >
            {children(items[row.index] as T, row.index)}
          </div>
        ))}
      </div>
      {hasMore && (
        <div className="border-t border-line p-2 text-center">
          <Button weight="quiet" disabled={isLoadingMore} onClick={loadMore}>
            {isLoadingMore ? "Loading more …" : "Load more"}
          </Button>
        </div>
      )}
    </div>
  );
}
