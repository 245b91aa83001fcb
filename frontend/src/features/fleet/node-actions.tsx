import { ActionIcon, Menu, Text } from "@mantine/core";
import { IconBan, IconDots, IconDroplet, IconPlayerPlay, IconTag, IconTrash } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";
import type { NodeView } from "@/generated/contracts";
import { plural } from "@/lib/format";
import { OperateDialog } from "@/operate/operate-dialog";
import { LabelsDialog } from "./labels-dialog";
import { actionsOf, type NodeAction } from "./node-states";

interface Shown {
  readonly label: string;
  readonly icon: ReactNode;
  readonly what: (node: NodeView) => string;
  readonly hasPreview?: boolean;
  readonly isDangerous?: boolean;
}

const SHOWN: Readonly<Record<NodeAction, Shown>> = {
  cordon: {
    label: "Cordon",
    icon: <IconBan size={16} />,
    what: () => "It is given nothing new. What it runs stays.",
  },
  uncordon: {
    label: "Uncordon",
    icon: <IconPlayerPlay size={16} />,
    what: () => "It may be given workers again.",
  },
  drain: {
    label: "Drain",
    icon: <IconDroplet size={16} />,
    what: (node) =>
      `${plural(node.workers, "worker")} move elsewhere where there is room, or finish what they have. ` +
      "Nothing new comes here. It can be taken back while workers are left.",
    hasPreview: true,
  },
  retire: {
    label: "Retire",
    icon: <IconTrash size={16} />,
    what: () =>
      "Final: its credentials are void at once, and what it runs counts as gone. Drain it first, or answers are cut. " +
      "The machine may join again as a new node.",
    hasPreview: true,
    isDangerous: true,
  },
};

/** What can be done with a node, each asked before. */
export function NodeMenu({ node }: { readonly node: NodeView }) {
  const [doing, setDoing] = useState<NodeAction | "label" | null>(null);
  const actions = actionsOf(node);
  const close = (): void => setDoing(null);
  if (actions.length === 0) return null;
  return (
    <>
      <Menu position="bottom-end" width={190}>
        <Menu.Target>
          <ActionIcon variant="default" size="lg" aria-label={`More about ${node.name}`}>
            <IconDots size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {actions.map((action) => (
            <Menu.Item
              key={action}
              leftSection={SHOWN[action].icon}
              onClick={() => setDoing(action)}
              {...(SHOWN[action].isDangerous === true ? { color: "red" } : {})}
            >
              {SHOWN[action].label}
            </Menu.Item>
          ))}
          <Menu.Divider />
          <Menu.Item leftSection={<IconTag size={16} />} onClick={() => setDoing("label")}>
            Labels
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {actions.map((action) => (
        <OperateDialog
          key={action}
          opened={doing === action}
          onClose={close}
          title={`${SHOWN[action].label} ${node.name}`}
          ask={{ method: "POST", path: `/nodes/${encodeURIComponent(node.id)}/${action}` }}
          confirm={SHOWN[action].label}
          refused={`${node.name} stays as it was`}
          hasPreview={SHOWN[action].hasPreview ?? false}
          isDangerous={SHOWN[action].isDangerous ?? false}
          testId={`${action}-dialog`}
        >
          <Text size="sm">{SHOWN[action].what(node)}</Text>
        </OperateDialog>
      ))}
      <LabelsDialog opened={doing === "label"} node={node} onClose={close} />
    </>
  );
}
