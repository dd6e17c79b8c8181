import { HEADER_NAMES } from '@gatehouse/gate'
import { ERRORS, type FwaErrorCode } from '../errors.ts'
import type { ProbedCheck } from './probes.ts'
import type { Mistake } from './remedies.ts'

/** What a client of the proxy received. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string
}

/** A request of the doctor, its answer, and the checks that the proxy made for it. */
export interface Exchange {
  readonly method: string
  readonly scheme: string
  readonly host: string
  /** Path and query. */
  readonly target: string
  readonly cookieLength: number
  readonly answer: Answer
  readonly checks: readonly ProbedCheck[]
}

export interface Examination {
  /** A page, as a browser opens it. */
  readonly page: Exchange
  /** A POST, as programs send it. */
  readonly program: Exchange
  /** With forwarded headers of the client's own. */
  readonly forged: Exchange
  /** With 12 kB of cookies. */
  readonly large: Exchange
  /** With a URL that makes the answer of the check large. */
  readonly long: Exchange
  /** At the host of the sign-in pages: the profile of somebody who is not signed in. */
  readonly auth: Exchange
  /** Of a person who is signed in, at an app that answers with what it receives. */
  readonly app?: AppExamination | undefined
}

export interface AppExamination {
  readonly host: string
  readonly signedIn: Answer
  /** With the identity headers spelled with underscores, dots and tildes. */
  readonly aliased: readonly Answer[]
  /** With headers that only a proxy may set. */
  readonly believed: Answer
  /** With headers that replace method and path. */
  readonly overridden: Answer
  /** After `Upgrade: h2c`. */
  readonly upgraded: Answer
  /** With the identity headers listed in `Connection`. */
  readonly taken: Answer
  /** The identity headers that the check gives to the app. */
  readonly identity: Readonly<Record<string, string>>
  readonly sessionCookie: string
}

export interface Finding {
  readonly mistake: Mistake
  readonly text: string
}

/** The value of every header that the doctor forges. */
export const FORGED = 'gatehouse-doctor-forged'
/** TEST-NET-1 (RFC 5737), which no client has. */
export const FORGED_ADDRESS = '192.0.2.66'
export const FORGED_HOST = 'forged.invalid'

/** Names what is wrong with a proxy, worst first; an empty list if nothing is. */
export function diagnose(seen: Examination): readonly Finding[] {
  const reached = diagnoseReach(seen)
  if (reached.length > 0) return [...reached, ...diagnoseAuthHost(seen.auth)]
  const findings = [
    ...diagnoseApp(seen.app, seen.forged),
    ...diagnoseForged(seen.forged),
    ...diagnoseCheck(seen.page),
    ...diagnoseCheck(seen.program),
    ...diagnoseNavigation(seen.page),
    ...diagnoseAnswers(seen),
    ...diagnoseSizes(seen),
    ...diagnoseAuthHost(seen.auth),
  ]
  return findings.filter(({ text }, i) => findings.findIndex((one) => one.text === text) === i)
}

/** Faults with which nothing else can be told: no check, or none from a trusted proxy. */
function diagnoseReach({ page, program }: Examination): Finding[] {
  const checks = [...page.checks, ...program.checks]
  const untrusted = checks.find(({ code }) => code === 'FWA_PEER_UNTRUSTED')
  if (untrusted) {
    const text = `The service does not trust the proxy at ${untrusted.peer}.`
    return [{ mistake: 'untrusted', text }]
  }
  if (checks.length > 0) return []
  const { status } = page.answer
  if (status >= 500) {
    const text = `The proxy answers ${status}, and no check reaches the service.`
    return [{ mistake: 'unreachable', text }]
  }
  const problem = codeOf(page.answer) ?? codeOf(program.answer)
  if (problem !== undefined || isGatehouse(program.answer)) {
    const text = 'The check receives neither User-Agent nor the path of the request.'
    return [{ mistake: 'target', text }]
  }
  const text = `${page.host} answers ${status} without a check.`
  return [{ mistake: 'unprotected', text }]
}

