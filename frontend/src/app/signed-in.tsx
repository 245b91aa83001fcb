import { Center, Loader } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Navigate, useLocation } from "react-router";
import { Failure } from "@/components/states";
import { SESSION_KEY, useSession } from "@/features/access/api/session";
import { WhoContext } from "@/lib/who";
import { LiveContext, useConnection } from "@/live/hooks";
import { follow, LiveStore, socketUrl } from "@/live/store";
import { Shell } from "./shell";

/** Everything behind the login: sends strangers to it, and follows the live state for the others. */
export function SignedIn() {
  const session = useSession();
  const location = useLocation();
  if (session.isPending) {
    return (
      <Center h="100dvh">
        <Loader color="gray" aria-label="Loading" />
      </Center>
    );
  }
  if (session.isError) {
    return (
      <Center h="100dvh" p="md">
        <Failure
          title="The console can't reach its control plane"
          error={session.error}
          onRetry={() => void session.refetch()}
        />
      </Center>
    );
  }
  if (session.data.user === null) {
    const next = location.pathname + location.search;
    return <Navigate to={next === "/" ? "/login" : `/login?next=${encodeURIComponent(next)}`} replace />;
  }
  return (
    <WhoContext value={session.data.user}>
      <Live />
    </WhoContext>
  );
}

function Live() {
  const [store] = useState(() => new LiveStore());
  useEffect(() => follow(store, socketUrl()), [store]);
  return (
    <LiveContext value={store}>
      <AskAgainWhenSignedOut />
      <Shell />
    </LiveContext>
  );
}

/** The socket was closed for want of a login: the session decides what is shown next. */
function AskAgainWhenSignedOut() {
  const client = useQueryClient();
  const { phase } = useConnection();
  useEffect(() => {
    if (phase === "signed-out") void client.invalidateQueries({ queryKey: SESSION_KEY });
  }, [phase, client]);
  return null;
}
