import { isIP } from 'node:net'
import { isLoopback, parseEndpointUrl, parseHost } from '@gatehouse/net'
import { type Static, Type } from 'typebox'
import { FilePath, Flag, Name, Secret, Text } from '../config/schema.ts'
import {
  applyRules,
  applyToEach,
  type ConfigRule,
  checkCertificateFile,
  checkUnique,
  type Fault,
  faultIf,
  faultOf,
} from '../rules.ts'

const ADDRESS = '^[^@\\s,?<>"]+@[^@\\s,?<>"]+$'
/** The recipient that stands for the person whom an event is about. */
export const PERSON = 'person'

const Address = Type.String({ pattern: ADDRESS })
const PersonOrAddress = Type.String({ pattern: `^person$|${ADDRESS}` })
/** The name of the receiver that `events.webhook` configures. */
const WEBHOOK = 'webhook'

const name = Name('Name in log lines and metrics. Events that wait belong to this name.')

const allowHttp = Flag('Whether plain http is allowed in `url`.')

/**
 * The options of the section `events`, by the types of the events that there are.
 *
 * @param person - what the recipient `person` stands for. Default: there is none
 */
export function eventsOptions(types: readonly string[], description: string, person = '') {
  const common = {
    events: Type.Array(Type.Enum([...types]), {
      minItems: 1,
      default: [...types],
      description: `Events to send: ${types.join(', ')}.`,
    }),
    caFile: Type.Optional(FilePath('CA certificates in PEM, for a receiver with a private CA.')),
  }
  const webhook = {
    url: Text('URL that events are posted to: https; http on loopback or with `allowHttp`.'),
    secret: Secret('Key of the HMAC in `X-Gatehouse-Signature`, at least 16 characters.', {
      minLength: 16,
    }),
    ...common,
    allowHttp,
  }
  const receiver = Type.Union([
    Type.Object({
      name,
      type: Type.Literal(WEBHOOK, { description: 'Your own program: signed JSON.' }),
      ...webhook,
    }),
    Type.Object({
      name,
      type: Type.Literal('ntfy', { description: 'A topic of ntfy.' }),
      url: Secret('URL of the topic, such as `https://ntfy.sh/my-topic-8f3k`.'),
      token: Type.Optional(
        Secret('Access token, for a topic that needs one.', {
          minLength: 1,
          pattern: '^[\\x21-\\x7e]+$',
        }),
      ),
      ...common,
      allowHttp,
    }),
    Type.Object({
      name,
      type: Type.Literal('slack', {
        description: 'An incoming webhook of Slack, or of Mattermost or another with its format.',
      }),
      url: Secret('URL of the incoming webhook.'),
      ...common,
      allowHttp,
    }),
    Type.Object(
      {
        name,
        type: Type.Literal('email', { description: 'E-mail, through an SMTP server.' }),
        host: Text('SMTP server.'),
        port: Type.Integer({
          minimum: 1,
          maximum: 65_535,
          default: 465,
          description: 'Its port: 465 for `implicit`, usually 587 for `starttls`.',
        }),
        tls: Type.Optional(
          Type.Enum(['implicit', 'starttls', 'off'], {
            description:
              'TLS from the start, TLS after `STARTTLS`, or none. Default: `implicit` on port 465, `starttls` on others.',
          }),
        ),
        user: Type.Optional(Text('User name, if the server asks for one.')),
        password: Type.Optional(Secret('Its password.', { minLength: 1 })),
        from: Type.String({ pattern: ADDRESS, description: 'Address of the sender.' }),
        to: Type.Array(person ? PersonOrAddress : Address, {
          minItems: 1,
          maxItems: 20,
          description: `Addresses of the recipients.${person}`,
        }),
        ...common,
      },
      { needs: { user: ['password'], password: ['user'] } },
    ),
  ])
  return {
    webhook: Type.Object(webhook, {
      description: `A single receiver with \`type: webhook\`, whose name is \`${WEBHOOK}\`.`,
    }),
    receivers: Type.Array(receiver, { default: [], maxItems: 10, description }),
  }
}