/** Whether the answer of a check says what the client asked for. */
function diagnoseCheck(exchange: Exchange): Finding[] {
  return exchange.checks.flatMap((check) => {
    const { asked, headers } = check
    const findings = asked ? compareAsked(exchange, asked) : [explainCode(check, exchange)]
    if (exchange.cookieLength > 0 && check.cookieLength === 0)
      findings.push({ mistake: 'cookie', text: 'The check receives no Cookie.' })
    const [, query = ''] = exchange.target.split('?')
    if (query !== '' && check.dialect !== 'envoy' && check.query.includes(query))
      findings.push({ mistake: 'query', text: 'The check receives the query of the client.' })
    if (check.clientAddress === undefined && headers['x-forwarded-for'] === undefined)
      findings.push({ mistake: 'client', text: 'The check receives no X-Forwarded-For.' })
    return findings
  })
}

/** Gatehouse sends people to sign in, and programs not. */
function diagnoseNavigation({ checks }: Exchange): Finding[] {
  const isHidden = checks.some(
    ({ headers: { accept = '', 'sec-fetch-mode': mode } }) =>
      mode === undefined && !accept.includes('text/html'),
  )
  if (!isHidden) return []
  const text =
    'The check receives neither Accept nor Sec-Fetch-Mode, so people get no page to sign in.'
  return [{ mistake: 'navigation', text }]
}

type Asked = NonNullable<ProbedCheck['asked']>

function compareAsked(sent: Exchange, asked: Asked): Finding[] {
  const findings: Finding[] = []
  const compare = (mistake: Mistake, what: string, expected: string, told: string) => {
    if (expected !== told)
      findings.push({ mistake, text: `The check is told the ${what} ${told}, not ${expected}.` })
  }
  compare('host', 'host', sent.host, asked.host)
  compare('scheme', 'scheme', sent.scheme, asked.scheme)
  compare('method', 'method', sent.method, asked.method)
  const prefix = sent.target.slice(0, -asked.target.length)
  if (prefix !== '' && sent.target === prefix + asked.target)
    findings.push({ mistake: 'stripped', text: `The proxy strips ${prefix} before it asks.` })
  else compare('target', 'path', shortened(sent.target), shortened(asked.target))
  return findings
}

/** Without the token, which differs in each request. */
function shortened(target: string): string {
  return target.replace(/[\w-]{22}\.\d+\.[\w-]{43}/, '…').slice(0, 100)
}

const MISSING: readonly (readonly [header: RegExp, mistake: Mistake])[] = [
  [/Method/, 'method'],
  [/Proto/, 'scheme'],
  [/Host/, 'host'],
  [/Uri|URL/, 'target'],
]

/** The finding for a check that could not be read. */
function explainCode({ code, message = '', headers }: ProbedCheck, { host }: Exchange): Finding {
  if (code === 'FWA_HEADER_MISSING') {
    const [, mistake = 'other'] = MISSING.find(([header]) => header.test(message)) ?? []
    return { mistake, text: `The check is incomplete: ${message}.` }
  }
  if (code === 'FWA_HOST_UNKNOWN' || code === 'FWA_HOST_RESERVED') {
    const told = headers['x-forwarded-host'] ?? headers['x-original-url'] ?? headers.host
    return {
      mistake: 'host',
      text: `The check is told the host ${told?.slice(0, 100)}, not ${host}.`,
    }
  }
  if (code === 'FWA_HEADER_INVALID') {
    const mistake = /scheme/.test(message) ? 'scheme' : /method/.test(message) ? 'method' : 'target'
    return { mistake, text: `The check cannot be read: ${message}.` }
  }
  const { action = '' } = ERRORS[code as FwaErrorCode] ?? {}
  return { mistake: 'other', text: `The check is refused: ${message} (${code}). ${action}` }
}

/** Forged headers count as believed if a check is told them. */
function diagnoseForged(forged: Exchange): Finding[] {
  return forged.checks.flatMap((check) => {
    const names = believed(check, forged)
    if (names.length === 0) return []
    const text = `A client can forge ${names.join(', ')}: the check is told its value.`
    return [{ mistake: 'forged' as const, text }]
  })
}

