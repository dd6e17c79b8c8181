import { createHash, randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { startDemoIdp } from '../src/index.ts'

const REDIRECT_URI = 'https://app.example/callback'
const SIGNED_OUT = 'https://app.example/signed-out'

async function start(t: Test) {
  const client = {
    ...{ clientId: 'app', clientSecret: 'secret-of-the-app' },
    ...{ redirectUris: [REDIRECT_URI], postLogoutRedirectUris: [SIGNED_OUT] },
  }
  const idp = await startDemoIdp({ clients: [client] })
  t.teardown(() => idp.close())
  const cookies = new Map<string, string>()

  /** As a browser asks: with cookies, and without following redirects. */
  async function ask(url: URL | string, form?: Record<string, string>) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: { cookie },
      ...(form && { method: 'POST', body: new URLSearchParams(form) }),
    })
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      cookies.set(name, value)
    }
    const location = answer.headers.get('location')
    return {
      answer,
      html: await answer.text(),
      next: location === null ? undefined : new URL(location, url),
    }
  }

  const verifier = randomUUID().repeat(2)
  const authorizationUrl = new URL('/auth', idp.issuer)
  authorizationUrl.search = new URLSearchParams({
    client_id: 'app',
    response_type: 'code',
    redirect_uri: REDIRECT_URI,
    scope: 'openid profile email groups',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  }).toString()

  async function token(fields: Record<string, string>) {
    const answer = await fetch(new URL('/token', idp.issuer), {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('app:secret-of-the-app')}` },
      body: new URLSearchParams(fields),
    })
    return (await answer.json()) as Record<string, string>
  }
  const redeem = (code: string) =>
    token({
      grant_type: 'authorization_code',
      redirect_uri: REDIRECT_URI,
      code,
      code_verifier: verifier,
    })
  return { ...idp, ask, authorizationUrl, redeem, token }
}

t.test('signing in and out', async (t) => {
  const { issuer, ask, authorizationUrl, redeem } = await start(t)
  const started = await ask(authorizationUrl)
  const page = await ask(started.next!)
  t.equal(page.answer.status, 200)
  t.match(page.html, 'value="alice"')
  t.match(page.html, 'value="bob"')
  const policy = page.answer.headers.get('content-security-policy') ?? ''
  const [, style = ''] = /<style>(.*?)<\/style>/s.exec(page.html) ?? []
  t.match(policy, `'sha256-${createHash('sha256').update(style).digest('base64')}'`)
  t.match(policy, "default-src 'none'")

  const chosen = await ask(started.next!, { account: 'alice' })
  const finished = await ask(chosen.next!)
  t.match(finished.next!.href, REDIRECT_URI)
  const code = finished.next!.searchParams.get('code') ?? ''
  const tokens = await redeem(code)
  t.type(tokens.id_token, 'string')
  const userInfo = await fetch(new URL('/me', issuer), {
    headers: { authorization: `Bearer ${tokens.access_token}` },
  })
  t.strictSame(await userInfo.json(), {
    sub: 'alice',
    name: 'Alice Arden',
    given_name: 'Alice',
    family_name: 'Arden',
    email: 'alice@example.com',
    email_verified: true,
    groups: ['admin', 'staff'],
  })
  t.match((await ask(authorizationUrl)).next!.href, REDIRECT_URI, 'not asked again')
  t.match(await redeem(code), { error: 'invalid_grant' }, 'a code is good once')

  const query = new URLSearchParams({ client_id: 'app', post_logout_redirect_uri: SIGNED_OUT })
  const leaving = await ask(new URL(`/session/end?${query}`, issuer))
  t.match(leaving.html, 'Sign out here too?')
  const [, xsrf = ''] = /name="xsrf" value="([^"]+)"/.exec(leaving.html) ?? []
  const left = await ask(new URL('/session/end/confirm', issuer), { xsrf, logout: 'yes' })
  t.match(left.next!.href, SIGNED_OUT)
  t.match((await ask(authorizationUrl)).next!.pathname, /^\/interaction\//, 'asked again')
})

t.test('an application gets a token that outlives the session', async (t) => {
  const { ask, authorizationUrl, redeem, token } = await start(t)
  const { searchParams } = authorizationUrl
  searchParams.set('scope', `${searchParams.get('scope')} offline_access`)
  searchParams.set('prompt', 'consent')
  const started = await ask(authorizationUrl)
  const chosen = await ask(started.next!, { account: 'alice' })
  const asked = await ask(chosen.next!)
  const allowed = await ask(asked.next!)
  const finished = await ask(allowed.next!)
  const { refresh_token: refresh = '' } = await redeem(
    finished.next!.searchParams.get('code') ?? '',
  )
  const renewed = await token({ grant_type: 'refresh_token', refresh_token: refresh })
  t.type(renewed.id_token, 'string')
})

t.test('a session is enough only for the acr that it began with', async (t) => {
  const { ask, authorizationUrl, redeem } = await start(t)
  const signIn = async (acrValues?: string) => {
    if (acrValues !== undefined) authorizationUrl.searchParams.set('acr_values', acrValues)
    const started = await ask(authorizationUrl)
    const isAsked = started.next!.pathname.startsWith('/interaction/')
    const chosen = isAsked ? await ask(started.next!, { account: 'alice' }) : undefined
    const { next } = chosen ? await ask(chosen.next!) : started
    const { id_token: token = '' } = await redeem(next!.searchParams.get('code') ?? '')
    const { acr } = JSON.parse(atob(token.split('.')[1] ?? ''))
    return { isAsked, acr }
  }
  t.match(await signIn(), { isAsked: true, acr: undefined })
  t.match(await signIn('unknown pwd'), { isAsked: false, acr: 'pwd' })
  t.match(await signIn('mfa'), { isAsked: true, acr: 'mfa' })
  t.match(await signIn('mfa pwd'), { isAsked: false, acr: 'mfa' })
  t.match(
    await signIn('unknown'),
    { isAsked: false, acr: 'mfa' },
    'what nobody can do is not asked',
  )
})

t.test('what goes wrong is told as text', async (t) => {
  const { issuer, ask, authorizationUrl } = await start(t)
  authorizationUrl.searchParams.set('redirect_uri', 'https://evil.example/<script>')
  const refused = await ask(authorizationUrl)
  t.equal(refused.answer.status, 400)
  t.notMatch(refused.html, '<script>')
  t.equal((await ask(new URL('/interaction/unknown', issuer))).answer.status, 400)
})

t.test('somebody who is not there cannot sign in', async (t) => {
  const { ask, authorizationUrl } = await start(t)
  const { next } = await ask(authorizationUrl)
  const chosen = await ask(next!, { account: 'mallory' })
  const finished = await ask(chosen.next!)
  t.notOk(finished.next?.searchParams.has('code'))
})
