import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BoundedFetch, createFetch, type FetchInit, type FetchOptions } from '@gatehouse/net'
import { compileAllow, compileCondition } from '@gatehouse/profile'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import type { ProviderConfig } from '../src/kinds.ts'
import type { RedirectProvider, SeamlessProvider } from '../src/provider.ts'
import { newLogin, open, reachCallback, refusal, signIn, signInWhole, testDeps } from './kit.ts'
import { createBrowser } from './stand-ins/browser.ts'
import { ASSERTION, startEntra, TENANT } from './stand-ins/entra.ts'
import { startGithub } from './stand-ins/github.ts'
import { startGitlab } from './stand-ins/gitlab.ts'
import { startGoogle } from './stand-ins/google.ts'
import { atStandIn, createFetchTo } from './stand-ins/hosts.ts'
import { CLIENT } from './stand-ins/openid-provider.ts'
import { deviceOf, startTailscale } from './stand-ins/tailscale.ts'

const { clientId, clientSecret } = CLIENT
const common = { clientId, clientSecret, timeout: 20_000 }
const scopes = ['openid', 'profile', 'email']

t.test('google', async (t) => {
  const { origins } = await startGoogle(t)
  const config = { type: 'google', name: 'goo', ...common, scopes } as const
  const provider = open(t, config, testDeps({ createFetch: createFetchTo(origins) }))
  const signInAs = async (person: string) => {
    const login = newLogin()
    const url = await provider.authorizationUrl(login)
    t.equal(url.origin, 'https://accounts.google.com')
    return (
      await provider.finish(await createBrowser().signIn(atStandIn(origins, url), person), login)
    ).profile
  }
  t.match(provider, { title: 'Google', icon: 'google' })
  const { claims, ...profile } = await signInAs('alice')
  t.strictSame(profile, {
    provider: 'goo',
    id: '110169484474386276334',
    name: { full: 'Alice Arden', first: 'Alice', last: 'Arden' },
    email: { address: 'alice@acme.example', verified: true },
    picture: 'https://lh3.googleusercontent.com/a/alice',
  })
  const { holds: ofAcme } = compileCondition('ClaimEqual("hd", "acme.example")')
  t.ok(ofAcme(await signInAs('alice')))
  t.notOk(ofAcme(await signInAs('mallory')), 'an address of the domain is no membership')
  const { searchParams } = await provider.authorizationUrl({ ...newLogin(), chooseAccount: true })
  t.equal(searchParams.get('prompt'), 'select_account')
  t.equal(searchParams.get('access_type'), 'offline', 'for a refresh token')
  t.equal(await provider.logoutUrl('https://auth.example.com/'), undefined)
})