function believed(check: ProbedCheck, { scheme }: Exchange): string[] {
  const { asked, code, dialect, headers, clientAddress } = check
  const isHostUnknown = code === 'FWA_HOST_UNKNOWN'
  const source = dialect === 'nginx' ? 'X-Original' : 'X-Forwarded'
  const told: readonly (readonly [name: string, isForged: boolean | undefined])[] = [
    // After its value, a proxy would name its client: the doctor, which may be on a trusted machine.
    [
      'X-Forwarded-For',
      clientAddress === FORGED_ADDRESS && headers['x-forwarded-for']?.endsWith(FORGED_ADDRESS),
    ],
    [
      'X-Forwarded-Host',
      isHostUnknown && dialect === 'forward' && headers['x-forwarded-host'] === FORGED_HOST,
    ],
    [
      'X-Original-URL',
      isHostUnknown && dialect === 'nginx' && headers['x-original-url']?.includes(FORGED_HOST),
    ],
    ['X-Forwarded-Proto', asked && asked.scheme !== scheme],
    [`${source}-Method`, asked?.method === 'OPTIONS'],
    [dialect === 'nginx' ? 'X-Original-URL' : 'X-Forwarded-Uri', asked?.target.includes(FORGED)],
  ]
  return told.filter(([, isForged]) => isForged).map(([name]) => name)
}

/** Whether the client receives what the checks answer. */
function diagnoseAnswers({ page, program }: Examination): Finding[] {
  const findings: Finding[] = []
  const { status, headers } = page.answer
  const isRefusal = page.checks.some(
    ({ asked, status }) => asked && [302, 303, 401].includes(status),
  )
  if (isRefusal && !(status >= 300 && status < 400 && isSignIn(headers.location)))
    findings.push({
      mistake: 'redirect',
      text: `A browser receives ${status}${headers.location ? '' : ' without Location'}, not the redirect to the sign-in page.`,
    })
  const isDenied = program.checks.some(({ status }) => status === 401)
  if (isDenied && program.answer.status !== 401)
    findings.push({
      mistake: 'status',
      text: `A program receives ${program.answer.status}, where the check answers 401.`,
    })
  else if (isDenied && !isGatehouse(program.answer))
    findings.push({
      mistake: 'challenge',
      text: 'A program receives 401 without WWW-Authenticate.',
    })
  return findings
}

function isSignIn(location = ''): boolean {
  return /\/portals?\/[^/]+\/(?:signin|providers)/.test(location)
}

function isGatehouse({ headers }: Answer): boolean {
  return /Cookie realm=/.test(headers['www-authenticate'] ?? '')
}

function codeOf({ body }: Answer): string | undefined {
  return /"code":"(FWA_\w+)"/.exec(body)?.[1]
}

function diagnoseSizes({ page, large, long }: Examination): Finding[] {
  const findings: Finding[] = []
  const isRedirect = ({ answer: { status } }: Exchange) => status === page.answer.status
  const arrived = Math.max(0, ...large.checks.map(({ cookieLength }) => cookieLength))
  const hasCookies = page.checks.some(({ cookieLength }) => cookieLength > 0)
  if (!isRedirect(large) || (hasCookies && arrived < large.cookieLength))
    findings.push({
      mistake: 'request-size',
      text: `With 12 kB of cookies, which a session may have, the proxy answers ${large.answer.status}.`,
    })
  if (!isRedirect(long))
    findings.push({
      mistake: 'answer-size',
      text: `When the check answers with a header of several kB, the proxy answers ${long.answer.status}.`,
    })
  return findings
}

function diagnoseAuthHost({ host, answer, checks }: Exchange): Finding[] {
  const code = codeOf(answer)
  if (checks.length > 0 || code === 'FWA_HOST_RESERVED') {
    const text = `${host} is protected itself, so that nobody can sign in.`
    return [{ mistake: 'auth-protected', text }]
  }
  if (code === 'FWA_HOST_UNKNOWN') {
    const text = `The sign-in pages at ${host} are told another host.`
    return [{ mistake: 'auth-host', text }]
  }
  if (answer.status === 401 && code === 'FWA_NO_SESSION') return []
  const text = `${host} answers ${answer.status}${ofCode(answer)}, not the sign-in pages.`
  return [{ mistake: 'auth-missing', text }]
}

