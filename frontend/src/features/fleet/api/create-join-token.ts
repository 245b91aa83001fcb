import { useMutation } from "@tanstack/react-query";
import { call } from "@/lib/api";

export interface JoinTokenRequest {
  readonly note: string;
}

/** Shown once. `command` is the one line to run on the new node. */
export interface JoinToken {
  readonly token: string;
  readonly expires_at: string;
  readonly command: string;
}

export function useCreateJoinToken() {
  return useMutation({ mutationFn: (input: JoinTokenRequest) => call<JoinToken>("POST", "/join-tokens", input) });
}
