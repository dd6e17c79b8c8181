import type { ReverseProxy } from '@gatehouse/service-kit/proxies'

type Encoding = ReverseProxy['clientCertificate']['encoding']

/** Readers of a certificate, DER; undefined for a value that no proxy writes. Node bounds all headers to 16 kB. */
export const READERS: Readonly<Record<Encoding, (value: string) => Buffer | undefined>> = {
  // RFC 9440: a byte sequence of RFC 8941.
  'byte-sequence': (value) => fromBase64(/^:([^:]*):$/.exec(value)?.[1]),
  'escaped-pem': fromEscapedPem,
  chain: fromChain,
  elements: fromElement,
}

/**
 * Finds the value of a header that has to be there once and in one spelling, as software that takes `_`
 * for `-` would read another one; false if it is there otherwise.
 *
 * @param rawHeaders - names and values, in turn
 */
export function findOnce(rawHeaders: readonly string[], name: string): string | false | undefined {
  let value: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const header = rawHeaders[i]?.toLowerCase() ?? ''
    if (header.length !== name.length || header.replace(/[^a-z0-9]/g, '-') !== name) continue
    if (header !== name || value !== undefined) return false
    value = rawHeaders[i + 1]
  }
  return value
}

const PEM = /^-----BEGIN CERTIFICATE-----\n([^-]*)\n-----END CERTIFICATE-----\n?$/

/** PEM in which all is escaped that URLs reserve, as in `$ssl_client_escaped_cert`. */
function fromEscapedPem(value: string): Buffer | undefined {
  if (!/^(?:[\w.~-]|%[0-9A-Fa-f]{2})*$/.test(value)) return undefined
  const pem = value.replace(/%(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
  return fromBase64(PEM.exec(pem)?.[1]?.replaceAll('\n', ''))
}

/** The bodies of the PEM blocks of a chain, leaf first, as `passTLSClientCert` of Traefik writes them. */
function fromChain(value: string): Buffer | undefined {
  const chain = value.split(',').map(fromBase64)
  return chain.includes(undefined) ? undefined : chain[0]
}

const PAIR =
  /(By|Hash|Cert|Chain|Subject|URI|DNS)=(?:"((?:[^"\\]|\\.)*)"|[^",;=\\]*)(?:;(?=.)|(,)|$)/y

/** The pairs about the client of one proxy, with `Cert` once among them. Another proxy's follow a comma. */
function fromElement(value: string): Buffer | undefined {
  const certificates: string[] = []
  PAIR.lastIndex = 0
  do {
    const [pair, key, quoted = '', comma] = PAIR.exec(value) ?? []
    if (pair === undefined || comma !== undefined) return undefined
    if (key === 'Cert') certificates.push(quoted)
  } while (PAIR.lastIndex < value.length)
  return certificates.length === 1 ? fromEscapedPem(certificates[0] ?? '') : undefined
}

/** Decodes only the canonical spelling, so that no other software reads it differently. */
function fromBase64(text = ''): Buffer | undefined {
  const der = Buffer.from(text, 'base64')
  return der.length > 0 && der.toString('base64') === text ? der : undefined
}
