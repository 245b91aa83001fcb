import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeSocket } from "@/testing/fake-socket";
import { eventMessage, nodeView, snapshotMessage } from "@/testing/views";
import { CLOSE_SIGNED_OUT, ConsoleSocket, TIMINGS } from "./socket";

const listener = {
  onMessage: vi.fn(),
  onLost: vi.fn(),
  onSilent: vi.fn(),
  onSignedOut: vi.fn(),
  resumeFrom: vi.fn<() => string | null>(() => null),
};

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.opened = [];
  vi.clearAllMocks();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const open = (): ConsoleSocket => new ConsoleSocket("ws://here/ws/console", listener, TIMINGS, () => 1);

describe("the console socket", () => {
  it("asks for a snapshot first, and resumes from the last position afterwards", () => {
    open();
    expect(FakeSocket.newest().url).toBe("ws://here/ws/console");
    listener.resumeFrom.mockReturnValue("100-0");
    FakeSocket.newest().drop();
    vi.advanceTimersByTime(TIMINGS.firstDelayMs);
    expect(FakeSocket.newest().url).toBe("ws://here/ws/console?after=100-0");
  });

  it("waits longer after each failure, up to a limit, and starts over after a message", () => {
    open();
    const waits: number[] = [];
    for (let failure = 0; failure < 8; failure += 1) {
      const opened = FakeSocket.opened.length;
      FakeSocket.newest().drop();
      let waited = 0;
      while (FakeSocket.opened.length === opened) {
        vi.advanceTimersByTime(500);
        waited += 500;
      }
      waits.push(waited);
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
    FakeSocket.newest().receive(snapshotMessage());
    FakeSocket.newest().drop();
    const opened = FakeSocket.opened.length;
    vi.advanceTimersByTime(500);
    expect(FakeSocket.opened).toHaveLength(opened + 1);
  });

  it("says silent, then gives a mute connection up and opens another", () => {
    open();
    FakeSocket.newest().receive(snapshotMessage());
    vi.advanceTimersByTime(TIMINGS.silentAfterMs);
    expect(listener.onSilent).toHaveBeenCalledTimes(1);
    const mute = FakeSocket.newest();
    vi.advanceTimersByTime(TIMINGS.deadAfterMs - TIMINGS.silentAfterMs);
    expect(mute.closed).toBe(true);
    expect(listener.onLost).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(TIMINGS.firstDelayMs);
    expect(FakeSocket.newest()).not.toBe(mute);
  });

  it("stays quiet while messages come", () => {
    open();
    for (let second = 0; second < 60; second += 1) {
      FakeSocket.newest().receive(eventMessage(`${second}-0`, { type: "node.changed", node: nodeView() }));
      vi.advanceTimersByTime(1000);
    }
    expect(listener.onSilent).not.toHaveBeenCalled();
    expect(FakeSocket.opened).toHaveLength(1);
  });

  it("does not come back when the login is gone", () => {
    open();
    FakeSocket.newest().drop(CLOSE_SIGNED_OUT);
    vi.advanceTimersByTime(60_000);
    expect(listener.onSignedOut).toHaveBeenCalledTimes(1);
    expect(listener.onLost).not.toHaveBeenCalled();
    expect(FakeSocket.opened).toHaveLength(1);
  });

  it("starts over from a snapshot after a message it can't read", () => {
    open();
    listener.resumeFrom.mockReturnValue("100-0");
    FakeSocket.newest().onmessage?.({ data: "{" });
    vi.advanceTimersByTime(TIMINGS.firstDelayMs);
    expect(FakeSocket.newest().url).toBe("ws://here/ws/console");
    FakeSocket.newest().receive(snapshotMessage());
    FakeSocket.newest().drop();
    vi.advanceTimersByTime(TIMINGS.maxDelayMs);
    expect(FakeSocket.newest().url).toContain("after=100-0");
  });

  it("retries at once when asked to, and not while a connection stands", () => {
    const socket = open();
    socket.retryNow();
    expect(FakeSocket.opened).toHaveLength(1);
    FakeSocket.newest().drop();
    socket.retryNow();
    expect(FakeSocket.opened).toHaveLength(2);
    vi.advanceTimersByTime(TIMINGS.firstDelayMs);
    expect(FakeSocket.opened).toHaveLength(2);
  });

  it("is over once closed", () => {
    const socket = open();
    socket.close();
    vi.advanceTimersByTime(60_000);
    socket.retryNow();
    expect(FakeSocket.newest().closed).toBe(true);
    expect(FakeSocket.opened).toHaveLength(1);
  });
});
