import { PROVIDER_ICONS } from '@gatehouse/identity-providers'
import type { Profile } from '@gatehouse/profile'
import type { Page } from '@gatehouse/service-kit/pages'
import { accountPage, profilePage } from '../../src/pages/account.ts'
import { callPage, callsPage, type ShownCall } from '../../src/pages/calls.ts'
import { consentPage } from '../../src/pages/consent.ts'
import type { Language } from '../../src/pages/languages.ts'
import {
  type Choice,
  continuePage,
  errorPage,
  framedPage,
  logoutPage,
  type PagePortal,
  providerDownPage,
  refusedPage,
  signedOutPage,
  signInPage,
  unsentPage,
} from '../../src/pages/pages.ts'
import { type ShownAgent, type ShownSession, sessionsPage } from '../../src/pages/sessions.ts'
import { argumentLines } from '../../src/pages/visible.ts'

export const PORTAL = 'https://auth.example.com/portals/main'

/** A portal as pages see it. */
export const portal: PagePortal = {
  title: 'Example',
  accent: '#4256d0',
  providers: new Map(),
  texts: { intro: 'For people who work at Example.', footer: { en: 'Imprint', de: 'Impressum' } },
  contact: 'mailto:help@example.com',
  logo: undefined,
  favicon: undefined,
}

export const ada: Profile = {
  provider: 'Example Corp',
  id: '5f0c2c1e',
  name: { full: 'Ada Lovelace', first: 'Ada', last: 'Lovelace' },
  email: { address: 'ada@example.com', verified: true },
  claims: {},
}

/** A provider with each icon, and one without. */
export const choices: readonly Choice[] = [...PROVIDER_ICONS.keys(), undefined].map((icon) => ({
  title: icon ?? 'The old directory of the house',
  icon,
  color: undefined,
  href: '/portals/main/providers/corp?rd=https%3A%2F%2Fapp.example.com%2F',
  condition: icon === 'google' ? 'away' : icon === 'github' ? 'slow' : 'well',
}))

const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
const PHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1'

/** A session that began in 2030, with what is special of it. */
export const session = (special: Partial<ShownSession> = {}): ShownSession => ({
  ...{ id: 'a1', isCurrent: false, userAgent: FIREFOX, address: '192.0.2.7' },
  begun: Date.UTC(2030, 0, 1, 8),
  lastSeen: Date.UTC(2030, 0, 1, 9, 30),
  ends: Date.UTC(2030, 0, 1, 16),
  hosts: ['app.example.com', 'wiki.example.com'],
  ...special,
})

/** An agent that was connected in 2030, with what is special of it. */
export const agent = (special: Partial<ShownAgent> = {}): ShownAgent => ({
  ...{ id: 'g1', clientHost: 'claude.ai', name: 'Claude' },
  ...{ resources: ['https://notes.example.com/mcp'], scopes: ['notes:read', 'notes:write'] },
  begun: Date.UTC(2030, 0, 1, 8),
  lastCall: Date.UTC(2030, 0, 1, 9, 30),
  ends: Date.UTC(2030, 0, 1, 16),
  ...special,
})

/** A call that waits since 2030, with what is special of it. */
export const call = (special: Partial<ShownCall> = {}): ShownCall => ({
  ...{ resource: 'https://notes.example.com/mcp', tool: 'delete_note' },
  arguments: argumentLines({ id: 'shopping-2029', reason: 'Done long ago' }) ?? [],
  ...{ clientHost: 'claude.ai', clientName: 'Claude', principal: undefined },
  ...{ begun: Date.UTC(2030, 0, 1, 8), until: Date.UTC(2030, 0, 1, 8, 10) },
  ...special,
})

/** The form of a page that asks about a call. */
export const callForm = {
  ...{ action: '/portals/main/account/calls/id', form: 'sealed' },
  ...{ remember: 900_000, isOfAgent: true, hasStepUp: false },
}

/** What a consent page asks, with what is special of it. */
export const asked = (special: Partial<Asked> = {}): Asked => ({
  ...{ portal, profile: ada, language: 'en', portalUrl: PORTAL },
  ...{
    clientHost: 'claude.ai',
    isConfigured: false,
    name: 'Claude',
    redirectHost: 'claude.ai',
    isLoopback: false,
  },
  resource: 'https://notes.example.com/mcp',
  scopes: [
    { name: 'notes:read', text: { en: 'Read your notes', de: 'Ihre Notizen lesen' } },
    { name: 'notes:write', text: 'Write and delete notes' },
  ],
  ...{ action: '/portals/main/oauth/consent', form: 'sealed', switchHref: '/portals/main/signin' },
  ...special,
})

type Asked = Parameters<typeof consentPage>[0]

