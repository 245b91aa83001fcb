import {
  ActionIcon,
  Alert,
  Anchor,
  Badge,
  Button,
  createTheme,
  Drawer,
  Modal,
  NumberInput,
  Paper,
  Select,
  Table,
  Tooltip,
  type MantineColorsTuple,
} from "@mantine/core";

// Colour carries meaning only: warm is prefill, cool is decode, purple is the hand-off between them, green / amber /
// red are states. Everything an operator merely clicks is ink. The stage hues are apart for colour-blind readers too
// (after Okabe and Ito's set).
const ink: MantineColorsTuple = [
  "#f4f5f7",
  "#e6e8ec",
  "#cdd1d9",
  "#adb3bf",
  "#8b93a3",
  "#6b7385",
  "#4f5768",
  "#3a4150",
  "#272c38",
  "#171b24",
];

const dark: MantineColorsTuple = [
  "#e4e7ec",
  "#c2c7d0",
  "#98a0ad",
  "#6d7583",
  "#424954",
  "#2f353e",
  "#20252c",
  "#181c22",
  "#111419",
  "#0b0d11",
];

// A yellow that is no orange: that is prefill's.
const yellow: MantineColorsTuple = [
  "#fdf9e4",
  "#f9f0c3",
  "#f2e190",
  "#ead15a",
  "#e2c22f",
  "#d1ae16",
  "#a98a0b",
  "#876d08",
  "#6b5606",
  "#4f3f04",
];

const DIALOG = { overlayProps: { backgroundOpacity: 0.45 }, closeButtonProps: { "aria-label": "Close" } };
const DIALOG_TITLE = { fontWeight: 620, fontSize: "1.0625rem" };

export const theme = createTheme({
  primaryColor: "ink",
  primaryShade: { light: 8, dark: 4 },
  colors: { ink, dark, yellow },
  fontFamily: "'Inter Variable', system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
  fontFamilyMonospace: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
  defaultRadius: "md",
  cursorType: "pointer",
  headings: {
    fontWeight: "620",
    sizes: {
      h1: { fontSize: "1.5rem", lineHeight: "1.25" },
      h2: { fontSize: "1.0625rem", lineHeight: "1.4" },
      h3: { fontSize: "0.9375rem", lineHeight: "1.4" },
    },
  },
  components: {
    Button: Button.extend({
      defaultProps: { size: "sm" },
      vars: (_, props) =>
        (props.variant === undefined || props.variant === "filled") && props.color === undefined
          ? {
              root: {
                "--button-bg": "var(--action)",
                "--button-hover": "var(--action-hover)",
                "--button-color": "var(--on-action)",
              },
            }
          : { root: {} },
    }),
    ActionIcon: ActionIcon.extend({ defaultProps: { variant: "subtle", color: "gray" } }),
    Alert: Alert.extend({
      vars: (_, props) => {
        const tone = props.color === "red" ? "var(--bad)" : "var(--warn)";
        return {
          root: {
            "--alert-bg": `color-mix(in srgb, ${tone} 8%, var(--mantine-color-body))`,
            "--alert-color": tone,
            "--alert-bd": `1px solid color-mix(in srgb, ${tone} 28%, transparent)`,
          },
        };
      },
    }),
    Anchor: Anchor.extend({ defaultProps: { underline: "always" } }),
    Badge: Badge.extend({ defaultProps: { variant: "light", radius: "sm" } }),
    Paper: Paper.extend({ defaultProps: { withBorder: true } }),
    Modal: Modal.extend({
      defaultProps: { centered: true, ...DIALOG },
      styles: { title: DIALOG_TITLE },
    }),
    Drawer: Drawer.extend({
      defaultProps: { position: "right", ...DIALOG },
      styles: { title: DIALOG_TITLE },
    }),
    NumberInput: NumberInput.extend({ defaultProps: { allowDecimal: false, allowNegative: false } }),
    Select: Select.extend({ defaultProps: { allowDeselect: false, checkIconPosition: "right" } }),
    Table: Table.extend({ defaultProps: { verticalSpacing: "sm", horizontalSpacing: "md" } }),
    Tooltip: Tooltip.extend({ defaultProps: { withArrow: true, openDelay: 250, multiline: true, maw: 320 } }),
  },
});
