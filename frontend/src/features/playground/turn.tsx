import { Alert, Button, Group, Text } from "@mantine/core";
import { IconAlertCircle, IconRefresh } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { CopyIcon } from "@/components/copy";
import { AnswerFacts } from "./answer-facts";
import { chat, type Answer, type Turn } from "./conversation";
import classes from "./playground.module.css";

interface TurnProps {
  readonly turn: Turn;
  readonly isLast: boolean;
}

export function TurnView({ turn, isLast }: TurnProps) {
  const { answer } = turn;
  return (
    <article className={classes.turn} aria-label={`Question and answer ${turn.id}`}>
      <div className={classes.question} tabIndex={0}>
        {turn.question}
      </div>
      <div className={classes.answer} data-testid="answer" data-state={answer.state}>
        <Group gap="xs" mb={4} mih={22}>
          <Text size="xs" c="dimmed">
            {turn.model}
          </Text>
          {isOver(answer) && answer.text !== "" && <CopyIcon value={answer.text} label="Copy the answer" />}
        </Group>
        {answer.state === "waiting" ? (
          <Waiting since={answer.askedAt} />
        ) : (
          <div className={classes.text} data-testid="answer-text">
            {answer.text}
            {answer.state === "streaming" && <span className={classes.caret} aria-hidden />}
          </div>
        )}
        {answer.state === "failed" && (
          <Alert color="red" icon={<IconAlertCircle />} mt="xs" role="alert">
            <Text size="sm">{answer.error}</Text>
            {isLast && (
              <Button
                size="xs"
                variant="default"
                mt="xs"
                leftSection={<IconRefresh size={14} />}
                onClick={() => void chat.retry()}
              >
                Ask again
              </Button>
            )}
          </Alert>
        )}
        {isOver(answer) && ending(answer) !== "" && (
          <Text size="xs" c="dimmed" mt={6}>
            {ending(answer)}
          </Text>
        )}
        {answer.timing !== null && <AnswerFacts timing={answer.timing} />}
      </div>
    </article>
  );
}

function isOver(answer: Answer): boolean {
  return answer.state === "done" || answer.state === "stopped";
}

function ending(answer: Answer): string {
  if (answer.state === "stopped") return "Stopped by you; its workers are free again.";
  return answer.finishReason === "length" ? "Cut off at the token limit." : "";
}

function Waiting({ since }: { readonly since: number }) {
  const [now, setNow] = useState(since);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 100);
    return () => clearInterval(timer);
  }, []);
  return (
    <Text size="sm" c="dimmed" className="figures" role="status">
      Waiting for the first token, {(Math.max(0, now - since) / 1000).toFixed(1)} s
    </Text>
  );
}
