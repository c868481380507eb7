import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist", "src/api/schema.d.ts", "*.config.*", "scripts"] },
  tseslint.configs.strict,
  {
    files: ["src/**/*.{ts,tsx}", "test/**/*.ts"],
    plugins: { "react-hooks": hooks },
    rules: {
      ...hooks.configs.recommended.rules,
      "react-hooks/incompatible-library": "off",
      "no-console": "error",
      // Text of users and providers is only ever rendered as text, and nothing is stored in the
      // browser.
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Render text as text." },
        { selector: "MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML)$/]", message: "Render text as text." },
        { selector: "CallExpression[callee.property.name='write'][callee.object.name='document']", message: "Render text as text." },
      ],
      "no-restricted-globals": ["error", "localStorage", "sessionStorage", "indexedDB", "eval"],
      "no-implied-eval": "error",
    },
  },
);
