import { Button, Group, Modal, PasswordInput, Select, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useState, type ReactNode } from "react";
import { Failure } from "@/components/states";
import { UserRole } from "@/generated/contracts";
import { useWriteUser, type Person } from "./api/users";
import { GrantsInput } from "./grants-input";
import { ROLE_OPTIONS } from "./roles";

interface UserDialogProps {
  /** Whose role to change; "new" adds somebody; null is closed. */
  readonly subject: Person | "new" | null;
  readonly onClose: () => void;
}

export function UserDialog({ subject, onClose }: UserDialogProps) {
  return (
    <Modal
      opened={subject !== null}
      onClose={onClose}
      title={subject === "new" ? "Add a user" : `Role and grants of ${subject?.username ?? ""}`}
      data-testid="user-dialog"
    >
      {subject !== null && <UserForm person={subject === "new" ? null : subject} onClose={onClose} />}
    </Modal>
  );
}

interface Values {
  readonly username: string;
  readonly password: string;
  readonly role: UserRole;
  readonly grants: Readonly<Record<string, UserRole>>;
  readonly active: boolean;
}

function UserForm({ person, onClose }: { readonly person: Person | null; readonly onClose: () => void }) {
  const write = useWriteUser();
  const form = useForm<Values>({
    initialValues: {
      username: person?.username ?? "",
      password: "",
      role: person?.role ?? UserRole.VIEWER,
      grants: person?.grants ?? {},
      active: person?.active ?? true,
    },
    validate: {
      username: (value) => (value.trim() === "" ? "Enter a user name" : null),
      password: (value) => (person === null && value === "" ? "Enter a first password" : null),
    },
  });
  const submit = ({ username, password, role, grants, active }: Values): void =>
    write.mutate(
      person === null
        ? { method: "POST", username: null, body: { username: username.trim(), password, role, grants } }
        : { method: "PATCH", username: person.username, body: { role, grants, active } },
      { onSuccess: onClose },
    );
  return (
    <form onSubmit={form.onSubmit(submit)} noValidate>
      <Stack gap="md">
        {person === null && (
          <>
            <TextInput label="User name" autoComplete="off" data-autofocus {...form.getInputProps("username")} />
            <PasswordInput
              label="First password"
              description="Its owner can change it"
              autoComplete="new-password"
              {...form.getInputProps("password")}
            />
          </>
        )}
        <Select label="Role everywhere" data={ROLE_OPTIONS} {...form.getInputProps("role")} />
        <GrantsInput
          everywhere={form.values.role}
          value={form.values.grants}
          onChange={(grants) => form.setFieldValue("grants", grants)}
        />
        {person !== null && (
          <Switch
            label="May sign in"
            description="Off: signed out everywhere, and all tokens stop"
            {...form.getInputProps("active", { type: "checkbox" })}
          />
        )}
        {write.isError && (
          <Failure error={write.error} title={person === null ? "Nobody was added" : "Nothing was changed"} />
        )}
        <Buttons confirm={person === null ? "Add" : "Change"} isPending={write.isPending} onClose={onClose} />
      </Stack>
    </form>
  );
}

interface PersonDialogProps {
  readonly person: Person | null;
  readonly onClose: () => void;
}

export function PasswordDialog({ person, onClose }: PersonDialogProps) {
  const [password, setPassword] = useState("");
  const write = useWriteUser();
  const close = (): void => {
    setPassword("");
    write.reset();
    onClose();
  };
  return (
    <PersonDialog
      title={`New password for ${person?.username ?? ""}`}
      person={person}
      onClose={close}
      onConfirm={({ username }) =>
        write.mutate(
          { method: "PUT", username, password: true, body: { password } },
          {
            onSuccess: () => {
              notifications.show({ message: `${username} has a new password.` });
              close();
            },
          },
        )
      }
    >
      <PasswordInput
        label="Password"
        description="They are signed out everywhere, and can change it"
        autoComplete="new-password"
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
        data-autofocus
      />
      {write.isError && <Failure error={write.error} title="The password was not set" />}
      <Buttons confirm="Set it" isPending={write.isPending} onClose={close} />
    </PersonDialog>
  );
}

export function DeleteUserDialog({ person, onClose }: PersonDialogProps) {
  const write = useWriteUser();
  const close = (): void => {
    write.reset();
    onClose();
  };
  return (
    <PersonDialog
      title={`Delete ${person?.username ?? ""}`}
      person={person}
      onClose={close}
      onConfirm={({ username }) => write.mutate({ method: "DELETE", username }, { onSuccess: close })}
    >
      <Text size="sm">
        Their sessions and tokens end at once. What they did stays in the audit trail under their name.
      </Text>
      {write.isError && <Failure error={write.error} title="The user was not deleted" />}
      <Buttons confirm="Delete" isDangerous isPending={write.isPending} onClose={close} />
    </PersonDialog>
  );
}

interface FrameProps extends PersonDialogProps {
  readonly title: string;
  readonly onConfirm: (person: Person) => void;
  readonly children: ReactNode;
}

function PersonDialog({ title, person, onClose, onConfirm, children }: FrameProps) {
  return (
    <Modal opened={person !== null} onClose={onClose} title={title}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (person !== null) onConfirm(person);
        }}
      >
        <Stack gap="md">{children}</Stack>
      </form>
    </Modal>
  );
}

interface ButtonsProps {
  readonly confirm: string;
  readonly isDangerous?: boolean;
  readonly isPending: boolean;
  readonly onClose: () => void;
}

function Buttons({ confirm, isDangerous = false, isPending, onClose }: ButtonsProps) {
  return (
    <Group justify="flex-end" gap="xs">
      <Button variant="default" onClick={onClose}>
        Cancel
      </Button>
      <Button type="submit" loading={isPending} {...(isDangerous ? { color: "red" } : {})}>
        {confirm}
      </Button>
    </Group>
  );
}
