import { isObject } from '@gatehouse/net'

/** Writes a value as canonical JSON (RFC 8785), and a bigint as an integer with all its digits. */
export function canonicalJson(value: unknown): string {
  if (typeof value === 'bigint') return `${value}`
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`
  if (!isObject(value)) return JSON.stringify(value ?? null)
  const names = Object.keys(value).sort()
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`).join()}}`
}
