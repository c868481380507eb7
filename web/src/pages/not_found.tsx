import { Empty, LinkButton } from "../components/basics";

export const NotFoundPage = () => (
  <Empty title="There is no page at this address." action={<LinkButton to="/">Go to the start</LinkButton>}>
    The link may be old, or mistyped.
  </Empty>
);
