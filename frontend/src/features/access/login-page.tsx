import {
  Alert,
  Button,
  Center,
  Divider,
  Paper,
  PasswordInput,
  Stack,
  Text,
  TextInput,
  VisuallyHidden,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconAlertCircle } from "@tabler/icons-react";
import { useEffect } from "react";
import { Navigate, useSearchParams } from "react-router";
import { Brand } from "@/components/brand";
import { messageOf, withQuery } from "@/lib/api";
import { useSession } from "./api/session";
import { useSignIn } from "./api/sign-in";
import { loginProblem } from "./login-problem";

export function LoginPage() {
  const session = useSession();
  const signIn = useSignIn();
  const [params] = useSearchParams();
  const form = useForm({
    initialValues: { username: "", password: "" },
    validate: {
      username: (value) => (value.trim() === "" ? "Enter your user name" : null),
      password: (value) => (value === "" ? "Enter your password" : null),
    },
  });
  useEffect(() => {
    document.title = "Sign in · Tandem";
  }, []);

  if (session.data?.user) return <Navigate to={ownPath(params.get("next"))} replace />;
  const oidc = session.data?.oidc ?? null;
  const problem = loginProblem(params.get("problem"), oidc?.name ?? null);
  return (
    <Center mih="100dvh" p="md">
      <Paper w="100%" maw={380} p="xl" component="main">
        <Stack gap="lg">
          <Stack gap={4}>
            <VisuallyHidden component="h1">Sign in to Tandem</VisuallyHidden>
            <Brand size={34} />
            <Text size="sm" c="dimmed">
              Prefill and decode, operated as one service.
            </Text>
          </Stack>
          {problem !== null && !signIn.isError && (
            <Alert color="red" icon={<IconAlertCircle />} role="alert">
              {problem}
            </Alert>
          )}
          {oidc !== null && (
            <>
              <Button
                component="a"
                href={withQuery(oidc.url, { next: params.get("next") })}
                size="md"
                variant="default"
                data-testid="login-oidc"
              >
                Sign in with {oidc.name}
              </Button>
              <Divider label="or with a local account" />
            </>
          )}
          <form onSubmit={form.onSubmit((credentials) => signIn.mutate(credentials))} noValidate>
            <Stack gap="md">
              <TextInput
                label="User name"
                autoComplete="username"
                autoFocus
                data-testid="login-username"
                {...form.getInputProps("username")}
              />
              <PasswordInput
                label="Password"
                autoComplete="current-password"
                data-testid="login-password"
                {...form.getInputProps("password")}
              />
              {signIn.isError && (
                <Alert color="red" icon={<IconAlertCircle />} role="alert">
                  {messageOf(signIn.error)}
                </Alert>
              )}
              {session.isError && !signIn.isError && (
                <Alert color="red" icon={<IconAlertCircle />} role="alert">
                  {messageOf(session.error)}
                </Alert>
              )}
              <Button type="submit" size="md" loading={signIn.isPending} data-testid="login-submit">
                Sign in
              </Button>
            </Stack>
          </form>
        </Stack>
      </Paper>
    </Center>
  );
}

/** Where to go after signing in: only ever a page of this console. */
function ownPath(next: string | null): string {
  return next !== null && next.startsWith("/") && !next.startsWith("//") ? next : "/";
}
