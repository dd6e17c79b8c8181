import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { createTestCa } from '../../../../scripts/test/certificates.ts'

export const PASSWORD = 'canary-of-the-password'
export const ca = await createTestCa()
export const certificate = ca.certificateFor('localhost', '127.0.0.1')

interface Mail {
  readonly from: string
  readonly to: readonly string[]
  readonly user: string | undefined
  readonly secure: boolean
  readonly raw: string
}

/** A real SMTP server on loopback that keeps what it takes. */
export async function startMailServer(
  t: { teardown(close: () => unknown): unknown },
  options: SMTPServerOptions = {},
) {
  const mails: Mail[] = []
  const server = new SMTPServer({
    ...certificate,
    authOptional: true,
    onAuth({ username, password }, _session, done) {
      if (username === 'gatehouse' && password === PASSWORD) done(null, { user: username })
      else done(new Error(`not your password: ${password}`))
    },
    async onData(stream, { envelope, user, secure }, done) {
      const raw = await text(stream)
      const from = envelope.mailFrom ? envelope.mailFrom.address : ''
      const to = envelope.rcptTo.map(({ address }) => address)
      mails.push({ from, to, user: user as string | undefined, secure, raw })
      done()
    },
    ...options,
  })
  server.on('error', () => {})
  const listener = server.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())))
  const { port } = listener.address() as AddressInfo
  const config = {
    ...{ name: 'ops', type: 'email' as const, events: [], host: 'localhost', port, ca: ca.root },
    service: 'cert-service',
    ...{ from: 'certs@example.com', to: ['a@example.org', 'b@example.org'] },
  }
  return { mails, config }
}
