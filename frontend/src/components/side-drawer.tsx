import { Drawer, type DrawerProps } from "@mantine/core";

/** A drawer from which dialogs are opened: Escape closes the dialog on top and leaves the drawer open. */
export function SideDrawer({ onClose, ...props }: DrawerProps) {
  return (
    <Drawer
      {...props}
      onClose={onClose}
      closeOnEscape={false}
      onKeyDown={(event) => {
        const from = event.target as Element;
        // Keys that are pressed in a dialog come here, too, since it belongs to what is in the drawer.
        const isOurs = from.closest('[role="dialog"]') === event.currentTarget.querySelector('[role="dialog"]');
        const isTaken = from.getAttribute("data-mantine-stop-propagation") === "true" || event.nativeEvent.isComposing;
        if (event.key === "Escape" && isOurs && !isTaken) onClose();
      }}
    />
  );
}
