/**
 * Puts what checks ask for again into a map of at most `max` entries. A full one begins anew: one
 * that ranks what it holds costs every check more.
 */
export function remember<Value>(
  known: Map<string, Value>,
  max: number,
  key: string,
  value: Value,
): void {
  if (known.size >= max) known.clear()
  known.set(key, value)
}