t.test('microsoftEntraID', async (t) => {
  const configure = (authority: string, more: object = {}) =>
    ({
      ...{ type: 'microsoftEntraID', name: 'entra', ...common, scopes, authority },
      ...{ tenantId: TENANT, trustEmail: false, ...more },
    }) as ProviderConfig
  const { authority } = await startEntra(t)
  const provider = open(t, configure(authority))

  await t.test('people can be read again with offline_access only', async (t) => {
    t.notOk(provider.reReads)
    t.ok(open(t, configure(authority, { scopes: [...scopes, 'offline_access'] })).reReads)
    const answer = await provider.reRead({ access: 'a' }, await signIn(provider))
    t.match(answer, { kind: 'fault', error: { code: 'FWA_PROVIDER_INVALID' } }, 'not by UserInfo')
  })
  await t.test('the person is the object of the directory', async (t) => {
    t.match(provider, { title: 'Microsoft', icon: 'microsoft' })
    const { claims, ...profile } = await signIn(provider)
    t.strictSame(profile, {
      provider: 'entra',
      id: '0d3f3b1e-5a0f-4b8e-b7a4-6c2f1e9d8a01',
      name: { full: 'Alice Arden' },
      email: { address: 'alice@acme.example', verified: false },
      groups: ['b1f7…ops'],
      roles: ['Admin'],
    })
    t.match(claims, { tid: TENANT, wids: ['62e90394-69f5-4237-9190-012177145e10'] })
    for (const name of ['aio', 'rh', 'uti', 'ver']) t.notOk(name in claims, `without ${name}`)
    const byDirectoryRole = open(t, configure(authority, { rolesClaim: 'wids' }))
    t.match(await signIn(byDirectoryRole), { roles: ['62e90394-69f5-4237-9190-012177145e10'] })
  })
  await t.test(
    'an e-mail address counts as verified only if Entra ID or trustEmail says so',
    async (t) => {
      const verified = async (person: string, more?: object) =>
        (await signIn(open(t, configure(authority, more)), person)).email?.verified
      t.equal(await verified('alice'), false)
      t.equal(await verified('verified'), true, 'xms_edov')
      t.equal(await verified('alice', { trustEmail: true }), true)
      t.equal(await verified('alice', { trustEmail: 'unlessFalse' }), true)
    },
  )
  await t.test(
    'groups left out of a token for their number count as unknown, not as none',
    async (t) => {
      const profile = await signIn(provider, 'overage')
      t.notOk(compileCondition('Group("ops")').holds(profile))
      t.notOk(compileCondition('!Group("suspended")').holds(profile))
    },
  )
  await t.test('an ID token without the claim oid is refused', async (t) => {
    t.match(await refusal(signIn(provider, 'stranger')), /INVALID.*has no claim "oid"/)
  })
  await t.test('the ID token of another tenant is refused', async (t) => {
    const foreign = await startEntra(t, (issuer) =>
      issuer.replace(TENANT, '11111111-2222-3333-4444-555555555555'),
    )
    t.match(await refusal(signIn(open(t, configure(foreign.authority)))), /INVALID.*"iss"/)
  })
  await t.test('a person who wants another account chooses one', async (t) => {
    const { searchParams } = await provider.authorizationUrl({ ...newLogin(), chooseAccount: true })
    t.equal(searchParams.get('prompt'), 'select_account')
    t.equal(
      (await provider.logoutUrl('https://x.example/'))?.pathname,
      `/${TENANT}/oauth2/v2.0/logout`,
    )
  })

  await t.test('workload identity instead of a secret', async (t) => {
    const file = join(testFolder(t, { token: `${ASSERTION}\n` }), 'token')
    const withAssertion = (
      clientAssertion: object,
      createFetchOf: (options: FetchOptions) => BoundedFetch = createFetch,
    ) =>
      open(
        t,
        configure(authority, { clientSecret: undefined, clientAssertion }),
        testDeps({ createFetch: createFetchOf }),
      )
    for (const type of ['file', 'kubernetesServiceAccount', 'azureWorkloadIdentity'])
      t.ok((await signIn(withAssertion({ type, file }))).id, type)

    await t.test('the file is read anew each time', async (t) => {
      const provider = withAssertion({ type: 'file', file })
      writeFileSync(file, 'of-somebody-else')
      t.match(await refusal(signIn(provider)), /^FWA_CLIENT_REFUSED: .*invalid_client/)
      writeFileSync(file, ASSERTION)
      t.ok((await signIn(provider)).id)
    })
    for (const [what, path] of [
      ['missing', `${file}.missing`],
      ['empty', join(testFolder(t, { empty: '\n' }), 'empty')],
    ] as const)
      await t.test(`a file that is ${what}`, async (t) => {
        const provider = withAssertion({ type: 'file', file: path })
        t.match(await refusal(signIn(provider)), /^FWA_CLIENT_ASSERTION: .*(ENOENT|is empty)/)
        t.notOk(provider.failing(), 'is no fault of the provider')
      })

    const metadataService = (status: number, body: unknown) => {
      const asked: { url: string; headers: unknown }[] = []
      const createFetchOf = (options: FetchOptions) => {
        const fetch = createFetch(options)
        const redirected: typeof fetch = Object.assign(
          async (url: URL | string, init?: Parameters<typeof fetch>[1]) => {
            if (!String(url).startsWith('http://169.254.169.254/')) return fetch(url, init)
            asked.push({ url: String(url), headers: init?.headers })
            return { status, headers: {}, body: Buffer.from(JSON.stringify(body)) }
          },
          { close: fetch.close },
        )
        return redirected
      }
      return { asked, createFetchOf }
    }
    await t.test('a managed identity of Azure', async (t) => {
      const { asked, createFetchOf } = metadataService(200, { access_token: ASSERTION })
      const identity = { type: 'azureManagedIdentity', clientId: 'of-the-identity' }
      t.ok((await signIn(withAssertion(identity, createFetchOf))).id)
      t.match(asked, [{ headers: { metadata: 'true' } }])
      const { searchParams } = new URL(asked[0]!.url)
      t.strictSame(Object.fromEntries(searchParams), {
        'api-version': '2018-02-01',
        resource: 'api://AzureADTokenExchange',
        client_id: 'of-the-identity',
      })
    })
    await t.test('a managed identity that is none', async (t) => {
      const { createFetchOf } = metadataService(200, { error: 'invalid_request' })
      const provider = withAssertion({ type: 'azureManagedIdentity' }, createFetchOf)
      t.match(
        await refusal(signIn(provider)),
        /^FWA_CLIENT_ASSERTION: .*metadata.* sent an unexpected response/,
      )
    })
  })
})

