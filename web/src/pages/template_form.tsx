// A ready task: its parameters as fields.

import type { Parameter, Template } from "../api/templates";
import { Choice, TextField } from "../components/field";
import type { TaskRequest } from "../logic/request";

/** The template's request with these parameters as arguments, `name=value` as the script reads them. */
export function templateRequest(template: Template, given: Record<string, string>): TaskRequest {
  const { request } = template;
  if (request.spec.kind !== "script") return request;
  const changed = template.parameters.flatMap((parameter) => {
    const text = given[parameter.name] ?? "";
    return text.trim() === "" ? [] : [`${parameter.name}=${text.trim()}`];
  });
  return { ...request, spec: { ...request.spec, arguments: [...(request.spec.arguments ?? []), ...changed] } };
}

export function TemplateForm({
  templates,
  template,
  choose,
  parameters,
  change,
}: {
  templates: Template[];
  template: Template;
  choose: (name: string) => void;
  parameters: Record<string, string>;
  change: (name: string, text: string) => void;
}) {
  return (
    <div className="grid gap-4">
      <Choice label="Template" value={template.name} options={templates.map((each) => [each.name, each.name])} hint={template.summary} onChange={(event) => { choose(event.target.value); }} />
      <div className="grid gap-3 sm:grid-cols-2">
        {template.parameters.map((parameter) => (
          <TextField
            key={parameter.name}
            label={parameter.name}
            hint={`${parameter.help}${range(parameter)}`}
            placeholder={parameter.default === null ? "" : String(parameter.default)}
            value={parameters[parameter.name] ?? ""}
            onChange={(event) => { change(parameter.name, event.target.value); }}
          />
        ))}
      </div>
    </div>
  );
}

function range({ minimum, maximum }: Parameter): string {
  if (minimum === null || maximum === null) return "";
  return ` From ${minimum.toLocaleString()} to ${maximum.toLocaleString()}.`;
}
