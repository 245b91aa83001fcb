// Why signing in through the identity provider did not work: it comes back in the login page's address.

const PROBLEMS: Readonly<Record<string, string>> = {
  oidc_unreachable: "did not answer. Try again, or sign in with a local account.",
  oidc_refused: "did not sign you in. Try again from the start.",
  oidc_no_access: "knows you, but you have no access here. Ask an administrator for a role.",
  oidc_name_taken: "knows you by a user name that belongs to another account here. Ask an administrator.",
};

/** One sentence on the problem that the address names; null without one. provider: as the button calls it. */
export function loginProblem(code: string | null, provider: string | null): string | null {
  if (code === null) return null;
  const ending = PROBLEMS[code];
  const who = provider ?? "The identity provider";
  return ending === undefined ? `${who} could not sign you in.` : `${who} ${ending}`;
}
