import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import {
  createSecureContext,
  TLSSocket,
  type TlsOptions,
  createServer as tlsServer,
} from 'node:tls'
import {
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  generateKeyPair,
  type KeyType,
  parseName,
  toPem,
} from '@gatehouse/pki'
import type { Test } from 'tap'

const now = Date.now()
const DAY = 86_400_000

const rootCa = await createRoot({ commonName: 'Root', now })
const issuingCa = await createIntermediate({ root: rootCa, commonName: 'Intermediate', now })
const otherCa = await createRoot({ commonName: 'Other Root', now })
const derOf = ({ certificate }: typeof rootCa) => Buffer.from(certificate)

export const root = derOf(rootCa)
export const intermediate = derOf(issuingCa)
export const other = derOf(otherCa)
const signer = createLeafSigner(issuingCa)

/** A certificate of the intermediate, and its key. */
export async function issue(names: readonly string[], keyType: KeyType = 'p256') {
  const { spki, pkcs8 } = await generateKeyPair(keyType)
  const der = signer.sign({
    ...{ spki, keyType, names: names.map((name) => parseName(name)) },
    ...{ serial: createSerial(now), notBefore: now, notAfter: now + DAY },
  })
  return { der: Buffer.from(der), key: toPem('PRIVATE KEY', pkcs8) }
}

/** Certificates in PEM, as a server is given them. */
export const chainOf = (...ders: readonly Uint8Array[]) =>
  ders.map((der) => toPem('CERTIFICATE', der)).join('')

/** Listens at a free port of loopback until the test ends. */
export async function listen(t: Test, answer: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    answer(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  return (server.address() as AddressInfo).port
}

export async function serveTls(t: Test, options: TlsOptions): Promise<number> {
  const server = tlsServer(options).listen(0, '127.0.0.1')
  server.on('tlsClientError', () => {})
  await once(server, 'listening')
  t.teardown(() => void server.close())
  return (server.address() as AddressInfo).port
}

/** Whether a client says goodbye, after which a server ends the connection. */
export const isFarewell = (text: string) => /^(QUIT|b LOGOUT)\r\n$/m.test(text)

/**
 * Speaks the lines of a dialog, then TLS; gives what the client said before and within it.
 * @param staysOpen - whether it ignores a farewell
 */
export async function serveDialog(
  t: Test,
  lines: readonly (readonly [said: string | Buffer, expected?: RegExp])[],
  options: TlsOptions,
  staysOpen = false,
) {
  const heard: string[] = []
  const port = await listen(t, (socket) => {
    const rest = [...lines]
    let expected: RegExp | undefined
    const say = () => {
      const [said = '', next] = rest.shift() ?? []
      if (said.length > 0) socket.write(said)
      expected = next
      if (expected) return
      socket.removeAllListeners('data').pause()
      const secure = { ...options, secureContext: createSecureContext(options), isServer: true }
      const tls = new TLSSocket(socket, secure).on('error', () => {})
      tls.on('end', () => tls.writableEnded || heard.push('end'))
      tls.on('data', (chunk) => {
        heard.push(`${chunk}`)
        if (isFarewell(`${chunk}`) && !staysOpen) tls.end()
      })
    }
    socket.on('data', (chunk) => {
      const [text = ''] = expected?.exec(chunk.toString('latin1')) ?? []
      heard.push(text)
      say()
      // MySQL does not wait before it begins with TLS.
      if (text.length < chunk.length) socket.unshift(chunk.subarray(text.length))
    })
    say()
  })
  return { port, heard }
}
