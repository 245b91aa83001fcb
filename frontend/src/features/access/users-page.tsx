import { ActionIcon, Button, Menu, Paper, Table, Text } from "@mantine/core";
import { IconDots, IconLock, IconPencil, IconPlus, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { Status } from "@/components/status";
import { ago } from "@/lib/format";
import { UserRole } from "@/generated/contracts";
import { useMay } from "@/lib/who";
import { useServerNow } from "@/live/hooks";
import { useUsers, type Person } from "./api/users";
import { Lockouts } from "./lockouts";
import { ROLE_NAME } from "./roles";
import { DeleteUserDialog, PasswordDialog, UserDialog } from "./user-dialogs";

interface Doing {
  readonly what: "change" | "password" | "delete";
  readonly person: Person;
}

/** `?add` in the address opens the dialog. */
export function UsersPage() {
  const isAdmin = useMay(UserRole.ADMIN);
  return isAdmin ? (
    <Users />
  ) : (
    <Page title="Users">
      <Empty icon={<IconLock />} title="This is for administrators">
        Your role does not include people and what they may do.
      </Empty>
    </Page>
  );
}

function Users() {
  const users = useUsers();
  const [params, setParams] = useSearchParams();
  const [doing, setDoing] = useState<Doing | null>(null);
  const subject = (what: Doing["what"]): Person | null => (doing?.what === what ? doing.person : null);
  const close = (): void => setDoing(null);
  const closeForm = (): void => {
    setParams({});
    close();
  };
  return (
    <Page
      title="Users"
      description="People and what they may do: everywhere, or more for single deployments."
      actions={
        <Button leftSection={<IconPlus size={16} />} onClick={() => setParams({ add: "" })}>
          Add a user
        </Button>
      }
    >
      <Lockouts />
      {users.isPending && <Loading rows={1} height={160} />}
      {users.isError && (
        <Failure error={users.error} title="The users can't be shown" onRetry={() => void users.refetch()} />
      )}
      {users.data && <UserTable users={users.data} onDo={setDoing} />}
      <UserDialog subject={params.has("add") ? "new" : subject("change")} onClose={closeForm} />
      <PasswordDialog person={subject("password")} onClose={close} />
      <DeleteUserDialog person={subject("delete")} onClose={close} />
    </Page>
  );
}

interface UserTableProps {
  readonly users: readonly Person[];
  readonly onDo: (doing: Doing) => void;
}

function UserTable({ users, onDo }: UserTableProps) {
  const now = useServerNow(30_000);
  return (
    <Paper>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>User name</Table.Th>
            <Table.Th>Role</Table.Th>
            <Table.Th visibleFrom="sm">State</Table.Th>
            <Table.Th visibleFrom="md">Signs in by</Table.Th>
            <Table.Th visibleFrom="xs">Last login</Table.Th>
            <Table.Th aria-label="Actions" w={60} />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {users.map((person) => (
            <Table.Tr key={person.username} data-testid="user-row" data-user={person.username}>
              <Table.Td>
                <Text size="sm" fw={550}>
                  {person.username}
                </Text>
              </Table.Td>
              <Table.Td>
                {ROLE_NAME[person.role]}
                {Object.entries(person.grants).map(([deployment, role]) => (
                  <Text key={deployment} size="xs" c="dimmed">
                    {ROLE_NAME[role]} of {deployment}
                  </Text>
                ))}
              </Table.Td>
              <Table.Td visibleFrom="sm">
                <Status tone={person.active ? "good" : "busy"}>{person.active ? "Active" : "Switched off"}</Status>
              </Table.Td>
              <Table.Td visibleFrom="md">{waysIn(person)}</Table.Td>
              <Table.Td className="figures" visibleFrom="xs">
                {ago(person.last_login_at, now)}
              </Table.Td>
              <Table.Td ta="right">
                <UserMenu person={person} onDo={onDo} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}

function waysIn({ local, oidc }: Person): string {
  const ways = [local ? "password" : null, oidc ? "identity provider" : null].filter((way) => way !== null);
  return ways.length === 0 ? "no way at present" : ways.join(", ");
}

function UserMenu({ person, onDo }: { readonly person: Person; readonly onDo: (doing: Doing) => void }) {
  return (
    <Menu position="bottom-end" width={210}>
      <Menu.Target>
        <ActionIcon aria-label={`More about ${person.username}`}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<IconPencil size={16} />} onClick={() => onDo({ what: "change", person })}>
          Role and grants
        </Menu.Item>
        <Menu.Item leftSection={<IconLock size={16} />} onClick={() => onDo({ what: "password", person })}>
          Set a new password
        </Menu.Item>
        <Menu.Item color="red" leftSection={<IconTrash size={16} />} onClick={() => onDo({ what: "delete", person })}>
          Delete
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
