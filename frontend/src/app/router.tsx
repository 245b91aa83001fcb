import { createBrowserRouter } from "react-router";
import { KeysPage } from "@/features/access/keys-page";
import { LoginPage } from "@/features/access/login-page";
import { TokensPage } from "@/features/access/tokens-page";
import { UsersPage } from "@/features/access/users-page";
import { AuditPage } from "@/features/audit/audit-page";
import { ModelsPage } from "@/features/catalog/models-page";
import { FleetPage } from "@/features/fleet/fleet-page";
import { OperationsPage } from "@/features/operations/operations-page";
import { OverviewPage } from "@/features/overview/overview-page";
import { PlaygroundPage } from "@/features/playground/playground-page";
import { PoolsPage } from "@/features/pools/pools-page";
import { NotFoundPage, PageCrash } from "./fallbacks";
import { SignedIn } from "./signed-in";

export const router = createBrowserRouter([
  { path: "/login", element: <LoginPage />, errorElement: <PageCrash /> },
  {
    element: <SignedIn />,
    errorElement: <PageCrash />,
    children: [
      {
        errorElement: <PageCrash />,
        children: [
          { index: true, element: <OverviewPage /> },
          { path: "pools", element: <PoolsPage /> },
          { path: "fleet", element: <FleetPage /> },
          { path: "models", element: <ModelsPage /> },
          { path: "playground", element: <PlaygroundPage /> },
          { path: "operations/:id?", element: <OperationsPage /> },
          { path: "keys", element: <KeysPage /> },
          { path: "tokens", element: <TokensPage /> },
          { path: "users", element: <UsersPage /> },
          { path: "audit", element: <AuditPage /> },
          { path: "*", element: <NotFoundPage /> },
        ],
      },
    ],
  },
]);
