// Renders a part of the console as the app would: theme, server cache, live state, router.

import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render } from "@testing-library/react";
import type { ReactNode } from "react";
import { MemoryRouter } from "react-router";
import { LiveContext } from "@/live/hooks";
import { LiveStore } from "@/live/store";

export function renderConsole(content: ReactNode, store = new LiveStore()) {
  return {
    store,
    ...render(content, {
      wrapper: ({ children }: { readonly children: ReactNode }) => (
        <QueryClientProvider client={new QueryClient()}>
          <MantineProvider env="test">
            <MemoryRouter>
              <LiveContext value={store}>{children}</LiveContext>
            </MemoryRouter>
          </MantineProvider>
        </QueryClientProvider>
      ),
    }),
  };
}
