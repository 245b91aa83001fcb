// Renders a part of the console as the app would: theme, server cache, live state, router.

import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render } from "@testing-library/react";
import type { ReactNode } from "react";
import { MemoryRouter } from "react-router";
import { WhoContext, type Who } from "@/lib/who";
import { LiveContext } from "@/live/hooks";
import { LiveStore } from "@/live/store";
import { whoView } from "./views";

interface Scene {
  readonly store?: LiveStore;
  readonly who?: Who;
  /** Address that the page is at. */
  readonly path?: string;
}

/** As an administrator, unless `who` says otherwise. */
export function renderConsole(
  content: ReactNode,
  { store = new LiveStore(), who = whoView(), path = "/" }: Scene = {},
) {
  return {
    store,
    ...render(content, {
      wrapper: ({ children }: { readonly children: ReactNode }) => (
        <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
          <MantineProvider env="test">
            <MemoryRouter initialEntries={[path]}>
              <WhoContext value={who}>
                <LiveContext value={store}>{children}</LiveContext>
              </WhoContext>
            </MemoryRouter>
          </MantineProvider>
        </QueryClientProvider>
      ),
    }),
  };
}
