import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import t from 'tap'
import { ntfyMessage, signatureHeaders, slackMessage } from '../../src/events/receiver.ts'
import type { EventText } from '../../src/events/text.ts'

const failing: EventText = {
  title: 'No certificate for *.example.com and 1 more name',
  what: 'The certificate could not be issued.',
  action: 'Correct the records.',
  details: [
    ['Names', '*.example.com, *.example.org'],
    ['Issuer', 'letsencrypt'],
    ['Cause', 'ACME_DNS: see <!channel> & `code` *bold* ñ 漢'],
  ],
  severity: 'warning',
}
const renewed: EventText = { ...failing, severity: 'info' }

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

t.test('the signature is over the time and the body', (t) => {
  const headers = signatureHeaders('{"a":1}', 'a-secret-of-sixteen', Date.UTC(2030, 0, 1) + 999)
  const expected = createHmac('sha256', 'a-secret-of-sixteen').update('1893456000.{"a":1}')
  t.strictSame(headers, {
    'x-gatehouse-timestamp': '1893456000',
    'x-gatehouse-signature': `sha256=${expected.digest('hex')}`,
  })
  t.end()
})

t.test('the check of the guide accepts what is signed and recent, and nothing else', async (t) => {
  const guide = readFileSync(new URL('../../../../docs/events.md', import.meta.url), 'utf8')
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