t.test('gitlab', async (t) => {
  const { url } = await startGitlab(t)
  const configure = (groups: string[]) =>
    ({ type: 'gitlab', name: 'gl', ...common, scopes, url, groups }) as const
  const { claims, ...profile } = await signIn(open(t, configure(['acme'])))
  t.strictSame(profile, {
    provider: 'gl',
    id: '4711',
    name: { full: 'Alice Arden' },
    email: { address: 'alice@acme.example', verified: true },
    picture: 'https://gitlab.example/uploads/alice.png',
    groups: ['acme', 'acme/ops'],
  })
  t.notOk(
    Object.keys(claims).some((name) => name.includes('gitlab.org')),
    'no lists of roles',
  )
  const none = await signIn(open(t, configure([])))
  t.equal(
    none.groups,
    undefined,
    'groups that anybody can make mean nothing unless they are configured',
  )
  t.match(open(t, configure([])), { title: 'GitLab', icon: 'gitlab' })
})

t.test('github', async (t) => {
  const github = await startGithub(t)
  const config = {
    ...{ type: 'github' as const, name: 'code', ...common, url: github.url },
    organizations: [] as string[],
  } as const
  const provider = open(t, config)

  await t.test('the profile carries the configured name of the provider', async (t) => {
    const { claims, ...profile } = await signIn(provider)
    t.strictSame(profile, {
      provider: 'code',
      id: '583231',
      name: { full: 'Alice Arden' },
      email: { address: 'alice@acme.example', verified: true },
      picture: 'https://avatars.githubusercontent.com/u/583231',
    })
    t.equal(claims.preferred_username, 'alice')
    t.match(provider, { title: 'GitHub', icon: 'github' })
  })
  await t.test('a reused GitHub login name is another person', async (t) => {
    const [before, after] = [await signIn(provider), await signIn(provider, 'newcomer')]
    t.equal(before.claims.preferred_username, after.claims.preferred_username)
    t.not(before.id, after.id)
  })
  await t.test('only the verified primary address of GitHub is used', async (t) => {
    const { emails } = github.state
    t.teardown(() => Object.assign(github.state, { emails }))
    const table: [string, { email: string; primary: boolean; verified: boolean }[]][] = [
      ['unverified', [{ email: 'a@acme.example', primary: true, verified: false }]],
      ['not primary', [{ email: 'a@acme.example', primary: false, verified: true }]],
      ['none', []],
    ]
    for (const [what, given] of table) {
      Object.assign(github.state, { emails: given })
      t.equal((await signIn(provider)).email, undefined, what)
    }
  })
  await t.test('organisations and teams', async (t) => {
    const configured = open(t, { ...config, organizations: ['acme'] })
    const { groups } = await signIn(configured)
    t.strictSame(groups, ['acme', 'acme/ops'], 'from further pages; none of others’ organisations')
    const url = await configured.authorizationUrl(newLogin())
    t.equal(url.searchParams.get('scope'), 'read:user user:email read:org')
    const plain = await provider.authorizationUrl(newLogin())
    t.equal(plain.searchParams.get('scope'), 'read:user user:email')
    const allow = compileAllow({ groups: ['acme/ops'] })
    t.ok(allow(await signIn(configured)))
    t.notOk(allow(await signIn(provider)))
  })
  await t.test('too many organizations to read end the login', async (t) => {
    const { organizations } = github.state
    t.teardown(() => Object.assign(github.state, { organizations }))
    const many = Array.from({ length: 1_000 }, (_, index) => ({ login: `o${index}` }))
    Object.assign(github.state, { organizations: many })
    const configured = open(t, { ...config, organizations: ['acme'] })
    t.match(await refusal(signIn(configured)), /INVALID.*more than 1000 entries/)
  })
  await t.test('less granted than asked for is refused', async (t) => {
    const login = newLogin()
    const url = await provider.authorizationUrl(login)
    url.searchParams.set('scope', 'read:user')
    const callback = await createBrowser().signIn(url)
    t.match(
      await refusal(provider.finish(callback, login)),
      /INVALID.*user\/emails responded with status 404/,
    )
  })
  await t.test('refuses a GitHub code that is used twice or by another browser', async (t) => {
    const { callback, finish } = await reachCallback(provider)
    t.ok((await finish()).id)
    t.match(await refusal(finish()), /^FWA_LOGIN_REFUSED/)
    const other = await reachCallback(provider)
    const own = newLogin()
    callback.search = other.callback.search
    callback.searchParams.set('state', own.state)
    t.match(await refusal(provider.finish(callback, own)), /^FWA_LOGIN_REFUSED/, 'PKCE')
  })
  await t.test('refuses a GitHub callback that names another issuer', async (t) => {
    const { callback, finish } = await reachCallback(provider)
    callback.searchParams.set('iss', 'https://evil.example')
    t.match(await refusal(finish()), /INVALID.*"iss"/)
  })
  await t.test('a wrong client secret', async (t) => {
    const wrong = open(t, { ...config, clientSecret: 'wrong' })
    t.match(await refusal(signIn(wrong)), /^FWA_CLIENT_REFUSED: .*invalid_client/)
  })
  await t.test('what GitHub answers with 200 is an error all the same', async (t) => {
    const table: [error: string, expected: RegExp][] = [
      ['incorrect_client_credentials', /^FWA_CLIENT_REFUSED: GitHub .*; invalid_client why/],
      ['redirect_uri_mismatch', /^FWA_REQUEST_REFUSED: GitHub .*; redirect_uri_mismatch why/],
      ['bad_verification_code', /^FWA_LOGIN_REFUSED: .*; invalid_grant why/],
      ['unverified_user_email', /^FWA_LOGIN_REFUSED/],
      ['application_suspended', /^FWA_CLIENT_REFUSED/],
    ]
    for (const [error, expected] of table) {
      const json = { error, error_description: 'why', error_uri: 'https://docs.github.com' }
      const provider = open(t, config, testDeps({ createFetch: answering({ status: 200, json }) }))
      t.match(await refusal(signIn(provider)), expected, error)
    }
  })
  await t.test('people are read again with their access token', async (t) => {
    const deps = testDeps()
    const provider = open(t, { ...config, organizations: ['ACME', 'o1'] }, deps)
    t.match(provider, { relation: undefined, readLogoutToken: undefined, reReads: true })
    const { tokens, profile } = await signInWhole(provider)
    t.strictSame(tokens, { access: tokens.access }, 'which does not expire')
    github.state.organizations = [{ login: 'o1' }]
    const answer = await provider.reRead(tokens, profile)
    t.match(answer, { kind: 'read', signedIn: { tokens, profile: { groups: ['o1', 'ACME/ops'] } } })
    t.match(await provider.reRead(tokens, { ...profile, id: '1' }), { kind: 'ended' })
    t.match(await provider.reRead({ access: 'revoked' }, profile), { kind: 'ended', why: /401/ })
    t.match(await provider.reRead({}, profile), { kind: 'impossible' })
    const over = { ...tokens, accessUntil: deps.clock.now() }
    t.match(await provider.reRead(over, profile), { kind: 'impossible' })
  })
  await t.test('down, and back', async (t) => {
    const stopped = await startGithub(t)
    const provider = open(t, { ...config, url: stopped.url })
    const { callback, login } = await reachCallback(provider)
    await stopped.stop()
    t.match(await refusal(provider.finish(callback, login)), /^FWA_PROVIDER_UNREACHABLE/)
    t.ok(provider.failing())
    await stopped.restart()
    const { tokens, profile } = await signInWhole(provider)
    t.notOk(provider.failing())
    await stopped.stop()
    const answer = await provider.reRead(tokens, profile)
    t.match(answer, { kind: 'fault', error: { code: 'FWA_PROVIDER_UNREACHABLE' }, isUsed: false })
    t.ok(provider.failing())
  })
  await t.test('github.com, whose API is on a host of its own', async (t) => {
    const deps = testDeps({ createFetch: createFetchTo(github.origins) })
    const provider: RedirectProvider = open(t, { ...config, url: 'https://github.com' }, deps)
    const login = newLogin()
    const url = await provider.authorizationUrl({ ...login, chooseAccount: true })
    t.equal(url.href.split('?')[0], 'https://github.com/login/oauth/authorize')
    t.equal(url.searchParams.get('prompt'), 'select_account')
    const callback = await createBrowser().signIn(atStandIn(github.origins, url))
    t.equal((await provider.finish(callback, login)).profile.id, '583231')
  })
})

