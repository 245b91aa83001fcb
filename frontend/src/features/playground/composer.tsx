import { Button, Textarea } from "@mantine/core";
import { IconArrowUp, IconPlayerStopFilled } from "@tabler/icons-react";
import { useState } from "react";
import { chat } from "./conversation";
import classes from "./playground.module.css";

interface ComposerProps {
  readonly model: string | null;
  readonly busy: boolean;
}

export function Composer({ model, busy }: ComposerProps) {
  const [text, setText] = useState("");
  const ready = model !== null && text.trim() !== "";
  const ask = (): void => {
    if (!ready || busy) return;
    void chat.ask(model, text.trim());
    setText("");
  };
  return (
    <form
      className={classes.composer}
      onSubmit={(event) => {
        event.preventDefault();
        ask();
      }}
    >
      <Textarea
        aria-label="Your message"
        placeholder={model === null ? "Deploy a model first" : `Ask ${model} something`}
        autosize
        minRows={1}
        maxRows={10}
        autoFocus
        flex={1}
        variant="unstyled"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
            event.preventDefault();
            ask();
          }
        }}
        data-testid="playground-input"
      />
      {busy ? (
        <Button
          variant="default"
          leftSection={<IconPlayerStopFilled size={14} />}
          onClick={() => chat.stop()}
          data-testid="playground-stop"
        >
          Stop
        </Button>
      ) : (
        <Button type="submit" leftSection={<IconArrowUp size={16} />} disabled={!ready} data-testid="playground-send">
          Send
        </Button>
      )}
    </form>
  );
}
