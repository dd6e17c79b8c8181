import {
  type AuditRecord,
  type CertificateRecord,
  type InService,
  type OrderRecord,
  type PastCertificate,
  PROBE_STATES,
  type ProbeRecord,
} from '@gatehouse/cert-store/port'
import type { Language, Page } from '@gatehouse/service-kit/pages'
import {
  NOW,
  newAudit,
  newCertificate,
  newOrder,
  newProbe,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { donePage } from '../../src/actions/done.ts'
import { dryRunPage } from '../../src/actions/dry-run-page.ts'
import { ACTIONS, confirmPage } from '../../src/actions/page.ts'
import {
  type CertificateView,
  certificatePage,
  nameWithoutCertificatePage,
  orderPage,
} from '../../src/certificate-page/page.ts'
import { spansUntil } from '../../src/inventory/chart.ts'
import { type Inventory, inventoryPage } from '../../src/inventory/page.ts'
import { problemPage } from '../../src/pages/problem.ts'
import { english } from '../../src/pages/say.ts'
import { confirmRequest, requestPage } from '../../src/request-page/page.ts'
import { signInPage, tokensOnlyPage } from '../../src/visitors/sign-in-page.ts'

const HOUR = 3_600_000
const IN_SERVICE = {
  isCurrent: true,
  askedBy: 'psk:web',
  revokedAt: null,
  revocationReason: null,
  replacedBy: null,
  downloadedAt: null,
}

export const PORTAL = 'https://auth.example.com/portals/main'
const ALL_RIGHTS = {
  visibleNames: ['*'],
  mayRequest: true,
  maySeeName: true,
  mayRequestName: true,
}
const NO_RIGHTS = {
  visibleNames: [],
  mayRequest: false,
  maySeeName: false,
  mayRequestName: false,
}
const ada = (person: string) => ({
  person,
  groups: [person],
  accountHref: `${PORTAL}/account`,
  signOutHref: `${PORTAL}/logout`,
})
export const record = (overrides: Partial<CertificateRecord> = {}): CertificateRecord => ({
  ...newCertificate(overrides),
  id: 1,
})
export const failed = (overrides: Partial<OrderRecord> = {}) =>
  newOrder({
    status: 'failed',
    lastError: { code: 'PKI_CA_EXPIRED', detail: 'the intermediate ends first', at: NOW },
    nextTryAt: NOW + HOUR,
    ...overrides,
  })

export function page(overrides: Partial<Inventory> = {}) {
  return inventoryPage({
    lang: 'en',
    visitor: { key: 'ops' },
    view: { order: 'next' },
    rows: [{ record: record(), order: undefined }],
    failed: [],
    hasMoreFailed: false,
    neighbours: {},
    issuers: ['ca'],
    rights: ALL_RIGHTS,
    origin: 'https://certs.example.com',
    now: NOW,
    ...overrides,
  })
}

export const inService = (
  changes: Partial<CertificateRecord & InService> = {},
): CertificateRecord & InService => ({
  ...{
    ...newCertificate({ ...changes, askedBy: 'psk:web' }),
    ...IN_SERVICE,
    id: 1,
    serialNumber: 'ab',
    certificate: Buffer.from('x'),
  },
  ...changes,
})
const pastOf = (changes: Partial<PastCertificate> = {}): PastCertificate => ({
  ...inService(),
  ...changes,
})

export const certificateView = (changes: Partial<CertificateView> = {}): CertificateView => ({
  lang: 'en',
  visitor: ada('Ada'),
  record: inService(),
  order: undefined,
  history: [pastOf()],
  activity: undefined,
  actions: [],
  root: undefined,
  ownRoot: Buffer.from('root'),
  done: undefined,
  origin: 'https://certs.example.com',
  coverage: undefined,
  lastSeen: undefined,
  transitions: undefined,
  served: undefined,
  now: NOW,
  ...changes,
})

export const failedOrder = (said: string) =>
  newOrder({
    id: said,
    status: 'failed',
    names: [said],
    issuer: said,
    step: said,
    lastError: { code: said, detail: said, at: NOW },
    nextTryAt: NOW + HOUR,
  })

/** Every page of the list, with a text wherever one comes from elsewhere. */
export const inventoryPages = (said: string, lang: Language = 'en') => ({
  inventory: page({
    lang,
    visitor: ada(said),
    view: {
      search: said,
      order: 'name',
      state: 'failing',
      issuer: said,
      place: { cursor: said, isBackwards: false },
    },
    issuers: ['ca', said],
    query: { search: { part: said }, name: { text: said, kind: 'dns', labels: [] } },
    origin: said,
    rows: [
      {
        record: record({ issuer: said, renewAt: null }),
        order: failed({ lastError: { code: said, detail: said, at: NOW } }),
      },
    ],
    failed: [
      { order: failed({ names: [said], lastError: { code: said, detail: said, at: NOW } }) },
    ],
    hasMoreFailed: true,
    neighbours: { previous: `${said}_1`, next: `${said}_2` },
  }),
  empty: page({ lang, rows: [], origin: said }),
  closed: page({ lang, visitor: ada(said), rows: [], rights: NO_RIGHTS }),
  'closed to somebody of no groups': page({
    ...{ lang, visitor: { ...ada(said), groups: [] }, rows: [], rights: NO_RIGHTS },
  }),
  limited: page({
    ...{ lang, visitor: ada(said), rows: [] },
    rights: { ...NO_RIGHTS, visibleNames: Array.from({ length: 7 }, (_, n) => `${said}${n}`) },
  }),
  overview: page({
    lang,
    summary: {
      counts: { renews: 7, due: 0, unrenewed: 1, failing: 2, ended: 0 },
      renewals: Array.from({ length: 14 }, (_, i) => i % 3),
      ends: Array.from({ length: 14 }, (_, i) => i % 2),
      spans: spansUntil(NOW, NOW),
      isPartial: true,
    },
  }),
  live: page({ lang, view: { order: 'next', isLive: true } }),
  covered: page({
    lang,
    view: { search: said, order: 'next' },
    query: {
      search: { part: said, wildcard: 'app.example.com' },
      name: { text: said, kind: 'dns', labels: [] },
    },
    covering: record(),
  }),
  nothing: page({
    lang,
    rows: [],
    view: { search: said, order: 'next' },
    query: { search: { part: said, serialNumber: said } },
  }),
  'sign-in': signInPage(lang, { isWrong: true }),
  tokens: tokensOnlyPage(lang, said),
  problem: problemPage(
    { lang, visitor: ada(said) },
    { type: '', title: said, status: 400, code: said, detail: said },
  ),
})

/** A place in each state, with a text wherever one comes from elsewhere. */
const probesOf = (said: string): readonly ProbeRecord[] =>
  PROBE_STATES.map((state, id) => {
    const place = { name: said, host: said, address: id > 0 ? said : '', protocol: said }
    return { ...newProbe({ ...place, state, issuer: said, reporter: id > 1 ? said : '' }), id }
  })

/** Every page about a certificate, with a text wherever one comes from elsewhere. */
export const certificatePages = (said: string, lang: Language = 'en'): Record<string, Page> => {
  const names = [said, said]
  const audit: AuditRecord = {
    ...{ ...newAudit({ names, actor: said, detail: said, remoteAddress: said }), id: 1, count: 2 },
  }
  const history = [
    pastOf({ id: 4, names, serialNumber: said, issuer: said, requestKey: said }),
    pastOf({
      id: 3,
      names,
      serialNumber: said,
      isCurrent: false,
      revokedAt: NOW,
      revocationReason: 'superseded',
    }),
    pastOf({ id: 2, names, serialNumber: said, isCurrent: false, requestKey: said }),
    pastOf({ id: 1, names, serialNumber: said, isCurrent: false, requestKey: 'gone' }),
  ]
  const of = { names, serialNumber: said, issuer: said, explanationUrl: said, checkAt: NOW }
  const window = { windowStart: null, windowEnd: null }
  const done = { domain: said, order: said, unknownAtCa: 1, unconfirmed: 1 } as const
  const common = {
    ...{
      lang,
      visitor: ada(said),
      history,
      activity: [audit],
      actions: ACTIONS,
      origin: said,
    },
    done: { ...done, action: 'renew' as const },
  }
  const certificate = Buffer.alloc(0)
  const issued = {
    id: 1,
    requestKey: said,
    issuer: said,
    names,
    serialNumber: said,
    certificate,
    notAfter: NOW,
    csr: null,
    fetchedAt: NOW,
  }
  return {
    details: certificatePage(
      certificateView({
        ...common,
        record: inService({ ...of, ...window }),
        order: failedOrder(said),
        served: { served: 'older', places: probesOf(said) },
      }),
    ),
    'by a key': certificatePage(certificateView({ ...common, visitor: { key: said } })),
    nothing: nameWithoutCertificatePage({
      ...{ ...common, domain: said, profile: 'client', order: failedOrder(said), now: NOW },
    }),
    order: orderPage({
      lang,
      visitor: ada(said),
      order: failedOrder(said),
      actions: ACTIONS,
      now: NOW,
    }),
    done: donePage({ lang, visitor: ada(said) }, { ...done, action: 'revoke', count: 2 }),
    problem: problemPage(
      { lang, visitor: ada(said) },
      {
        type: '',
        title: said,
        status: 400,
        code: said,
        detail: said,
        errors: [{ pointer: said, detail: `${said}!` }],
      },
    ),
    'dry run': dryRunPage(
      { lang, visitor: ada(said) },
      {
        ...{ domain: said, names, issuer: said, obstacles: [said] },
        order: { id: said, status: 'failed', step: said, since: '', names, issuer: said },
        proofs: [{ name: said, challenge: 'dns-01', status: 'failed', detail: said }],
        budgets: [{ limit: 'names', subject: said, left: 1, count: 2, per: said }],
      },
    ),
    request: requestPage(
      { lang, visitor: ada(said) },
      { domain: said, names: said, keyType: 'p384' },
      { detail: said, isAboutNames: true, action: english(said) },
    ),
    'dry run of a request': dryRunPage(
      { lang, visitor: ada(said) },
      { domain: said, names, issuer: said, obstacles: [], proofs: [], budgets: [] },
      confirmRequest(lang, { domain: said, names: said, keyType: '' }),
    ),
    ...Object.fromEntries(
      ACTIONS.map((action) => [
        action,
        confirmPage({ lang, visitor: ada(said) }, action, {
          domain: said,
          profile: 'client',
          affected: [issued],
          order: said,
          now: NOW,
        }),
      ]),
    ),
  }
}

/** Every page for people, in a language. */
export const everyPage = (said: string, lang: Language): Record<string, Page> => ({
  ...inventoryPages(said, lang),
  ...certificatePages(said, lang),
})
