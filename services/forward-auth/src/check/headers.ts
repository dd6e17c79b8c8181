import { FwaError } from '../errors.ts'
import type { Portal } from '../portals.ts'
import { findingsAt } from '../session/findings.ts'
import type { Session } from '../session/session.ts'

const MAX_LENGTH = 8_192
/** A session token may be as long as all cookies of its chunks. */
const MAX_TOKEN_LENGTH = 16_384
const SENDABLE = /^[ -~]*$/

/** The body of every 200. */
export const BODY = 'OK\n'

/** Names and values in turn. */
export type Headers = readonly string[]

/**
 * The headers of a 200: each that is configured, empty where there is no value, so that none that a
 * client sent survives. Made once per session and portal.
 *
 * @throws FwaError FWA_IDENTITY_UNSENDABLE
 */
export function identityHeaders(portal: Portal, session: Session): Headers {
  const findings = findingsAt(portal, session)
  findings.headers ??= makeHeaders(portal, session)
  return findings.headers
}

/** The headers of a 200 without a session, as for a preflight: all that are configured, all empty. */
export function anonymousHeaders(portal: Portal): Headers {
  return makeHeaders(portal, undefined)
}

function makeHeaders({ headers, tokenHeader }: Portal, session: Session | undefined): Headers {
  const made = [
    ...['cache-control', 'no-store'],
    ...['content-type', 'text/plain; charset=utf-8'],
    ...['content-length', String(BODY.length)],
  ]
  for (const { name, value } of headers)
    made.push(name, session ? sendable(name, () => value(session), MAX_LENGTH) : '')
  if (tokenHeader !== undefined)
    made.push(
      tokenHeader,
      sendable(tokenHeader, () => session?.token ?? '', MAX_TOKEN_LENGTH),
    )
  return made
}

function sendable(name: string, value: () => string, max: number): string {
  const text = read(name, value)
  if (text.length > max)
    throw new FwaError(
      'FWA_IDENTITY_UNSENDABLE',
      `the header ${name} would have ${text.length} characters, more than ${max}`,
    )
  if (!SENDABLE.test(text))
    throw new FwaError(
      'FWA_IDENTITY_UNSENDABLE',
      `the header ${name} would hold a control character`,
    )
  // A copy, so that all of a session lie side by side in memory.
  return Buffer.from(text, 'latin1').toString('latin1')
}

/** Reading a claim that is not known throws. */
function read(name: string, value: () => string): string {
  try {
    return value()
  } catch (cause) {
    throw new FwaError('FWA_IDENTITY_UNSENDABLE', `the header ${name} has no known value`, {
      cause,
    })
  }
}
