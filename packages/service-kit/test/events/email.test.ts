import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t from 'tap'
import { createTestCa } from '../../../../scripts/test/certificates.ts'
import { sendEmail } from '../../src/events/email.ts'
import type { EventText } from '../../src/events/text.ts'
import { ca, certificate, PASSWORD, startMailServer } from './mail-server.ts'

const event = {
  id: '6f1c2d3e-0000-4000-8000-000000000000',
  at: '2030-01-01T00:00:00Z',
  type: 'failing',
}
const description: EventText = {
  title: 'No certificate for 0.example.com and 99 more names',
  what: 'The certificate could not be issued.',
  action: 'Add this CA to the CAA records of the domain.',
  details: [
    ['Names', Array.from({ length: 100 }, (_, n) => `${n}.example.com`).join(', ')],
    ['Cause', `.\r\nBcc: x@x.test\r\n${'long '.repeat(400)}ñ 漢`],
  ],
  severity: 'warning',
}

const open = new AbortController().signal
const login = { user: 'gatehouse', password: PASSWORD }

t.test('an event is an e-mail in plain text', async (t) => {
  const { mails, config } = await startMailServer(t, { secure: true })
  await sendEmail(event, description, { ...config, ...login, tls: 'implicit' }, open)
  const [mail] = mails
  t.match(mail, { from: 'certs@example.com', to: config.to, user: 'gatehouse', secure: true })
  const [head = '', body = ''] = mail?.raw.split('\r\n\r\n', 2) ?? []
  for (const line of [
    'To: a@example.org, b@example.org',
    'Subject: No certificate for 0.example.com and 99 more names',
    'Message-ID: <6f1c2d3e-0000-4000-8000-000000000000@example.com>',
    'Date: Tue, 01 Jan 2030 00:00:00 +0000',
    'Auto-Submitted: auto-generated',
  ])
    t.ok(head.includes(line), line)
  t.match(head, /^From: "?Gatehouse cert-service"? <certs@example\.com>\r$/m)
  t.match(head, /^Content-Type: text\/plain; charset=utf-8/m)
  t.notMatch(head, /^Bcc/im)
  const isQuoted = /^Content-Transfer-Encoding: quoted-printable/im.test(head)
  const rest = mail?.raw.slice(head.length + 4) ?? ''
  const plain = isQuoted ? unquote(rest) : Buffer.from(body, 'base64').toString()
  t.match(plain, 'What to do: Add this CA to the CAA records of the domain')
  t.match(plain, '99.example.com')
  t.match(plain, 'ñ 漢')
})

t.test('the connection is protected as it is configured', async (t) => {
  const starttls = await startMailServer(t)
  await sendEmail(event, description, { ...starttls.config, ...login }, open)
  t.match(starttls.mails, [{ secure: true, user: 'gatehouse' }])

  const plain = await startMailServer(t, { disabledCommands: ['STARTTLS'] })
  await t.rejects(
    sendEmail(event, description, plain.config, open),
    'it does not fall back to plain text',
  )
  t.strictSame(plain.mails, [])
  await sendEmail(event, description, { ...plain.config, tls: 'off' }, open)
  t.match(plain.mails, [{ secure: false }])

  const foreign = await createTestCa()
  for (const change of [{ ca: foreign.root }, { ca: undefined }])
    await t.rejects(
      sendEmail(event, description, { ...starttls.config, ...change }, open),
      /ETLS|ESOCKET/,
    )
  const implicit = await startMailServer(t, { secure: true })
  for (const server of [implicit, starttls]) {
    const named = { ...server.config, host: '127.0.0.1' }
    const tls = server === implicit ? 'implicit' : 'starttls'
    await sendEmail(event, description, { ...named, tls }, open)
    const other = { ...certificate, ...ca.certificateFor('other.test') }
    const impostor = await startMailServer(t, { ...other, secure: server === implicit })
    await t.rejects(sendEmail(event, description, { ...impostor.config, ...login, tls }, open))
    t.strictSame(impostor.mails, [], 'a certificate for another name')
  }
})

t.test('a refusal is an error without what the server says', async (t) => {
  const { config } = await startMailServer(t, { secure: true })
  const sent = { ...config, tls: 'implicit' } as const
  const wrong = { user: 'gatehouse', password: `${PASSWORD}-wrong` }
  const refused = await sendEmail(event, description, { ...sent, ...wrong }, open).catch(
    (error) => error,
  )
  t.match(refused.message, /^SMTP localhost:\d+: AUTH PLAIN was answered 535$/)
  t.notMatch(`${refused.stack} ${JSON.stringify(refused)}`, PASSWORD)

  const full = await startMailServer(t, {
    secure: true,
    onRcptTo: (_address, _session, done) =>
      done(Object.assign(new Error('no such user'), { responseCode: 550 })),
  })
  const answer = sendEmail(event, description, { ...full.config, tls: 'implicit' }, open)
  await t.rejects(answer, { message: /RCPT TO was answered 550$/ })
  await t.rejects(sendEmail(event, description, { ...sent, host: '127.0.0.1', port: 1 }, open), {
    message: 'SMTP 127.0.0.1:1: ECONNREFUSED',
  })
})

t.test('a server that says nothing is not waited for when the service stops', async (t) => {
  const silent = createServer()
  await once(silent.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => silent.close())
  const { config } = await startMailServer(t)
  for (const tls of ['implicit', 'starttls', 'off'] as const) {
    const closing = new AbortController()
    const { port } = silent.address() as AddressInfo
    const sending = sendEmail(event, description, { ...config, port, tls }, closing.signal)
    const [socket] = await once(silent, 'connection')
    closing.abort()
    await t.rejects(sending, /^SMTP/)
    socket.destroy()
  }
})

function unquote(body: string): string {
  const bytes = body
    .replaceAll('=\r\n', '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}