/** Every page, by name; what a person or provider has a say in can be replaced. */
export function samples({
  portal: door = portal,
  profile = ada,
  language = 'en' as Language,
  title = 'Example Corp',
  text = 'The login took too long, or was begun in another browser.',
  requestId = '01JD3Z9R6WJ8N0Q5',
  href = '/portals/main/signin?switch=1&rd=https%3A%2F%2Fapp.example.com%2Freports%2F2026',
} = {}): Readonly<Record<string, Page>> {
  const reader = { portal: door, language, portalUrl: PORTAL }
  const provider = { title, icon: undefined, color: undefined }
  const returnTo = new URL('https://app.example.com/reports')
  const own = {
    sessions: [
      session({ isCurrent: true, hosts: [] }),
      session({ id: requestId, userAgent: PHONE, address: text, hosts: [title] }),
      session({ id: href, userAgent: text, address: undefined }),
    ],
    ...{ endAction: href, othersAction: href, everywhereAction: href },
  }
  const agents = [agent({ name: title }), agent({ id: href, clientHost: undefined, scopes: [] })]
  const ask = { ...reader, profile, action: '/consent', switchHref: href, name: title }
  const everybody = {
    ...{ endAction: href, searchAction: href, endPersonAction: href },
    sessions: own.sessions.map((one) => ({ ...one, profile })),
  }
  const renamed = choices.map((choice) =>
    choice.icon === 'openid' ? { ...choice, title } : choice,
  )
  return {
    'sign-in': signInPage({ ...reader, choices: renamed, returnTo }),
    'sign-in-one': signInPage({
      ...reader,
      choices: [{ ...provider, href, condition: 'well' }],
    }),
    'signed-in': accountPage({
      ...{ ...reader, profile, cameFrom: returnTo },
      apps: [
        { name: title, url: new URL('https://wiki.example.com/start') },
        { name: 'grafana.example.com', url: new URL('https://grafana.example.com/') },
      ],
    }),
    profile: profilePage({ ...reader, profile }),
    'signed-in-with-many-apps': accountPage({
      ...{ ...reader, profile, search: { text: '', total: 200 } },
      apps: Array.from({ length: 12 }, (_, i) => {
        return { name: `${title} ${i}`, url: new URL(`https://app-${i}.example.com/`) }
      }),
    }),
    'apps-not-found': accountPage({
      ...{ ...reader, profile, apps: [], search: { text, total: 200 } },
    }),
    'signed-in-without-apps': accountPage({ ...reader, profile, apps: [] }),
    account: accountPage({
      ...reader,
      profile,
      ownSessions: own,
      allSessionsHref: href,
    }),
    'account-with-agents': accountPage({
      ...{ ...reader, profile },
      ownSessions: { ...own, agents },
    }),
    'all-sessions': sessionsPage({ ...reader, ...everybody }),
    'all-agents': sessionsPage({
      ...{ ...reader, ...everybody },
      agents: agents.map((one) => ({ ...one, profile })),
    }),
    'sessions-of-one': sessionsPage({ ...reader, ...everybody, person: title }),
    'sessions-of-none': sessionsPage({ ...reader, ...everybody, person: title, sessions: [] }),
    consent: consentPage(asked(ask)),
    'consent-app': consentPage(asked({ ...ask, redirectHost: 'cursor:', scopes: [] })),
    'consent-loopback': consentPage(
      asked({
        ...{ ...ask, clientHost: undefined, redirectHost: '127.0.0.1:33418', isLoopback: true },
      }),
    ),
    call: callPage({ ...reader, profile, call: call(), result: callForm, listHref: href }),
    'call-of-another': callPage({
      ...{ ...reader, profile, listHref: href },
      call: call({
        ...{ clientHost: undefined, clientName: title, principal: profile },
        arguments: argumentLines({ text: `a\u202e${' '.repeat(50)}b`, nested: { id: [1, 2] } })!,
      }),
      result: { ...callForm, remember: undefined, isOfAgent: false },
    }),
    ...Object.fromEntries(
      (['allowed', 'denied', 'ended', 'expired'] as const).map((result) => [
        `call-${result}`,
        callPage({ ...reader, profile, call: call(), result, listHref: href }),
      ]),
    ),
    calls: callsPage({ ...reader, profile, calls: [{ ...call(), href }] }),
    'calls-none': callsPage({ ...reader, profile, calls: [] }),
    'account-with-calls': accountPage({
      ...{ ...reader, profile, calls: { href, count: 2 } },
    }),
    'sign-out': logoutPage({ ...reader, profile, action: '/logout', stayHref: href }),
    'signed-out': signedOutPage({
      ...reader,
      signInHref: href,
      provider,
      providerHref: href,
    }),
    'signed-out-here': signedOutPage({
      ...reader,
      signInHref: href,
      mayStayValidUntil: Date.UTC(2030, 0, 1),
    }),
    ...{
      unsent: unsentPage({ ...reader, signInHref: href, image: 'data:,', origins: [] }),
      framed: framedPage({ ...reader, href, framedBy: 'example.com:* *.example.com:*' }),
      unsentAbroad: unsentPage({
        ...reader,
        ...{ signInHref: href, image: undefined, origins: [] },
      }),
      onTheWay: continuePage({ ...reader, profile, url: returnTo, action: href }),
    },
    refused: refusedPage({ ...reader, profile, switchHref: href, requestId, host: title }),
    'refused-everywhere': refusedPage({ ...reader, profile, switchHref: href, requestId }),
    error: errorPage({
      ...{
        ...reader,
        status: 400,
        code: 'FWA_LOGIN_UNKNOWN',
        problem: { title, detail: text },
      },
      ...{ providerSays: title, retryHref: href, requestId },
    }),
    'error-wait': errorPage({
      ...{ ...reader, status: 503, code: 'STORE_UNAVAILABLE', requestId },
      ...{ retryHref: '', retryAfter: 40 },
    }),
    'error-refused': errorPage({
      ...{ ...reader, status: 403, code: 'FWA_LOGIN_REFUSED', requestId },
      ...{ providerSays: text, retryHref: href },
    }),
    'error-setup': errorPage({
      ...{
        ...reader,
        status: 403,
        code: 'FWA_PEER_UNTRUSTED',
        problem: { title, detail: text },
        requestId,
      },
    }),
    'error-cookies': errorPage({
      ...{ ...reader, status: 400, code: 'FWA_COOKIES_BLOCKED', retryHref: href, requestId },
    }),
    'error-bare': errorPage({
      language,
      status: 404,
      code: 'NOT_FOUND',
      problem: { title, detail: text },
      requestId,
    }),
    'provider-down': providerDownPage({
      ...reader,
      provider,
      since: Date.UTC(2030, 0, 1),
      retryHref: href,
      otherHref: href,
    }),
  }
}
