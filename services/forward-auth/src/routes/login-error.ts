import { FwaError } from '../errors.ts'
import type { Place } from './place.ts'
import { pageUrl } from './redirect.ts'

/** What a person is told: how it went wrong, and where to begin again for where they wanted to go. */
export function withLoginUrl(
  { code, message, cause, retryAfter }: FwaError,
  place: Place,
  returnTo: string | undefined,
): FwaError {
  const loginUrl = pageUrl(place, '/signin', { rd: returnTo })
  return new FwaError(code, message, {
    cause,
    expose: true,
    members: { loginUrl },
    ...(retryAfter !== undefined && { retryAfter }),
  })
}
