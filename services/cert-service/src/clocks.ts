/** Clocks that are set differ by no more than this, in ms. */
const CLOCKS_DIFFER = 60_000

/**
 * Whether a certificate is valid already, or will be within a minute. One that is not was made by a
 * clock that was ahead, or the clock of this machine is behind.
 */
export function hasBegun({ notBefore }: { readonly notBefore: number }, now: number): boolean {
  return notBefore <= now + CLOCKS_DIFFER
}

/** What is valid already comes first; the order is kept otherwise. */
export function preferBegun<T extends { readonly notBefore: number }>(
  records: readonly T[],
  now: number,
): readonly T[] {
  const [begun, future] = [true, false].map((is) =>
    records.filter((one) => hasBegun(one, now) === is),
  ) as [T[], T[]]
  return [...begun, ...future]
}
