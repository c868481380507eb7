// Views that were saved on a page: choose one, save the current one, remove one.

import { Link, useLocation } from "@tanstack/react-router";
import { Suspense, lazy, useState } from "react";
import { useViews } from "../api/views";
import { Button, IconButton, ProblemNote } from "./basics";
import { TextField } from "./field";

const Dialog = lazy(() => import("./dialog").then((module) => ({ default: module.Dialog })));

export function SavedViews({ page, to, isFiltered }: { page: string; to: "/tasks" | "/market"; isFiltered: boolean }) {
  const { views, save, remove } = useViews(page);
  const query = useLocation({ select: (location) => location.searchStr.replace(/^\?/, "") });
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState("");
  const [error, setError] = useState<unknown>(null);
  const keep = async () => {
    setError(null);
    try {
      await save(name.trim(), query);
      setOpen(false);
      setName("");
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <>
      {views.map((view) => (
        <span key={view.name} className={`inline-flex items-center rounded-lg border bg-sheet text-sm ${view.query === query ? "border-accent" : "border-line"}`}>
          <Link to={to} search={Object.fromEntries(new URLSearchParams(view.query)) as never} className="px-3 py-1.5 hover:text-accent">
            {view.name}
          </Link>
          <IconButton icon="close" label={`Remove the view ${view.name}`} className="size-8!" onClick={() => { remove(view.name).catch(setError); }} />
        </span>
      ))}
      {isFiltered && !views.some((view) => view.query === query) && (
        <Button weight="quiet" icon="plus" onClick={() => { setOpen(true); }}>
          Save this view
        </Button>
      )}
      {!isOpen && <ProblemNote error={error} />}
      {isOpen && <Suspense><Dialog isOpen onClose={() => { setOpen(false); }} title="Save this view">
        <form onSubmit={(event) => { event.preventDefault(); void keep(); }} className="grid grid-cols-1 gap-3">
          <TextField label="Name" maxLength={60} value={name} onChange={(event) => { setName(event.target.value); }} />
          <ProblemNote error={error} />
          <Button type="submit" weight="main" disabled={name.trim() === ""}>Save</Button>
        </form>
      </Dialog></Suspense>}
    </>
  );
}
