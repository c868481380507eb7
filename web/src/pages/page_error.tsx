import { ProblemNote } from "../components/basics";

// A new version of the server has new file names: a page that was open before must be loaded again.
export function PageError({ error }: { error: unknown }) {
  return <ProblemNote error={error} retry={() => { window.location.reload(); }} />;
}
