import { type Host, isUnder, parseHost } from '@gatehouse/net'

type HostPattern = ReturnType<typeof readHost>

/** `x` is that host, `*.x` every host below it. */
export function readHost(pattern: string) {
  const isWildcard = pattern.startsWith('*.')
  const text = isWildcard ? pattern.slice(2) : pattern
  return { name: parseHost(text)?.name ?? text, isWildcard }
}

export function compileHosts(patterns: readonly string[]): (host: Host) => boolean {
  const exact = new Set(exactHosts({ hosts: patterns }))
  const parents = patterns.map(readHost).filter(({ isWildcard }) => isWildcard)
  return (host) =>
    exact.has(host.name) || parents.some(({ name }) => name !== host.name && isUnder(name, host))
}

/** The hosts that a rule names, without those below a wildcard. */
export function exactHosts({ hosts = [] }: { readonly hosts?: readonly string[] }): string[] {
  return hosts.map(readHost).flatMap(({ name, isWildcard }) => (isWildcard ? [] : name))
}

/** Whether a pattern is of every host that another one is of. */
export function coversHost(a: HostPattern, b: HostPattern): boolean {
  if (!a.isWildcard) return !b.isWildcard && a.name === b.name
  return isUnder(a.name, b) && (b.isWildcard || b.name !== a.name)
}

/** Compiles a pattern in which `*` stands for any text. Its parts are looked for from left to right, each once. */
export function compilePattern(pattern: string): (text: string) => boolean {
  const [prefix = '', ...parts] = pattern.split('*')
  const suffix = parts.pop()
  if (suffix === undefined) return (text) => text === pattern
  return (text) => {
    if (!text.startsWith(prefix) || !text.endsWith(suffix)) return false
    let position = prefix.length
    for (const part of parts) {
      const index = text.indexOf(part, position)
      if (index < 0) return false
      position = index + part.length
    }
    return position <= text.length - suffix.length
  }
}
