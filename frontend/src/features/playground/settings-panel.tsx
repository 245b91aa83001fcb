import { NumberInput, Select, Slider, Stack, Text, Textarea } from "@mantine/core";
import { chat, type ChatSettings } from "./conversation";

interface SettingsPanelProps {
  readonly settings: ChatSettings;
  readonly model: string | null;
  readonly models: readonly string[];
}

export function SettingsPanel({ settings, model, models }: SettingsPanelProps) {
  return (
    <Stack gap="md">
      <Select
        label="Model"
        data={[...models]}
        value={model}
        onChange={(value) => chat.set({ model: value })}
        placeholder="Nothing is deployed"
        data-testid="playground-model"
      />
      <Textarea
        label="System prompt"
        placeholder="You are a helpful assistant."
        autosize
        minRows={2}
        maxRows={8}
        value={settings.system}
        onChange={(event) => chat.set({ system: event.currentTarget.value })}
      />
      <div>
        <Text size="sm" fw={500} mb={6} id="temperature-label">
          Temperature{" "}
          <Text span c="dimmed" className="figures">
            {settings.temperature === 0 ? "0 (always the likeliest token)" : settings.temperature.toFixed(1)}
          </Text>
        </Text>
        <Slider
          min={0}
          max={2}
          step={0.1}
          label={null}
          color="gray"
          thumbLabel="Temperature"
          value={settings.temperature}
          onChange={(temperature) => chat.set({ temperature })}
        />
      </div>
      <NumberInput
        label="Token limit"
        min={1}
        max={131_072}
        step={64}
        value={settings.maxTokens}
        onChange={(value) => typeof value === "number" && value > 0 && chat.set({ maxTokens: value })}
        data-testid="playground-max-tokens"
      />
      <NumberInput
        label="Seed"
        placeholder="Another answer each time"
        min={0}
        value={settings.seed ?? ""}
        onChange={(value) => chat.set({ seed: typeof value === "number" ? value : null })}
      />
    </Stack>
  );
}
