import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { SESSION_KEY } from "@/features/access/api/session";
import { ApiError, whenSignedOut } from "@/lib/api";
import { theme } from "./theme";

function newQueryClient(): QueryClient {
  const client = new QueryClient({
    defaultOptions: {
      queries: {
        refetchOnWindowFocus: false,
        // A refusal stays a refusal; only silence is worth asking again.
        retry: (failures, error) => failures < 2 && error instanceof ApiError && error.status === 0,
      },
    },
  });
  whenSignedOut(() => void client.invalidateQueries({ queryKey: SESSION_KEY }));
  return client;
}

export function Providers({ children }: { readonly children: ReactNode }) {
  const [client] = useState(newQueryClient);
  return (
    <QueryClientProvider client={client}>
      <MantineProvider theme={theme} defaultColorScheme="auto">
        <Notifications position="bottom-right" autoClose={5000} />
        {children}
      </MantineProvider>
    </QueryClientProvider>
  );
}
