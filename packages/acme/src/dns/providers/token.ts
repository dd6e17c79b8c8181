import { Type } from 'typebox'
import type { Clock } from '../../clock.ts'
import { parseJson, readReason } from './call.ts'

/** What the token endpoints of OAuth 2 and of the metadata services give; the lifetime is in seconds. */
export const TokenSchema = Type.Object({
  access_token: Type.String({ minLength: 1 }),
  expires_in: Type.Union([Type.Number(), Type.String({ pattern: '^\\d{1,9}$' })]),
})

export interface Token {
  readonly access_token: string
  readonly expires_in: number | string
}

const MARGIN_MS = 60_000

/** Keeps a token until shortly before its end. */
export function createTokenSource(
  request: (signal: AbortSignal) => Promise<Token>,
  clock: Clock,
): (signal: AbortSignal) => Promise<string> {
  let kept = { token: '', until: 0 }
  return async (signal) => {
    if (clock.now() >= kept.until) {
      const { access_token: token, expires_in: seconds } = await request(signal)
      kept = { token, until: clock.now() + Number(seconds) * 1_000 - MARGIN_MS }
    }
    return kept.token
  }
}

const OauthErrorSchema = Type.Object({ error: Type.String({ pattern: '^[a-z_]{1,50}$' }) })

/** The code alone: a description may quote what was sent. */
export const oauthError = (body: Buffer): string | undefined =>
  readReason(parseJson(body), OauthErrorSchema, ({ error }) => error)
