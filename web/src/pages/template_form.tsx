// A ready task: its parameters as fields, and its files.

import type { Template } from "../api/templates";
import { upload } from "../api/upload";
import { Choice, TextField } from "../components/field";
import type { TaskRequest } from "../logic/request";
import { defaults, withParameters } from "../logic/template";

/** The template's request with these parameters; its files are not uploaded yet. */
export function templateRequest(template: Template, given: Record<string, string>): TaskRequest {
  const { spec } = template.request;
  const request = template.request as TaskRequest;
  if (spec.kind !== "script") return request;
  return { ...request, spec: { ...spec, arguments: withParameters(spec.arguments, given) } as TaskRequest["spec"] };
}

/** The same with its files uploaded, as a task needs them. */
export async function withFiles(request: TaskRequest, template: Template): Promise<TaskRequest> {
  if (template.files.length === 0 || request.spec.kind !== "script") return request;
  const files = await Promise.all(template.files.map((file) => upload(file.path, new Blob([file.text]))));
  return { ...request, spec: { ...request.spec, files } };
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
  const usual = template.request.spec.kind === "script" ? defaults(template.request.spec.arguments) : {};
  return (
    <div className="grid grid-cols-1 gap-4">
      <Choice label="Template" value={template.name} options={templates.map((each) => [each.name, each.name])} hint={template.summary} onChange={(event) => { choose(event.target.value); }} />
      <div className="grid gap-3 sm:grid-cols-2">
        {template.parameters.map((parameter) =>
          parameter.choices.length > 0 ? (
            <Choice key={parameter.name} label={parameter.name} hint={parameter.help} value={parameters[parameter.name] ?? usual[parameter.name] ?? ""} options={parameter.choices.map((each) => [each, each])} onChange={(event) => { change(parameter.name, event.target.value); }} />
          ) : (
            <TextField
              key={parameter.name}
              label={parameter.name}
              hint={`${parameter.help}${range(parameter)}`}
              placeholder={usual[parameter.name] ?? ""}
              value={parameters[parameter.name] ?? ""}
              onChange={(event) => { change(parameter.name, event.target.value); }}
            />
          ),
        )}
      </div>
    </div>
  );
}

function range({ minimum, maximum }: Template["parameters"][number]): string {
  if (minimum === null || maximum === null) return "";
  return ` From ${minimum.toLocaleString()} to ${maximum.toLocaleString()}.`;
}
