import { createHmac } from 'node:crypto'
import { createFetch } from '@gatehouse/net'
import { requireNamedFile } from '../config/files.ts'
import { ntfyTopic, PERSON, type ReceiverConfig, type ReceiverOf } from './config.ts'
import { type EventHead, type EventText, paragraphsOf, shorten } from './text.ts'

const TIMEOUT = 10_000
const DELIVERED = [200, 201, 202, 203, 204, 205, 206]

/** The service whose events are sent. */
export interface Sender {
  /** Such as `cert-service`. */
  readonly name: string
  readonly version: string
  /**
   * Describes one of its events for people.
   *
   * @param length - `brief` for short messages: Slack takes 2,000 characters in a part, ntfy 4,096 bytes
   */
  textOf(event: EventHead, length: 'brief' | 'whole'): EventText
}

export interface Receiver {
  readonly name: string
  readonly events: readonly string[]
  /**
   * Delivers an event.
   *
   * @param body - the event as JSON
   * @param person - the address of the person whom it is about
   * @throws Error if it was not accepted; its message holds no secret
   */
  send(
    body: string,
    options: { readonly now: number; readonly signal: AbortSignal },
    person?: string,
  ): Promise<void>
  close(): Promise<void>
}

/** @throws ConfigError CONFIG_FILE_UNUSABLE */
export function createReceiver(config: ReceiverConfig, sender: Sender): Receiver {
  const { name, events, caFile } = config
  const ca =
    caFile === undefined ? undefined : requireNamedFile(`events receiver ${name}: caFile`, caFile)
  if (config.type !== 'email') return httpReceiver(config, ca, sender)
  return {
    name,
    events,
    async send(body, { signal }, person) {
      const to = config.to.flatMap((entry) => (entry === PERSON ? (person ?? []) : entry))
      if (to.length === 0) return
      // Most services send no e-mail, and the module takes a while to load.
      const { sendEmail } = await import('./email.ts')
      const event: EventHead = JSON.parse(body)
      const text = sender.textOf(event, 'whole')
      await sendEmail(event, text, { ...config, to, ca, service: sender.name }, signal)
    },
    async close() {},
  }
}

interface HttpMessage {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

type HttpConfig = Exclude<ReceiverConfig, { readonly type: 'email' }>

function httpReceiver(config: HttpConfig, ca: string | undefined, sender: Sender): Receiver {
  const { name, events } = config
  const fetch = createFetch({ ca, timeoutMs: TIMEOUT })
  return {
    name,
    events,
    async send(body, { now, signal }) {
      const { url, ...message } = messageOf(config, body, now, sender)
      const headers = {
        'content-type': 'application/json',
        'user-agent': `gatehouse-${sender.name}/${sender.version}`,
        ...message.headers,
      }
      try {
        await fetch(url, { method: 'POST', ...message, headers, status: DELIVERED, signal })
      } catch (error) {
        // The path of a webhook often holds a secret.
        const { origin, pathname } = new URL(url)
        throw new Error((error as Error).message.replace(origin + pathname, origin))
      }
    },
    close: () => fetch.close(),
  }
}

function messageOf(config: HttpConfig, body: string, now: number, sender: Sender): HttpMessage {
  if (config.type === 'webhook')
    return { url: config.url, headers: signatureHeaders(body, config.secret, now), body }
  const text = sender.textOf(JSON.parse(body), 'brief')
  if (config.type === 'ntfy') return ntfyMessage(text, config)
  return { url: config.url, headers: {}, body: JSON.stringify(slackMessage(text)) }
}

/** Authenticates a body by an HMAC-SHA256 of the Unix time, a dot and the body. */
export function signatureHeaders(
  body: string,
  secret: string,
  now: number,
): Record<'x-gatehouse-timestamp' | 'x-gatehouse-signature', string> {
  const timestamp = String(Math.floor(now / 1000))
  const signature = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
  return { 'x-gatehouse-timestamp': timestamp, 'x-gatehouse-signature': `sha256=${signature}` }
}

/** Priorities and tags of ntfy: 1 is silent, 3 is the default, 5 alerts until it is read. Tags become emojis. */
const NTFY: Readonly<Record<EventText['severity'], readonly [priority: number, tag: string]>> = {
  info: [2, 'white_check_mark'],
  warning: [4, 'warning'],
  critical: [5, 'rotating_light'],
}

/** Makes a message for ntfy: JSON to the root of the server, as headers can have only ASCII characters. */
export function ntfyMessage(
  text: EventText,
  { url, token }: Pick<ReceiverOf<'ntfy'>, 'url' | 'token'>,
): HttpMessage {
  const { server, topic } = ntfyTopic(url)
  const [priority, tag] = NTFY[text.severity]
  const message = { topic, title: text.title, message: paragraphsOf(text).join('\n\n') }
  return {
    url: server,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    body: JSON.stringify({ ...message, priority, tags: [tag] }),
  }
}

const SLACK_HEADER = 150
const SLACK_EMOJI: Readonly<Record<EventText['severity'], string>> = {
  info: ':white_check_mark:',
  warning: ':warning:',
  critical: ':rotating_light:',
}

/** Makes a message for Slack: `text` is for notifications, `blocks` for the channel. */
export function slackMessage({ title, what, action, details, severity }: EventText) {
  // Code, since names may begin with an asterisk and values may have characters of the markup.
  const fields = details.map(([name, value]) =>
    mrkdwn(`*${name}*\n\`${escapeSlack(value.replaceAll('`', "'"))}\``),
  )
  const header = `${SLACK_EMOJI[severity]} ${title}`
  return {
    text: escapeSlack(`${title}: ${what}`),
    blocks: [
      {
        type: 'header',
        text: { type: 'plain_text', text: shorten(header, SLACK_HEADER), emoji: true },
      },
      {
        type: 'section',
        text: mrkdwn(`${escapeSlack(what)}\n*What to do:* ${escapeSlack(action)}`),
      },
      { type: 'section', fields },
    ],
  }
}

function mrkdwn(text: string) {
  return { type: 'mrkdwn', text, verbatim: true }
}

/** Escapes the three characters that mean something to Slack: a CA could mention a whole channel otherwise. */
function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
