import { hash, randomBytes } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { ProviderError, type RedirectProvider, type SignedIn } from '@gatehouse/identity-providers'
import { fromClaims, type Profile } from '@gatehouse/profile'

type ReRead = Awaited<ReturnType<RedirectProvider['reRead']>>

/** A provider without a network, which keeps to what a login has to be bound by. */
export function createFakeProvider(name = 'corp') {
  const codes = new Map<string, { sub: string; nonce: string; challenge: string }>()
  const state = {
    failure: undefined as ProviderError['code'] | undefined,
    logoutUrl: undefined as URL | undefined,
    /** What the provider says about people besides. */
    claims: {} as object,
    /** What comes with a sign-in besides the profile. */
    signedIn: { tokens: {} } as Omit<SignedIn, 'profile'>,
    /** What is answered when it is asked again. Default: the same profile and tokens. */
    reRead: undefined as ReRead | ((before: Profile) => ReRead | Promise<ReRead>) | undefined,
  }

  function failIfAsked(): void {
    if (state.failure) throw new ProviderError(state.failure, `${name} plays ${state.failure}`)
  }

  const provider: RedirectProvider = {
    type: 'redirect',
    name,
    title: name,
    icon: undefined,
    color: undefined,
    stepsUp: true,
    reReads: true,
    relation: { issuer: `https://${name}.test`, clientId: 'gatehouse' },
    failing: () => state.failure !== undefined,
    close: async () => {},
    async authorizationUrl({ redirectUri, chooseAccount, stepUp, offlinePrompt, ...secrets }) {
      await setImmediate()
      failIfAsked()
      const query = new URLSearchParams({
        state: secrets.state,
        nonce: secrets.nonce,
        code_challenge: hash('sha256', secrets.codeVerifier, 'base64url'),
        redirect_uri: redirectUri,
        ...(chooseAccount && { prompt: 'select_account' }),
        ...(offlinePrompt && { prompt: offlinePrompt }),
        ...(stepUp && { acr_values: stepUp.acr.join(' '), max_age: `${stepUp.maxAge}` }),
      })
      return new URL(`https://${name}.test/authorize?${query}`)
    },
    async finish(callback, { state: sent, nonce, codeVerifier }) {
      await setImmediate()
      failIfAsked()
      const query = callback.searchParams
      const code = codes.get(query.get('code') ?? '')
      codes.delete(query.get('code') ?? '')
      const challenge = hash('sha256', codeVerifier, 'base64url')
      if (query.get('state') !== sent || code?.nonce !== nonce || code.challenge !== challenge)
        throw new ProviderError('FWA_PROVIDER_INVALID', 'the code is of another login')
      const claims = { sub: code.sub, name: `Name of ${code.sub}`, ...state.claims }
      return { ...state.signedIn, profile: fromClaims(name, claims) }
    },
    async reRead(tokens, profile) {
      await setImmediate()
      const { reRead } = state
      const answer = typeof reRead === 'function' ? await reRead(profile) : reRead
      return answer ?? { kind: 'read', signedIn: { ...state.signedIn, tokens, profile } }
    },
    // Its logout tokens are the JSON of their claims.
    async readLogoutToken(token) {
      try {
        return JSON.parse(token)
      } catch {
        throw new ProviderError('FWA_LOGOUT_TOKEN', 'the logout token is refused: it is no JSON')
      }
    },
    logoutUrl: async (target, idToken) => {
      failIfAsked()
      const query = state.logoutUrl?.searchParams
      query?.set('post_logout_redirect_uri', target)
      if (idToken !== undefined) query?.set('id_token_hint', idToken)
      return state.logoutUrl
    },
  }

  /** Signs somebody in at the provider, and gives the URL that they are sent back to. */
  function authorize(authorizationUrl: string | undefined, sub: string): URL {
    const query = new URL(authorizationUrl ?? '').searchParams
    const code = randomBytes(8).toString('hex')
    const [nonce, challenge] = [query.get('nonce') ?? '', query.get('code_challenge') ?? '']
    codes.set(code, { sub, nonce, challenge })
    const callback = new URL(query.get('redirect_uri') ?? '')
    callback.search = String(new URLSearchParams({ code, state: query.get('state') ?? '' }))
    return callback
  }

  return { provider, authorize, state }
}

export type FakeProvider = ReturnType<typeof createFakeProvider>
