import { globSync } from 'node:fs'

/** Debian's package `faketime`; the variant for programs with threads. */
const [LIBRARY] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1')

export const canMoveClocks = LIBRARY !== undefined

/** The environment of a process whose clock is off, as `+5d` or `-2h`; its timers run as ever. */
export function withClock(offset: string): NodeJS.ProcessEnv {
  return LIBRARY === undefined ? {} : { ...COMMON, LD_PRELOAD: LIBRARY, FAKETIME: offset }
}

/** The same, with an offset that is read from a file again and again. */
export function withClockIn(file: string): NodeJS.ProcessEnv {
  if (LIBRARY === undefined) return {}
  const follow = { FAKETIME_TIMESTAMP_FILE: file, FAKETIME_CACHE_DURATION: '1' }
  return { ...COMMON, ...follow, LD_PRELOAD: LIBRARY }
}

const COMMON = { FAKETIME_DONT_FAKE_MONOTONIC: '1', DONT_FAKE_MONOTONIC: '1' }
