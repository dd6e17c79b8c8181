import type { Profile } from '@gatehouse/profile'
import type { Page } from '@gatehouse/service-kit/pages'
import type { Language } from '../../src/pages/languages/index.ts'
import {
  type Choice,
  errorPage,
  logoutPage,
  type PagePortal,
  providerDownPage,
  refusedPage,
  signedInPage,
  signedOutPage,
  signInPage,
} from '../../src/pages/pages.ts'

export const IMAGES = 'https://auth.example.com/portals/main/images/'

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

const PROVIDERS = [
  ['Example Corp', 'openid'],
  ['Google', 'google'],
  ['Microsoft', 'microsoft'],
  ['GitHub', 'github'],
  ['GitLab', 'gitlab'],
  ['Pocket ID', 'pocket-id'],
  ['Tailscale', 'tailscale'],
  ['The old directory of the house', undefined],
] as const

export const choices: readonly Choice[] = PROVIDERS.map(([title, icon]) => ({
  title,
  icon,
  color: undefined,
  href: '/portals/main/providers/corp?rd=https%3A%2F%2Fapp.example.com%2F',
  failing: title === 'GitLab',
}))

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
  const reader = { portal: door, language, imagesUrl: IMAGES }
  const provider = { title, icon: undefined, color: undefined }
  const returnTo = new URL('https://app.example.com/reports')
  const renamed = choices.map((choice) =>
    choice.icon === 'openid' ? { ...choice, title } : choice,
  )
  return {
    'sign-in': signInPage({ ...reader, choices: renamed, returnTo }),
    'sign-in-one': signInPage({
      ...reader,
      choices: [{ ...provider, href, failing: false }],
    }),
    'signed-in': signedInPage({
      ...{ ...reader, profile, logoutHref: href, cameFrom: returnTo },
      apps: [
        { name: title, url: new URL('https://wiki.example.com/start') },
        { name: 'grafana.example.com', url: new URL('https://grafana.example.com/') },
      ],
    }),
    'signed-in-without-apps': signedInPage({
      ...reader,
      ...{ profile, logoutHref: href, profileHref: href, apps: [] },
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
    refused: refusedPage({ ...reader, profile, switchHref: href, requestId }),
    error: errorPage({
      ...{
        ...reader,
        status: 400,
        code: 'FWA_LOGIN_UNKNOWN',
        problem: { title, detail: text },
      },
      ...{ providerSays: title, retryHref: href, requestId },
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
      retryHref: href,
      otherHref: href,
    }),
  }
}
