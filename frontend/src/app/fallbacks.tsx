import { Button } from "@mantine/core";
import { IconMapOff } from "@tabler/icons-react";
import { Link, useRouteError } from "react-router";
import { Page } from "@/components/page";
import { Empty, Failure } from "@/components/states";

export function NotFoundPage() {
  return (
    <Page title="Page not found">
      <Empty
        icon={<IconMapOff />}
        title="There is nothing at this address"
        action={
          <Button component={Link} to="/" variant="default">
            Go to the overview
          </Button>
        }
      >
        The link may be old, or what it named was removed.
      </Empty>
    </Page>
  );
}

/** A page that broke says so and leaves the rest of the console usable. */
export function PageCrash() {
  const error = useRouteError();
  return (
    <Page title="This page broke">
      <Failure
        error={error}
        title="The console ran into a fault of its own. Nothing on the servers was changed."
        onRetry={() => location.reload()}
      />
    </Page>
  );
}
