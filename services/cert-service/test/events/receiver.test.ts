import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import t from 'tap'
import type { EventBody } from '../../src/events/event.ts'
import { ntfyMessage, signatureHeaders, slackMessage } from '../../src/events/receiver.ts'

const failing = {
  id: 'id-1',
  at: '2030-01-01T00:00:00Z',
  type: 'failing',
  names: ['*.example.com', '*.example.org'],
  issuer: 'letsencrypt',
  failures: 1,
  error: { code: 'ACME_DNS', detail: 'see <!channel> & `code` *bold* ñ 漢' },
} as const satisfies EventBody
const renewed = {
  id: 'id-2',
  at: '2030-01-01T00:00:00Z',
  type: 'renewed',
  names: ['a.test'],
  issuer: 'ca',
  serialNumber: 'ab01',
  notBefore: '2030-01-01T00:00:00Z',
  notAfter: '2030-01-08T00:00:00Z',
} as const satisfies EventBody

/** The longest that there may be. */
const longest: EventBody = {
  ...failing,
  names: Array.from({ length: 100 }, (_, n) => `${'a.'.repeat(120)}${n}.example.com`),
  error: { code: 'ACME_REJECTED_IDENTIFIER', detail: '&漢'.repeat(5_000) },
}

// https://docs.ntfy.sh/publish/#publish-as-json
t.test('ntfy is told as it documents', async (t) => {
  const config = { url: 'https://ntfy.test/my-topic', token: 'tk_secret' }
  const { url, headers, body } = ntfyMessage(failing, config)
  t.equal(url, 'https://ntfy.test/')
  t.strictSame(headers, { authorization: 'Bearer tk_secret' })
  t.match(JSON.parse(body), {
    topic: 'my-topic',
    title: 'No certificate for *.example.com and 1 more name',
    message: /could not be issued\.[\s\S]*What to do:[\s\S]*<!channel> & `code` \*bold\* ñ 漢/,
    priority: 4,
    tags: ['warning'],
  })
  const { url: _, ...withoutToken } = ntfyMessage(renewed, { url: config.url })
  t.strictSame(withoutToken.headers, {})
  t.match(JSON.parse(withoutToken.body), { priority: 2, tags: ['white_check_mark'] })
  const { message } = JSON.parse(ntfyMessage(longest, config).body)
  t.ok(Buffer.byteLength(message) < 4_096, 'otherwise ntfy makes it an attachment')
})

// https://docs.slack.dev/messaging/formatting-message-text and /reference/block-kit/blocks
t.test('Slack is told as it documents', async (t) => {
  const { text, blocks } = slackMessage(failing)
  t.match(text, /^No certificate for \*\.example\.com and 1 more name: The certificate could not/)
  t.match(blocks, [
    { type: 'header', text: { type: 'plain_text', text: /^:warning: No certificate for / } },
    { type: 'section', text: { type: 'mrkdwn', text: /\n\*What to do:\* / } },
    {
      type: 'section',
      fields: [
        { type: 'mrkdwn', text: '*Names*\n`*.example.com, *.example.org`', verbatim: true },
        { text: '*Issuer*\n`letsencrypt`' },
        { text: "*Cause*\n`ACME_DNS: see &lt;!channel&gt; &amp; 'code' *bold* ñ 漢`" },
      ],
    },
  ])
  t.notMatch(JSON.stringify({ text, blocks }), /<|>|&(?!amp;|lt;|gt;)/)
})

t.test('no part for Slack is longer than it takes', async (t) => {
  const { text, blocks } = slackMessage(longest)
  t.ok(text.length <= 40_000)
  const [header, section, details] = blocks
  t.ok((header?.text?.text.length ?? 0) <= 150)
  t.ok((section?.text?.text.length ?? 0) <= 3_000)
  const fields = details?.fields ?? []
  t.ok(fields.length > 2 && fields.length <= 10)
  for (const { text } of fields) t.ok(text.length <= 2_000, `${text.length}`)
})

t.test('the check of the guide accepts what is signed and recent, and nothing else', async (t) => {
  const guide = readFileSync(new URL('../../../../docs/monitoring.md', import.meta.url), 'utf8')
  const [, code = ''] = /```ts\n(.+?)```/s.exec(guide) ?? []
  const module = `${stripTypeScriptTypes(code)}\nexport { isGenuine }`
  const { isGenuine } = await import(`data:text/javascript,${encodeURIComponent(module)}`)
  const secret = 'a-secret-of-sixteen'
  const now = Date.UTC(2030, 0, 1)
  const headers = signatureHeaders('{}', secret, now)
  t.ok(isGenuine(headers, '{}', secret, now))
  t.ok(isGenuine(headers, '{}', secret, now + 299_000))
  t.notOk(isGenuine(headers, '{}', secret, now + 301_000), 'old')
  t.notOk(isGenuine(headers, '{ }', secret, now), 'another body')
  t.notOk(isGenuine(headers, '{}', 'another-secret-16', now), 'another secret')
  t.notOk(isGenuine({}, '{}', secret, now), 'no signature')
})