function diagnoseApp(app: AppExamination | undefined, forged: Exchange): Finding[] {
  if (!app) return []
  const { signedIn, sessionCookie } = app
  if (/\bGatehouse realm=/.test(signedIn.headers['www-authenticate'] ?? ''))
    return [{ mistake: 'assertion', text: 'The app gets no assertion that it accepts.' }]
  if (signedIn.status !== 200)
    return [
      {
        mistake: 'signed-in',
        text: `A person who is signed in receives ${signedIn.status}${ofCode(signedIn)}.`,
      },
    ]
  const findings = [...diagnosePassedOn(app, forged), ...diagnoseIdentity(app)]
  if (signedIn.body.includes(sessionCookie))
    findings.push({ mistake: 'session-shown', text: 'The app receives the session cookie.' })
  return findings
}

/** What docs/proxies.md lists, besides identity. */
function diagnosePassedOn(app: AppExamination, forged: Exchange): Finding[] {
  const { host, signedIn, believed, overridden, upgraded } = app
  const findings: Finding[] = []
  if (upgraded.status === 101 || valuesOf('upgrade', upgraded.body).includes('h2c'))
    findings.push({
      mistake: 'upgrade',
      text: 'A client can leave every check behind: the app receives Upgrade: h2c.',
    })
  const isForged = (name: string, { body }: Answer) => valuesOf(name, body).includes(FORGED)
  const unseen = [...HEADER_NAMES.methodOverrides, ...HEADER_NAMES.pathOverrides].filter(
    (name) =>
      isForged(name, overridden) &&
      forged.checks.some(({ headers }) => !headers[name]?.includes(FORGED)),
  )
  if (unseen.length > 0)
    findings.push({
      mistake: 'overrides',
      text: `The app receives ${unseen.join(', ')}, which the check does not.`,
    })
  for (const name of HEADER_NAMES.believed.filter((name) => isForged(name, believed)))
    findings.push({ mistake: 'believed', text: `A client can forge ${name} for the app.` })
  const hosts = valuesOf('host', signedIn.body)
  if (hosts.length > 0 && !hosts.some((one) => `${host}:`.startsWith(`${one}:`)))
    findings.push({
      mistake: 'app-host',
      text: `The app is told the host ${hosts[0]}, not ${host}.`,
    })
  return findings
}

function diagnoseIdentity({ signedIn, aliased, taken, identity }: AppExamination): Finding[] {
  const findings: Finding[] = []
  const isTold = (name: string, { body }: Answer) => valuesOf(name, body).some((one) => one !== '')
  const isTaken = (name: string) =>
    !isTold(name, taken) || valuesOf('connection', taken.body).some((one) => one.includes(name))
  for (const [name, value] of Object.entries(identity)) {
    if (valuesOf(name, signedIn.body).some((one) => one.includes(FORGED)))
      findings.push({ mistake: 'not-stripped', text: `A client can forge ${name} for the app.` })
    else if (value !== '' && !isTold(name, signedIn))
      findings.push({ mistake: 'not-copied', text: `The app does not receive ${name}.` })
    else if (value !== '' && taken.status === 200 && isTaken(name))
      findings.push({ mistake: 'taken', text: `A client can take ${name} away by Connection.` })
  }
  const isAliased = ({ status, body }: Answer) => status === 200 && body.includes(FORGED)
  if (aliased.some(isAliased))
    findings.push({
      mistake: 'aliases',
      text: 'A client can forge identity headers for the app with other spellings, such as X_Forwarded_User.',
    })
  return findings
}

function ofCode(answer: Answer): string {
  const code = codeOf(answer)
  return code === undefined ? '' : ` (${code})`
}

/** What follows the name of a header on its line, in however an app tells its headers. */
function valuesOf(name: string, body: string): string[] {
  // Not the end of another name, such as that of X-Forwarded-Host.
  const pattern = `(?:(?<![\\w-])|HTTP_)${name.replaceAll('-', '[-_]')}`
  const lines = body.matchAll(
    new RegExp(`${pattern}["']?[ \\t]*[:=][ \\t]*\\[?["']?([^\\n"'\\]]*)`, 'gi'),
  )
  return [...lines].map(([, value = '']) => value.trim())
}
