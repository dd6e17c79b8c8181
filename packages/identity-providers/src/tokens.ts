import { type FetchAnswer, parseJson } from '@gatehouse/net'
import type { Clock } from '@gatehouse/service-kit/clock'
import type { TokenEndpointResponse } from 'openid-client'
import type { ProviderTokens } from './provider.ts'

/** A longer one would not fit into the URL of a logout at many proxies. */
const MAX_ID_TOKEN = 4_096

/** Keeps of an answer what was not there before; the access token only where it is needed. */
export function keepTokens(
  answer: TokenEndpointResponse,
  storedTokens: ProviderTokens,
  isAccessNeeded: (refresh: string | undefined) => boolean,
  clock: Clock,
): ProviderTokens {
  const { refresh_token: refresh = storedTokens.refresh, refresh_expires_in: seconds } = answer
  const ids = [answer.id_token, storedTokens.id]
  const id = ids.find((token) => token && token.length <= MAX_ID_TOKEN)
  return {
    ...(refresh !== undefined && { refresh }),
    // Keycloak writes 0 for tokens without an end.
    ...(Number(seconds) > 0 && { refreshUntil: clock.now() + Number(seconds) * 1_000 }),
    ...(isAccessNeeded(refresh) && keepAccess(answer, clock)),
    ...(id !== undefined && { id }),
  }
}

/** The access token, and until when it is valid. */
export function keepAccess(
  { access_token: access, expires_in: seconds }: TokenEndpointResponse,
  { now }: Clock,
): Pick<ProviderTokens, 'access' | 'accessUntil'> {
  return { access, ...(seconds !== undefined && { accessUntil: now() + seconds * 1_000 }) }
}

/** Tokens with the refresh token of an answer that could not be used otherwise, if it has one. */
export function keepRefresh(
  storedTokens: ProviderTokens,
  answer: FetchAnswer | undefined,
): ProviderTokens | undefined {
  const refresh = answer?.status === 200 && Object(parseJson(answer.body)).refresh_token
  return typeof refresh === 'string' && refresh !== '' ? { ...storedTokens, refresh } : undefined
}