type Options = ReturnType<typeof eventsOptions>
type Receivers = Static<Options['receivers']>

interface EventsConfig {
  readonly webhook?: Static<Options['webhook']>
  readonly receivers: Receivers
}

export type ReceiverConfig = Receivers[number]
export type ReceiverOf<Type extends ReceiverConfig['type']> = ReceiverConfig & { type: Type }

/** Every receiver that is configured. */
export function receiversOf({ webhook, receivers }: EventsConfig): readonly ReceiverConfig[] {
  return webhook ? [{ name: WEBHOOK, type: WEBHOOK, ...webhook }, ...receivers] : receivers
}

/** Gives the TLS mode of an SMTP server: as configured, or by its port. */
export function smtpTlsOf({ tls, port }: Pick<ReceiverOf<'email'>, 'tls' | 'port'>) {
  return tls ?? (port === 465 ? 'implicit' : 'starttls')
}

/**
 * Reads the URL of a topic of ntfy: gives the topic, and the URL of the server.
 *
 * @throws Error that says what is wrong with the URL, without the URL
 */
export function ntfyTopic(url: string): { readonly server: string; readonly topic: string } {
  const [, server, topic] = /^([^?#]*\/)([-\w]{1,64})$/.exec(url) ?? []
  if (server === undefined || topic === undefined || /^https?:\/\/$/i.test(server))
    throw new Error('must end with the name of a topic, such as https://ntfy.sh/my-topic')
  return { server, topic }
}

/** The rules for the section `events`, beyond its schema. */
export function checkEvents({ events }: { readonly events: EventsConfig }): readonly Fault[] {
  return applyRules(events, EVENTS_RULES, '/events')
}

const EVENTS_RULES: readonly ConfigRule<EventsConfig>[] = [
  ({ webhook }) => (webhook ? checkUrl(webhook, '/webhook') : []),
  ({ receivers }) => checkUnique('/receivers', receivers),
  ({ receivers }) => applyToEach(receivers, '/receivers', RECEIVER_RULES),
  ({ receivers, webhook }) =>
    applyToEach(webhook ? receivers : [], '/receivers', [
      ({ name }) => faultIf(name === WEBHOOK, '/name', TAKEN),
    ]),
]
const TAKEN = 'is the name of `events.webhook`: choose another one'

const RECEIVER_RULES: readonly ConfigRule<ReceiverConfig>[] = [
  (receiver) => (receiver.type === 'email' ? [] : checkUrl(receiver, '')),
  (receiver) => (receiver.type === 'ntfy' ? faultOf('/url', () => ntfyTopic(receiver.url)) : []),
  (receiver) => (receiver.type === 'email' ? checkServer(receiver) : []),
]

function checkUrl({ url, allowHttp }: { url: string; allowHttp: boolean }, path: string): Fault[] {
  return faultOf(`${path}/url`, () => parseEndpointUrl(url, { allowHttp }))
}

function checkServer(receiver: ReceiverOf<'email'>): Fault[] {
  const { host, user } = receiver
  const parsed = isIP(host) > 0 || !host.startsWith('[') ? parseHost(host) : undefined
  if (!parsed) return [{ path: '/host', message: 'is not an IP address or host name' }]
  if (user === undefined || smtpTlsOf(receiver) !== 'off' || isLoopback(parsed)) return []
  const message = '`off` would send the password in plain text: only a loopback `host` may have it'
  return [{ path: '/tls', message }]
}

/** The rules for the files that receivers name. */
export function checkEventFiles({ events }: { readonly events: EventsConfig }): readonly Fault[] {
  const rule = ({ caFile }: { readonly caFile?: string }) => checkCertificateFile('/caFile', caFile)
  return [
    ...applyRules(events.webhook ?? {}, [rule], '/events/webhook'),
    ...applyToEach(events.receivers, '/events/receivers', [rule]),
  ]
}
