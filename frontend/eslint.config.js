import { readdirSync } from "node:fs";
import reactHooks from "eslint-plugin-react-hooks";
import globals from "globals";
import tseslint from "typescript-eslint";

// Layers, each may import only what stands to its right:
//   app > features/<one> > operate > components | live > lib > generated
const features = readdirSync(new URL("./src/features", import.meta.url));

const noParents = { group: ["../*"], message: "Import across folders by '@/...', so that layers can be checked." };

function layer(files, forbidden) {
  return {
    files,
    ignores: ["**/*.test.{ts,tsx}"],
    rules: {
      "no-restricted-imports": [
        "error",
        {
          patterns: [noParents, ...forbidden.map((group) => ({ group, message: "This layer may not know that one." }))],
        },
      ],
    },
  };
}

export default tseslint.config(
  { ignores: ["dist", "node_modules", "src/generated", "*.config.js"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      globals: { ...globals.browser },
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
  },
  reactHooks.configs.flat["recommended-latest"],
  {
    rules: {
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
    },
  },
  layer(["src/app/**"], []),
  ...features.map((feature) =>
    layer(
      [`src/features/${feature}/**`],
      [["@/app/*"], ...features.filter((other) => other !== feature).map((other) => [`@/features/${other}/*`])],
    ),
  ),
  layer(["src/operate/**"], [["@/app/*"], ["@/features/*"]]),
  layer(["src/components/**"], [["@/app/*"], ["@/features/*"], ["@/operate/*"], ["@/live/*"]]),
  layer(["src/live/**"], [["@/app/*"], ["@/features/*"], ["@/operate/*"], ["@/components/*"]]),
  layer(["src/lib/**"], [["@/app/*"], ["@/features/*"], ["@/operate/*"], ["@/components/*"], ["@/live/*"]]),
);
