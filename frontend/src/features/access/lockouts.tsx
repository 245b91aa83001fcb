import { Alert, Button, Group, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconLock } from "@tabler/icons-react";
import { messageOf } from "@/lib/api";
import { dateTime, plural } from "@/lib/format";
import { useLockouts, useUnlock, type Lockout } from "./api/users";

/** Names and addresses whose logins are refused now. Nothing while there are none. */
export function Lockouts() {
  const lockouts = useLockouts();
  if (lockouts.data === undefined || lockouts.data.length === 0) return null;
  return (
    <Alert color="yellow" icon={<IconLock />} title="Logins that are refused after too many failures">
      {lockouts.data.map((lockout) => (
        <One key={lockout.subject + lockout.value} lockout={lockout} />
      ))}
    </Alert>
  );
}

function One({ lockout }: { readonly lockout: Lockout }) {
  const unlock = useUnlock();
  const free = (): void =>
    unlock.mutate(lockout, {
      onSuccess: () => notifications.show({ message: `${lockout.value} may try again.` }),
      onError: (error) => notifications.show({ color: "red", title: "Not unlocked", message: messageOf(error) }),
    });
  return (
    <Group justify="space-between" gap="sm" mt={6}>
      <Text size="sm" className="figures">
        {lockout.subject === "name" ? "User" : "Address"} <b>{lockout.value}</b>: {plural(lockout.failures, "failure")},
        until {dateTime(lockout.until)}
      </Text>
      <Button size="xs" variant="default" loading={unlock.isPending} onClick={free}>
        Unlock
      </Button>
    </Group>
  );
}
