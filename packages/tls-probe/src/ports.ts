/** The protocols that a probe speaks before TLS begins; `tls` begins with it. */
export const PROTOCOLS = ['tls', 'smtp', 'lmtp', 'imap', 'pop3', 'postgres', 'mysql'] as const
export type Protocol = (typeof PROTOCOLS)[number]

/** A port of a server, and what it speaks there. */
export interface ProbePort {
  readonly port: number
  readonly protocol: Protocol
}

/** What servers speak at their usual ports. Everywhere else it is TLS from the start. */
const USUAL: Readonly<Record<number, Protocol>> = {
  24: 'lmtp',
  25: 'smtp',
  110: 'pop3',
  143: 'imap',
  587: 'smtp',
  3306: 'mysql',
  5432: 'postgres',
}

/** Gives the name to ask a server for: in place of a wildcard, one that it stands for. */
export function serverNameFor(name: string): string {
  return name.replace('*', 'gatehouse')
}

/** Reads a port such as `:443`, `:25` or `:2525 smtp`; undefined for a text that is none. */
export function parsePort(text: string): ProbePort | undefined {
  const [, digits, word] = /^:([1-9]\d{0,4})(?: ([a-z0-9]+))?$/.exec(text) ?? []
  const port = Number(digits)
  const name = word ?? USUAL[port] ?? 'tls'
  const protocol = PROTOCOLS.find((protocol) => protocol === name)
  return protocol && port <= 65_535 ? { port, protocol } : undefined
}
