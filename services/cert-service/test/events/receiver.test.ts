import t from 'tap'
import { ntfyMessage, slackMessage } from '../../../../packages/service-kit/src/events/receiver.ts'
import { textOf } from '../../src/events/text.ts'

/** The longest that there may be. */
const longest = textOf({
  id: 'id-1',
  at: '2030-01-01T00:00:00Z',
  type: 'failing',
  names: Array.from({ length: 100 }, (_, n) => `${'a.'.repeat(120)}${n}.example.com`),
  issuer: 'letsencrypt',
  failures: 1,
  error: { code: 'ACME_REJECTED_IDENTIFIER', detail: '&漢'.repeat(5_000) },
})

t.test('no message for ntfy is longer than it takes', async (t) => {
  const { body } = ntfyMessage(longest, { url: 'https://ntfy.test/my-topic' })
  const { message } = JSON.parse(body)
  t.ok(Buffer.byteLength(message) < 4_096, 'otherwise ntfy makes it an attachment')
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
