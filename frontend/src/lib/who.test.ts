import { describe, expect, it } from "vitest";
import { UserRole } from "@/generated/contracts";
import { whoView } from "@/testing/views";
import { may } from "./who";

describe("what somebody may do", () => {
  it("goes by their role, each including those before it", () => {
    const operator = whoView({ role: UserRole.OPERATOR });
    expect(may(operator, UserRole.VIEWER)).toBe(true);
    expect(may(operator, UserRole.OPERATOR)).toBe(true);
    expect(may(operator, UserRole.ADMIN)).toBe(false);
  });

  it("is more for a deployment with a grant, and never less", () => {
    const viewer = whoView({ role: UserRole.VIEWER, grants: { chat: UserRole.OPERATOR } });
    expect(may(viewer, UserRole.OPERATOR, "chat")).toBe(true);
    expect(may(viewer, UserRole.OPERATOR, "other")).toBe(false);
    expect(may(viewer, UserRole.OPERATOR)).toBe(false);
    const admin = whoView({ role: UserRole.ADMIN, grants: { chat: UserRole.VIEWER } });
    expect(may(admin, UserRole.ADMIN, "chat")).toBe(true);
  });

  it("ends at the deployments somebody is bound to", () => {
    const bound = whoView({ role: UserRole.OPERATOR, only: ["chat"] });
    expect(may(bound, UserRole.OPERATOR, "chat")).toBe(true);
    expect(may(bound, UserRole.VIEWER, "other")).toBe(false);
    expect(may(bound, UserRole.OPERATOR)).toBe(false);
    expect(may(bound, UserRole.VIEWER)).toBe(true);
  });
});
