import { Button, Group, Select, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconHistory, IconSearch } from "@tabler/icons-react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { Page } from "@/components/page";
import { SideDrawer } from "@/components/side-drawer";
import { Empty, Failure, Loading } from "@/components/states";
import { OperationKind, OperationState } from "@/generated/contracts";
import { useLoaded, useOperations } from "@/live/hooks";
import { useOperation } from "./api/get-operation";
import { useStoredOperations } from "./api/list-operations";
import { KIND_LABEL, merged, STATE_LABEL, type Filters } from "./kinds";
import { OperationDetail } from "./operation-detail";
import { OperationTable } from "./operation-table";

/** Newest first; `/operations/<id>` opens one. The filters lie in the address. */
export function OperationsPage() {
  const { id } = useParams();
  const navigate = useNavigate();
  const [params, setParams] = useSearchParams();
  const typed = filtersIn(params);
  const [settled] = useDebouncedValue(typed.text, 300);
  const filters = { ...typed, text: settled };
  const live = useOperations();
  const stored = useStoredOperations(filters);
  const operations = merged(stored.data?.pages.flatMap((page) => page.items) ?? [], live, filters);
  const isNarrowed = typed.state !== "" || typed.kind !== "" || typed.text !== "";
  const to = (path: string): void => void navigate({ pathname: path, search: params.toString() });

  return (
    <Page title="Operations" description="Everything operators asked for: who, why, what changed, and how it went.">
      <FilterBar filters={typed} onChange={(next) => setParams(inAddress(next), { replace: true })} />
      {stored.isError && operations.length === 0 && (
        <Failure error={stored.error} title="Operations can't be shown" onRetry={() => void stored.refetch()} />
      )}
      {stored.isPending && operations.length === 0 && <Loading rows={1} height={240} />}
      {stored.isSuccess && operations.length === 0 && (
        <Empty icon={<IconHistory />} title={isNarrowed ? "None is like that" : "Nothing has been asked for yet"}>
          {isNarrowed
            ? "No operation has this state, kind and text. Take a filter away to see more."
            : "Deploying, resizing and deleting leave a record here with every step."}
        </Empty>
      )}
      {operations.length > 0 && (
        <OperationTable operations={operations} onOpen={(one) => to(`/operations/${one.id}`)} />
      )}
      {stored.hasNextPage && (
        <Group justify="center">
          <Button
            variant="default"
            loading={stored.isFetchingNextPage}
            onClick={() => void stored.fetchNextPage()}
            data-testid="older"
          >
            Show older ones
          </Button>
        </Group>
      )}
      <SideDrawer opened={id !== undefined} onClose={() => to("/operations")} title="Operation" size="lg">
        {id !== undefined && <OneOperation id={id} />}
      </SideDrawer>
    </Page>
  );
}

function OneOperation({ id }: { readonly id: string }) {
  const live = useOperations().find((operation) => operation.id === id);
  const loaded = useLoaded();
  const stored = useOperation(loaded && live === undefined ? id : null);
  const operation = live ?? stored.data;
  if (operation !== undefined) return <OperationDetail operation={operation} />;
  return stored.isError ? <Failure error={stored.error} title="This operation can't be shown" /> : <Loading />;
}

interface FilterBarProps {
  readonly filters: Filters;
  readonly onChange: (filters: Filters) => void;
}

function FilterBar({ filters, onChange }: FilterBarProps) {
  return (
    <Group gap="xs">
      <TextInput
        aria-label="Search operations"
        placeholder="Title, reason or outcome"
        leftSection={<IconSearch size={16} />}
        value={filters.text}
        onChange={(event) => onChange({ ...filters, text: event.currentTarget.value })}
        flex="1 1 220px"
        maw={360}
      />
      <Select
        aria-label="State"
        data-testid="filter-state"
        data={[{ value: "", label: "Any state" }, ...options(OperationState, STATE_LABEL)]}
        value={filters.state}
        onChange={(state) => onChange({ ...filters, state: state ?? "" })}
        w={150}
      />
      <Select
        aria-label="Kind"
        data={[{ value: "", label: "Any kind" }, ...options(OperationKind, KIND_LABEL)]}
        value={filters.kind}
        onChange={(kind) => onChange({ ...filters, kind: kind ?? "" })}
        w={190}
      />
    </Group>
  );
}

function options<T extends string>(values: Readonly<Record<string, T>>, labels: Readonly<Record<T, string>>) {
  return Object.values(values).map((value) => ({ value, label: labels[value] }));
}

function filtersIn(params: URLSearchParams): Filters {
  const given = (name: string): string => params.get(name) ?? "";
  return { state: given("state"), kind: given("kind"), text: given("text") };
}

function inAddress(filters: Filters): Record<string, string> {
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ""));
}
