import { Button, Group, Menu, Paper, Table, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconClipboardList, IconDownload, IconLock, IconSearch } from "@tabler/icons-react";
import { useState } from "react";
import { Page } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { UserRole, type AuditEntryView } from "@/generated/contracts";
import { dateTime } from "@/lib/format";
import { useMay } from "@/lib/who";
import { exportUrl, useAudit, type AuditFilters } from "./api/search-audit";
import classes from "./audit.module.css";
import { changesOf } from "./changes";

const ALL: AuditFilters = { text: "", actor: "", action: "", since: "", until: "" };

export function AuditPage() {
  const isAdmin = useMay(UserRole.ADMIN);
  return isAdmin ? (
    <Audit />
  ) : (
    <Page title="Audit">
      <Empty icon={<IconLock />} title="This is for administrators">
        Your role does not include the audit trail.
      </Empty>
    </Page>
  );
}

function Audit() {
  const [filters, setFilters] = useState(ALL);
  const [settled] = useDebouncedValue(filters, 300);
  const audit = useAudit(settled);
  const entries = audit.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Page
      title="Audit"
      description="Every change that went through: who, from where, what was there before and after. Entries are never changed or removed."
      actions={<Export filters={settled} />}
    >
      <FilterBar filters={filters} onChange={setFilters} />
      {audit.isPending && <Loading rows={1} height={240} />}
      {audit.isError && (
        <Failure error={audit.error} title="The audit trail can't be shown" onRetry={() => void audit.refetch()} />
      )}
      {audit.isSuccess && entries.length === 0 && (
        <Empty icon={<IconClipboardList />} title="No entry is like that">
          Take a filter away to see more.
        </Empty>
      )}
      {entries.length > 0 && <Entries entries={entries} />}
      {audit.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
            Show older ones
          </Button>
        </Group>
      )}
    </Page>
  );
}

function Export({ filters }: { readonly filters: AuditFilters }) {
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" leftSection={<IconDownload size={16} />}>
          Export
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component="a" href={exportUrl(filters, "csv")} download>
          As CSV
        </Menu.Item>
        <Menu.Item component="a" href={exportUrl(filters, "jsonl")} download>
          As JSON, one entry a line
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

interface FilterBarProps {
  readonly filters: AuditFilters;
  readonly onChange: (filters: AuditFilters) => void;
}

function FilterBar({ filters, onChange }: FilterBarProps) {
  const field = (name: keyof AuditFilters) => ({
    value: filters[name],
    onChange: (event: React.ChangeEvent<HTMLInputElement>) =>
      onChange({ ...filters, [name]: event.currentTarget.value }),
  });
  return (
    <div className={classes.filters}>
      <TextInput
        label="Search"
        placeholder="Anywhere in the entry"
        leftSection={<IconSearch size={16} />}
        className={classes.search ?? ""}
        {...field("text")}
      />
      <TextInput label="Who" placeholder="Anybody" {...field("actor")} />
      <TextInput label="Action" placeholder="pool." {...field("action")} />
      <TextInput label="From" type="date" {...field("since")} />
      <TextInput label="To" type="date" {...field("until")} />
    </div>
  );
}

function Entries({ entries }: { readonly entries: readonly AuditEntryView[] }) {
  return (
    <Paper>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>When and who</Table.Th>
            <Table.Th>What</Table.Th>
            <Table.Th visibleFrom="sm">Change</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {entries.map((entry) => (
            <Table.Tr key={entry.id} data-testid="audit-row" className={classes.entry ?? ""}>
              <Table.Td>
                <Text size="sm" fw={550}>
                  {entry.actor}
                  {entry.actor_kind === "token" && " (token)"}
                </Text>
                <Text size="xs" c="dimmed" className={`figures ${classes.when ?? ""}`}>
                  <span>{dateTime(entry.at)}</span> {entry.address !== "" && <span>from {entry.address}</span>}
                </Text>
              </Table.Td>
              <Table.Td>
                <span className="mono">{entry.action}</span>
                <Text size="sm">{entry.target_name || entry.target_id}</Text>
                {entry.reason !== "" && (
                  <Text size="xs" c="dimmed">
                    “{entry.reason}”
                  </Text>
                )}
                <div className={classes.narrow}>
                  <Changes entry={entry} />
                </div>
              </Table.Td>
              <Table.Td visibleFrom="sm">
                <Changes entry={entry} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}

function Changes({ entry }: { readonly entry: AuditEntryView }) {
  return changesOf(entry.before, entry.after).map((change) => (
    <div key={change.name} className={classes.change}>
      {change.name !== "" && <span className={classes.name}>{change.name}</span>}
      {change.before !== null && change.after !== null && (
        <>
          {change.before}
          <span aria-label="to"> → </span>
        </>
      )}
      {change.after ?? <del>{change.before}</del>}
    </div>
  ));
}