t.test('tailscaleWhois', async (t) => {
  const tailscale = await startTailscale(t)
  const ALICE = '100.101.102.103'
  const config = {
    ...{ type: 'tailscaleWhois' as const, name: 'net', socket: tailscale.socket, timeout: 20_000 },
    ...{ capabilities: [] as string[], taggedDevices: false },
  } as const
  const openWith = (more: Partial<ProviderConfig> = {}) =>
    open<SeamlessProvider>(t, { ...config, ...more } as ProviderConfig)
  const provider = openWith()
  const tagged = (node: string) => ({
    ...deviceOf(77, 'tagged-devices', node),
    Node: { StableID: node, Name: 'build-1.tail1234.ts.net.', Tags: ['tag:ci'] },
  })
  Object.assign(tailscale.devices, {
    [ALICE]: deviceOf(7, 'alice@acme.example'),
    'fd7a:115c:a1e0::7': deviceOf(7, 'alice@acme.example'),
    '100.101.102.104': deviceOf(8, 'alice@evil.example'),
    '100.101.102.105': tagged('nBUILDCNTRL'),
    '100.101.102.106': {
      ...deviceOf(9, 'guest@example.com'),
      Node: { StableID: 'nGUEST', Name: 'laptop.tail9999.ts.net.' },
    },
    '100.101.102.107': { Node: { StableID: 'n' } },
    '100.101.102.108': { ...deviceOf(10, 'x'), UserProfile: { ID: '10' } },
    '203.0.113.7': deviceOf(11, 'alice@acme.example'),
    '127.0.0.1': deviceOf(12, 'alice@acme.example'),
  })

  await t.test('whose device it is', async (t) => {
    t.match(provider, { type: 'seamless', title: 'Tailscale', icon: 'tailscale' })
    const { claims, ...profile } = (await provider.identify(ALICE))!
    t.strictSame(profile, {
      provider: 'net',
      id: 'user:7',
      name: { full: 'Alice Arden' },
      picture: 'https://example.com/alice.png',
    })
    t.match(claims, {
      preferred_username: 'alice@acme.example',
      ip: ALICE,
      hostname: 'laptop-7',
      tailnet: 'tail1234.ts.net',
      taggedDevice: false,
    })
  })
  await t.test('the same local part in another tailnet is another person', async (t) => {
    t.not((await provider.identify(ALICE))?.id, (await provider.identify('100.101.102.104'))?.id)
  })
  await t.test('ignores whois for addresses outside the ranges of Tailscale', async (t) => {
    const table = [
      '203.0.113.7',
      '127.0.0.1',
      '::1',
      '100.128.0.1',
      '10.0.0.1',
      'alice',
      '',
      `${ALICE}:1`,
    ]
    for (const ip of table) t.equal(await provider.identify(ip), undefined, ip)
  })
  await t.test('spellings of an address', async (t) => {
    t.equal((await provider.identify(`::ffff:${ALICE}`))?.claims.ip, ALICE)
    t.equal((await provider.identify('FD7A:115C:A1E0:0::7'))?.id, 'user:7')
    t.equal(await provider.identify('100.101.102.200'), undefined, 'a device that there is not')
  })
  await t.test('a session belongs to the address', async (t) => {
    const profile = (await provider.identify(ALICE))!
    t.ok(provider.fits(profile, ALICE))
    t.ok(provider.fits(profile, `::ffff:${ALICE}`))
    for (const ip of ['100.101.102.104', '', 'unknown']) t.notOk(provider.fits(profile, ip), ip)
    t.notOk(provider.fits({ ...profile, claims: {} }, 'unknown'))
  })
  await t.test('devices of another tailnet', async (t) => {
    const restricted = openWith({ tailnet: 'tail1234.ts.net' })
    t.equal((await restricted.identify(ALICE))?.id, 'user:7')
    t.equal(await restricted.identify('100.101.102.106'), undefined)
    t.equal(await openWith({ tailnet: 'ts.net' }).identify(ALICE), undefined, 'nor of a part')
    t.equal((await provider.identify('100.101.102.106'))?.claims.tailnet, 'tail9999.ts.net')
  })
  await t.test('devices that belong to nobody', async (t) => {
    t.equal(await provider.identify('100.101.102.105'), undefined)
    t.match(await openWith({ taggedDevices: true }).identify('100.101.102.105'), {
      id: 'node:nBUILDCNTRL',
      name: { full: 'build-1' },
      groups: ['tag:ci'],
      claims: { taggedDevice: true },
    })
  })
  await t.test('capabilities become claims if they are configured', async (t) => {
    const capabilities = ['acme.com/cap/wiki', 'acme.com/cap/none', 'toString']
    const { claims } = (await openWith({ capabilities }).identify(ALICE))!
    t.strictSame(claims['https://acme.com/cap/wiki'], [{ role: 'editor' }])
    for (const name of ['other', 'none']) t.notOk(`https://acme.com/cap/${name}` in claims)
    t.notOk('https://toString' in claims)
  })
  await t.test('answers that are refused', async (t) => {
    for (const ip of ['100.101.102.107', '100.101.102.108'])
      t.match(await refusal(provider.identify(ip)), /INVALID.*whois sent an unexpected response/)
  })
  await t.test('a daemon that is down, and back', async (t) => {
    await tailscale.stop()
    const provider = openWith()
    t.notOk(provider.failing())
    t.match(await refusal(provider.identify(ALICE)), /^FWA_PROVIDER_UNREACHABLE/)
    t.ok(provider.failing())
    await tailscale.start()
    t.equal((await provider.identify(ALICE))?.id, 'user:7')
    t.notOk(provider.failing())
  })
})

/** A fetch to which the token endpoint answers this. */
function answering({ status, json }: { readonly status: number; readonly json: unknown }) {
  return (options: FetchOptions): BoundedFetch => {
    const fetch = createFetch(options)
    const headers = { 'content-type': 'application/json; charset=utf-8' }
    return Object.assign(
      async (url: URL | string, init?: FetchInit) =>
        init?.method === 'POST'
          ? { status, headers, body: Buffer.from(JSON.stringify(json)) }
          : fetch(url, init),
      { close: fetch.close },
    )
  }
}
