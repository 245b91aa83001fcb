import { Group, NumberInput, Select, Table, Text, Title } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { Failure, Loading } from "@/components/states";
import { Status } from "@/components/status";
import { DEFAULT_ENGINE_SETTINGS, type DeviceFitView } from "@/generated/contracts";
import { bytes, count, UNKNOWN } from "@/lib/format";
import { useFit, type Load } from "./api/model-facts";

const DTYPES = ["auto", "float32", "bfloat16", "float16"];

/** Whether the model fits on each type of device of the fleet, before anything is deployed. */
export function FitTable({ model }: { readonly model: string }) {
  const [load, setLoad] = useState<Load>({
    kv_tokens: DEFAULT_ENGINE_SETTINGS.kv_tokens,
    tensor_parallel: 1,
    dtype: DEFAULT_ENGINE_SETTINGS.dtype,
  });
  const [settled] = useDebouncedValue(load, 300);
  const fit = useFit(model, settled);
  return (
    <section data-testid="fit">
      <Title order={3} mb="xs">
        Where it fits
      </Title>
      <Group gap="xs" mb="sm" align="flex-end">
        <NumberInput
          label="KV cache, in tokens"
          min={16}
          step={1024}
          thousandSeparator=","
          value={load.kv_tokens}
          onChange={(value) => typeof value === "number" && setLoad({ ...load, kv_tokens: value })}
          w={160}
        />
        <NumberInput
          label="Devices each"
          min={1}
          max={64}
          value={load.tensor_parallel}
          onChange={(value) => typeof value === "number" && setLoad({ ...load, tensor_parallel: value })}
          w={120}
        />
        <Select
          label="Number format"
          data={DTYPES}
          value={load.dtype}
          onChange={(dtype) => dtype !== null && setLoad({ ...load, dtype })}
          w={140}
        />
      </Group>
      {fit.isError && <Failure error={fit.error} title="That can't be worked out" />}
      {fit.isPending && <Loading rows={1} height={100} />}
      {fit.data?.devices.length === 0 && (
        <Text size="sm" c="dimmed">
          The fleet has no devices yet.
        </Text>
      )}
      {fit.data && fit.data.devices.length > 0 && <Devices devices={fit.data.devices} />}
    </section>
  );
}

function Devices({ devices }: { readonly devices: readonly DeviceFitView[] }) {
  return (
    <Table horizontalSpacing="xs" verticalSpacing="xs">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Device</Table.Th>
          <Table.Th>Fits</Table.Th>
          <Table.Th ta="right" visibleFrom="sm">
            Weights
          </Table.Th>
          <Table.Th ta="right" visibleFrom="sm">
            KV
          </Table.Th>
          <Table.Th ta="right">Needed</Table.Th>
          <Table.Th ta="right">Most KV</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody className="figures">
        {devices.map((device) => (
          <Table.Tr key={`${device.kind} ${device.name} ${device.memory_total ?? ""}`}>
            <Table.Td>
              {device.name}
              <Text size="xs" c="dimmed">
                {device.count} × {bytes(device.memory_total)}
              </Text>
            </Table.Td>
            <Table.Td>
              <Fits fits={device.fits} />
            </Table.Td>
            <Table.Td ta="right" visibleFrom="sm">
              {bytes(device.weights_bytes)}
            </Table.Td>
            <Table.Td ta="right" visibleFrom="sm">
              {bytes(device.kv_bytes)}
            </Table.Td>
            <Table.Td ta="right">{bytes(device.needed_bytes)}</Table.Td>
            <Table.Td ta="right">
              {device.kv_tokens_max === null ? UNKNOWN : `${count(device.kv_tokens_max)} tokens`}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Fits({ fits }: { readonly fits: boolean | null }) {
  if (fits === null) return <Text size="sm">{UNKNOWN}</Text>;
  return <Status tone={fits ? "good" : "bad"}>{fits ? "Fits" : "Too large"}</Status>;
}
