// Hours of the week to paint: press and drag over the cells, or use the keyboard.

import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { DAYS, type Grid, parseHours, writeHours } from "../logic/hours";
import { Button } from "./basics";
import { TextField } from "./field";

const NAMES = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const PRESETS: [string, string][] = [["Always", ""], ["Nights", "18:00-08:00"], ["Nights and weekends", "mon-fri 18:00-08:00, sat, sun"], ["Weekends", "sat-sun"]];

export function WeekGrid({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  const parsed = parseHours(text);
  const [painting, setPainting] = useState<boolean | null>(null);
  const [focus, setFocus] = useState(0);
  const place = useRef<HTMLDivElement>(null);
  const grid: Grid = parsed?.grid ?? Array<boolean>(168).fill(false);
  useEffect(() => {
    const stop = () => { setPainting(null); };
    window.addEventListener("pointerup", stop);
    return () => { window.removeEventListener("pointerup", stop); };
  }, []);
  const paint = (cell: number, open: boolean) => {
    if (grid[cell] === open) return;
    const written = writeHours(grid.map((each, index) => (index === cell ? open : each)));
    if (written !== null) onChange(written);
  };
  const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -24, ArrowDown: 24 };
  const press = (event: KeyboardEvent, cell: number) => {
    const step = steps[event.key];
    if (step !== undefined) {
      const next = Math.max(0, Math.min(167, cell + step));
      setFocus(next);
      place.current?.querySelector<HTMLElement>(`[data-cell="${String(next)}"]`)?.focus();
    } else if (event.key === " " || event.key === "Enter") paint(cell, grid[cell] !== true);
    else return;
    event.preventDefault();
  };
  return (
    <div>
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <p className="text-sm font-medium">Hours, in the machine's own time</p>
        {PRESETS.map(([name, preset]) => <Button key={name} weight="quiet" onClick={() => { onChange(preset); }}>{name}</Button>)}
      </div>
      <div className="-mx-4 overflow-x-auto px-4">
        <div ref={place} role="grid" aria-label="Hours of the week in which it takes tasks" className="grid min-w-[40rem] touch-none gap-px select-none" onPointerLeave={() => { setPainting(null); }}>
          <div aria-hidden className="grid grid-cols-[3rem_repeat(24,minmax(0,1fr))] gap-px text-[0.65rem] text-soft">
            <span />
            {Array.from({ length: 24 }, (_, hour) => <span key={hour}>{hour % 3 === 0 ? hour : ""}</span>)}
          </div>
          {DAYS.map((day, row) => (
            <div key={day} role="row" className="grid grid-cols-[3rem_repeat(24,minmax(0,1fr))] gap-px">
              <span role="rowheader" className="text-xs leading-6 text-soft">{NAMES[row]?.slice(0, 3)}</span>
              {Array.from({ length: 24 }, (_, hour) => {
                const cell = row * 24 + hour;
                return (
                  <div
                    key={hour}
                    role="gridcell"
                    data-cell={cell}
                    tabIndex={cell === focus ? 0 : -1}
                    aria-selected={grid[cell] === true}
                    aria-label={`${NAMES[row] ?? ""} ${String(hour)}:00`}
                    className="h-6 rounded-[3px] bg-sunken aria-selected:bg-accent"
                    onPointerDown={(event) => {
                      event.currentTarget.releasePointerCapture(event.pointerId);
                      setPainting(grid[cell] !== true);
                      paint(cell, grid[cell] !== true);
                    }}
                    onPointerEnter={() => { if (painting !== null) paint(cell, painting); }}
                    onKeyDown={(event) => { press(event, cell); }}
                  />
                );
              })}
            </div>
          ))}
        </div>
      </div>
      <TextField
        fieldClass="mt-3"
        label="As text"
        className="font-mono text-sm"
        placeholder="always"
        value={text}
        problem={parsed === null ? 'Write it like "mon-fri 18:00-08:00, sat, sun 10:00-12:00"; empty means always.' : null}
        hint={parsed?.isExact === false ? "The grid shows whole hours; the text has minutes, which stay until you paint." : "To take no tasks at all, pause the device."}
        onChange={(event) => { onChange(event.target.value); }}
      />
    </div>
  );
}
