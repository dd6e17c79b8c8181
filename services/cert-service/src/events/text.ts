import { formatHostPort, parseHost } from '@gatehouse/net'
import { type EventText, tidy } from '@gatehouse/service-kit/events'
import { actionFor } from '../errors.ts'
import type { EventBody } from './event.ts'

/** The names that are listed, and the characters of a cause. */
const LIMITS = {
  brief: { names: 5, cause: 350 },
  whole: { names: 1_000, cause: 10_000 },
}

const INVENTORY =
  'The inventory of cert-service shows the cause. Correct it, then renew the certificate there.'

export function textOf(event: EventBody, length: keyof typeof LIMITS = 'brief'): EventText {
  const limits = LIMITS[length]
  const subject = listed(event.names, 1)
  const details: EventText['details'] = [
    ['Names', listed(event.names, limits.names)],
    ['Issuer', event.issuer],
  ]
  if (event.type === 'failing') return describeFailure(event, subject, details, limits)
  if ('state' in event) return describeServed(event, subject, details)
  const text = describeCertificate(event, subject)
  const end = ['Valid until', dated(event.notAfter)] as const
  return { ...text, details: [...details, ['Serial number', event.serialNumber], end] }
}

type Failing = EventBody & { readonly type: 'failing' }
type Probed = EventBody & { readonly type: 'not-served' | 'served-again' }
type Held = Exclude<EventBody, Failing | Probed>

const REPLACE = 'Fetch the certificate there if that is not done, then reload the server.'
const SERVED: Readonly<Partial<Record<Probed['state'], readonly [title: string, what: string]>>> = {
  older: ['An older certificate is served for', 'The server still serves one that was replaced.'],
  revoked: [
    'A revoked certificate is served for',
    'Clients that know of the revocation refuse it.',
  ],
  ended: ['An expired certificate is served for', 'Clients refuse it.'],
}

function describeServed(event: Probed, subject: string, details: EventText['details']): EventText {
  const { type, state, host, address, port, protocol, since, served } = event
  const place = formatHostPort({ host: parseHost(address) ?? { name: address }, port })
  const other = [
    'Another certificate is served for',
    `It is one of ${served.issuer ?? 'an issuer that is not known'}.`,
  ]
  const [title, what] = SERVED[state] ?? other
  const end = served.notAfter && (['It is valid until', dated(served.notAfter)] as const)
  const where = [
    'Place',
    `${place}, ${protocol}${host === address ? '' : `, for ${host}`}`,
  ] as const
  const rest = [...details, where, ['Since', dated(since)] as const, ...(end ? [end] : [])]
  if (type === 'not-served')
    return {
      title: `${title} ${subject}`,
      what: `${place} does not serve the newest certificate. ${what}`,
      action: REPLACE,
      details: rest,
      severity: 'warning',
    }
  return {
    title: `The newest certificate is served for ${subject}`,
    what: `${place} serves the newest certificate again.`,
    action: 'Nothing.',
    details: rest,
    severity: 'info',
  }
}

function describeFailure(
  { failures, error, nextTryAt }: Failing,
  subject: string,
  details: EventText['details'],
  limits: (typeof LIMITS)['brief'],
): EventText {
  const times = failures > 1 ? ` ${failures} attempts in a row have failed.` : ''
  const cause = error && `${error.code}: ${tidy(error.detail, limits.cause)}`
  return {
    title: `No certificate for ${subject}`,
    what: `The certificate could not be issued.${times} If there is an older one, it is served until it expires.`,
    action: (error && actionFor(error.code)) ?? 'The log of cert-service has the cause.',
    details: [
      ...details,
      ...(cause === undefined ? [] : [['Cause', cause] as const]),
      ...(nextTryAt === undefined ? [] : [['Next attempt', dated(nextTryAt)] as const]),
    ],
    severity: 'warning',
  }
}

function describeCertificate(event: Held, subject: string): Omit<EventText, 'details'> {
  const { type, at: time, notAfter, isCovered } = event
  if (isCovered)
    return {
      title: `An older certificate for ${subject} is not renewed`,
      what: 'The certificate is late, and another caller has a newer one for the same names.',
      action: `Nothing if the names have moved to that caller. Otherwise: ${late(event)}`,
      severity: 'warning',
    }
  if (type === 'expiring' && notAfter <= time)
    return {
      title: `The certificate for ${subject} has expired`,
      what: 'The certificate was not renewed and has expired. Clients refuse it.',
      action: late(event),
      severity: 'critical',
    }
  if (type === 'expiring')
    return {
      title: `The certificate for ${subject} expires soon`,
      what: `The certificate is due for renewal, but it was not renewed. It expires on ${dated(notAfter)}.`,
      action: late(event),
      severity: 'warning',
    }
  const isRenewed = type === 'renewed'
  return {
    title: `${isRenewed ? 'Renewed' : 'New'} certificate for ${subject}`,
    what: isRenewed ? 'The certificate was renewed.' : 'A new certificate was issued.',
    action: describeNext(event, isRenewed),
    severity: 'info',
  }
}

/** Explains what to do about a certificate that was not renewed in time. */
function late({ client, address }: Held): string {
  if (client === undefined) return INVENTORY
  const place = address === undefined ? '' : ` at ${address}`
  return `${client}${place} renews it: restart it there. The page of the certificate says when it was last seen.`
}

function describeNext({ renewAt, client }: Held, isRenewed: boolean): string {
  if (client !== undefined) return `Nothing. ${client} renews it.`
  if (renewAt === undefined)
    return 'It is not renewed automatically: request a new one before it expires.'
  const next = `cert-service renews it on ${dated(renewAt)}.`
  if (!isRenewed) return `Nothing. ${next}`
  return `Nothing, if your servers fetch it automatically. If you copied it by hand, copy it again. ${next}`
}

const FORMAT = { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' } as const
const DATE = new Intl.DateTimeFormat('en-GB', FORMAT)

function dated(time: string): string {
  return `${DATE.format(new Date(time))} UTC`
}

function listed(names: readonly string[], max: number): string {
  const more = names.length - max
  const shown = names.slice(0, max).join(', ')
  if (more <= 0) return shown
  return `${shown} and ${more === 1 ? '1 more name' : `${more} more names`}`
}
