import { ActionIcon, Group, Input, Select, Stack, Text } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { UserRole } from "@/generated/contracts";
import { useDeployments } from "@/live/hooks";
import { ROLE_NAME } from "./roles";

type Grants = Readonly<Record<string, UserRole>>;

interface GrantsInputProps {
  readonly everywhere: UserRole;
  readonly value: Grants;
  readonly onChange: (grants: Grants) => void;
}

const GRANTABLE = [UserRole.OPERATOR, UserRole.ADMIN].map((role) => ({ value: role, label: ROLE_NAME[role] }));

/** Higher roles for single deployments. */
export function GrantsInput({ everywhere, value, onChange }: GrantsInputProps) {
  const deployments = useDeployments();
  const free = deployments.map((one) => one.name).filter((name) => !(name in value));
  const without = (name: string): Grants => Object.fromEntries(Object.entries(value).filter(([at]) => at !== name));
  return (
    <Input.Wrapper label="More on single deployments" description="Counts where it is higher than the role everywhere">
      <Stack gap="xs" mt={6}>
        {Object.entries(value).map(([name, role]) => (
          <Group key={name} gap="xs" wrap="nowrap">
            <Text size="sm" flex={1} truncate>
              {name}
            </Text>
            <Select
              aria-label={`Role on ${name}`}
              data={GRANTABLE}
              value={role}
              onChange={(next) => next !== null && onChange({ ...value, [name]: next })}
              w={130}
            />
            <ActionIcon aria-label={`Take back the role on ${name}`} onClick={() => onChange(without(name))}>
              <IconTrash size={16} />
            </ActionIcon>
          </Group>
        ))}
        <Select
          aria-label="Grant a role on a deployment"
          placeholder={free.length === 0 ? "No other deployment" : "Add a deployment"}
          data={free}
          value={null}
          disabled={free.length === 0 || everywhere === UserRole.ADMIN}
          onChange={(name) => name !== null && onChange({ ...value, [name]: UserRole.OPERATOR })}
        />
      </Stack>
    </Input.Wrapper>
  );
}
