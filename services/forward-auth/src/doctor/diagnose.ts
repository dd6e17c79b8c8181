import { HEADER_NAMES } from '@gatehouse/gate'
import { DIALECTS } from '@gatehouse/service-kit/proxies'
import { ERRORS, type FwaErrorCode } from '../errors.ts'
import { NAVIGATION, type ProbedCheck, type ProbedRequest } from './probes.ts'
import type { Mistake } from './remedies.ts'

/** The answer that a client of the proxy received. */
export interface HttpAnswer {
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
  /** The headers of a call by MCP that were sent, with {@link FORGED} as value. */
  readonly calls?: readonly string[]
  readonly answer: HttpAnswer
  readonly checks: readonly ProbedCheck[]
}

/** The exchanges that show how a proxy is set up. */
export interface Examination {
  /** A page, as a browser opens it. */
  readonly page: Exchange
  /** A browser that comes back from the sign-in host, with a ticket that fits nowhere. */
  readonly back: Exchange
  /** A POST, as programs send it. */
  readonly program: Exchange
  /** A request with forwarded headers of the client's own. */
  readonly forged: Exchange
  /** A request with 12 kB of cookies. */
  readonly large: Exchange
  /** A request with a URL that makes the answer of the check large. */
  readonly long: Exchange
  /** The profile of somebody who is not signed in, at the host of the sign-in pages. */
  readonly auth: Exchange
  /** A browser without cookies at the sign-in page, and with the one that it gets there. */
  readonly signIn?: { readonly first: HttpAnswer; readonly second?: HttpAnswer } | undefined
  /** Requests of a person who is signed in, to an app that answers with what it receives. */
  readonly app?: AppExamination | undefined
}

/** The answers of an app to a person who is signed in. */
export interface AppExamination {
  readonly host: string
  readonly signedIn: HttpAnswer
  /** The answer to a client that names the sign-in host. */
  readonly reserved: HttpAnswer
  /** Answers to identity headers that are spelled with underscores, dots and tildes. */
  readonly aliased: readonly HttpAnswer[]
  /** The answer to headers that only a proxy may set. */
  readonly believed: HttpAnswer
  /** The answer to headers that replace method and path. */
  readonly overridden: HttpAnswer
  /** The answer to `Upgrade: h2c`. */
  readonly upgraded: HttpAnswer
  /** The answer to each identity header that `Connection` lists, by its name. */
  readonly taken: Readonly<Record<string, HttpAnswer>>
  /** The identity headers that the check gives to the app. */
  readonly identity: Readonly<Record<string, string>>
  readonly sessionCookie: string
}

/** A fault of the proxy, and the sentence that tells it. */
export interface Finding {
  readonly mistake: Mistake
  readonly text: string
}

/** The value of every header that the doctor forges. */
export const FORGED = 'gatehouse-doctor-forged'
/** An address of TEST-NET-1 (RFC 5737), which no client has. */
export const FORGED_ADDRESS = '192.0.2.66'
export const FORGED_HOST = 'forged.invalid'
/** The text on the page of an app that shows the headers of its request. */
export const ECHO = 'gatehouse-doctor-echo'

/** Names what is wrong with a proxy, worst first; an empty list if nothing is. */
export function diagnose(examination: Examination): readonly Finding[] {
  const unreached = diagnoseReach(examination)
  if (unreached) return [unreached, ...diagnoseAuthHost(examination.auth)]
  const findings = [
    ...(examination.app ? diagnoseApp(examination.app, examination.forged) : []),
    ...diagnoseForged(examination.forged),
    ...diagnoseCheck(examination.page),
    ...diagnoseCheck(examination.program),
    ...diagnoseAnswers(examination),
    ...diagnoseHop(examination),
    ...diagnoseSizes(examination),
    ...diagnoseAuthHost(examination.auth),
    ...diagnoseSignIn(examination),
  ]
  const texts = findings.map(({ text }) => text)
  return findings.filter(({ text }, i) => texts.indexOf(text) === i)
}

export const fault = (mistake: Mistake, text: string): Finding => ({ mistake, text })

/** Finds a fault with which nothing else can be told: no check, or none from a trusted proxy. */
function diagnoseReach({ page, program }: Examination): Finding | undefined {
  const checks = [...page.checks, ...program.checks]
  const untrusted = checks.find(({ code }) => code === 'FWA_PEER_UNTRUSTED')
  if (untrusted)
    return fault('untrusted', `The service does not trust the proxy at ${untrusted.peer}.`)
  if (page.checks.some(({ status }) => status === 200))
    return fault('open', `A rule lets anyone pass at ${page.host}: give the URL of a guarded page.`)
  if (checks.length > 0) return undefined
  const { status } = page.answer
  if (status === 0) return fault('hangs', `${page.host} does not answer within 10 seconds.`)
  if (status >= 500)
    return fault('unreachable', `The proxy answers ${status}, and no check reaches the service.`)
  const problem = codeOf(page.answer) ?? codeOf(program.answer)
  if (problem !== undefined || isGatehouse(program.answer))
    return fault('target', 'The check receives neither User-Agent nor the path of the request.')
  return fault('unprotected', `${page.host} answers ${status} without a check.`)
}

/** Follows the hop of a browser to the sign-in host and back: without its cookies, everybody ends there. */
function* diagnoseHop({ page, program, back }: Examination): Iterable<Finding> {
  for (const { answer, checks } of [page, program, back]) {
    const sets = checks.filter(({ setCookies }) => setCookies.length > 0)
    const lostCookies = sets.map(({ setCookies }) =>
      setCookies.find((name) => !answer.headers['set-cookie']?.includes(`${name}=`)),
    )
    // Where several proxies ask, the client has one of the answers.
    if (lostCookies.length > 0 && lostCookies.every((name) => name !== undefined))
      yield fault(
        'set-cookie',
        `With ${answer.status}, no client receives the cookie ${lostCookies[0]}.`,
      )
  }
  const isLacking = (name: string) => page.checks.some(({ headers }) => !headers[name])
  const lacking = NAVIGATION.slice(1).filter(isLacking).join(', ')
  if (lacking !== '')
    yield fault('navigation', `The check receives no ${lacking}, which tell a page from a call.`)
}

/** Compares what each check says with what the client asked for. */
function* diagnoseCheck(exchange: Exchange): Iterable<Finding> {
  for (const check of exchange.checks) {
    const { request, headers } = check
    if (request) yield* compareRequests(exchange, request)
    else yield explainCode(check, exchange)
    if (exchange.cookieLength > 0 && check.cookieLength === 0)
      yield fault('cookie', 'The check receives no Cookie.')
    const lacking = exchange.calls?.filter((name) => headers[name] !== FORGED) ?? []
    if (lacking.length > 0)
      yield fault('calls', `The check receives no ${lacking.join(', ')}: rules for tools need it.`)
    const [, query = ''] = exchange.target.split('?')
    if (query !== '' && sourceOf(check) !== 'request-line' && check.query.includes(query))
      yield fault('query', 'The check receives the query of the client.')
    if (check.clientAddress === undefined && headers['x-forwarded-for'] === undefined)
      yield fault('client', 'The check receives no X-Forwarded-For.')
  }
}

function* compareRequests(exchange: Exchange, request: ProbedRequest): Iterable<Finding> {
  const mismatch = (part: string, expected: string, actual: string) =>
    `The check is told the ${part} ${actual}, not ${expected}.`
  for (const part of ['host', 'scheme', 'method'] as const)
    if (exchange[part] !== request[part])
      yield fault(part, mismatch(part, exchange[part], request[part]))
  const prefix = exchange.target.slice(0, -request.target.length)
  const expected = shortened(exchange.target)
  const actual = shortened(request.target)
  if (prefix !== '' && exchange.target === prefix + request.target)
    yield fault('stripped', `The proxy strips ${prefix} before it asks.`)
  else if (expected !== actual) yield fault('target', mismatch('path', expected, actual))
}

/** Leaves out the token, which differs in each request. */
function shortened(target: string): string {
  return target.replace(/[\w-]{22}\.\d+\.[\w-]{43}/, '…').slice(0, 100)
}

const MISSING: readonly (readonly [header: RegExp, mistake: Mistake])[] = [
  [/Method/, 'method'],
  [/Proto/, 'scheme'],
  [/Host/, 'host'],
  [/Uri|URL/, 'target'],
]

function explainHeader(message: string): Finding {
  if (/ is missing\b/.test(message)) {
    const [, mistake = 'other'] = MISSING.find(([header]) => header.test(message)) ?? []
    return fault(mistake, `The check is incomplete: ${message}.`)
  }
  const mistake = /scheme/.test(message) ? 'scheme' : /method/.test(message) ? 'method' : 'target'
  return fault(mistake, `The check cannot be read: ${message}.`)
}

/** The finding for a check that the gate could not read. */
function explainCode({ code, message = '', headers }: ProbedCheck, { host }: Exchange): Finding {
  if (code === 'FWA_HEADER_INVALID') return explainHeader(message)
  if (code === 'FWA_HOST_UNKNOWN' || code === 'FWA_HOST_RESERVED') {
    const forwardedHost = headers['x-forwarded-host'] ?? headers['x-original-url'] ?? headers.host
    return fault('host', `The check is told the host ${forwardedHost?.slice(0, 100)}, not ${host}.`)
  }
  const { action = '' } = ERRORS[code as FwaErrorCode] ?? {}
  return fault('other', `The check is refused: ${message} (${code}). ${action}`)
}

/** Finds forged headers that a check is told. */
function* diagnoseForged(forged: Exchange): Iterable<Finding> {
  for (const check of forged.checks) {
    const names = believed(check, forged)
    if (names.length > 0)
      yield fault('forged', `A client can forge ${names.join(', ')}: the check is told its value.`)
  }
}

const sourceOf = ({ dialect }: ProbedCheck) => DIALECTS.find(({ name }) => name === dialect)?.source

function believed(check: ProbedCheck, { scheme }: Exchange): string[] {
  const { request, code, headers, clientAddress } = check
  const isHostUnknown = code === 'FWA_HOST_UNKNOWN'
  const isOriginal = sourceOf(check) === 'x-original'
  const prefix = isOriginal ? 'X-Original' : 'X-Forwarded'
  const headerForgeries: readonly (readonly [name: string, isForged: boolean | undefined])[] = [
    // After its value, a proxy would name its client: the doctor, which may be on a trusted machine.
    [
      'X-Forwarded-For',
      clientAddress === FORGED_ADDRESS && headers['x-forwarded-for']?.endsWith(FORGED_ADDRESS),
    ],
    [
      'X-Forwarded-Host',
      isHostUnknown &&
        sourceOf(check) === 'x-forwarded' &&
        headers['x-forwarded-host'] === FORGED_HOST,
    ],
    [
      'X-Original-URL',
      isHostUnknown && isOriginal && headers['x-original-url']?.includes(FORGED_HOST),
    ],
    ['X-Forwarded-Proto', request && request.scheme !== scheme],
    [`${prefix}-Method`, request?.method === 'OPTIONS'],
    [isOriginal ? 'X-Original-URL' : 'X-Forwarded-Uri', request?.target.includes(FORGED)],
  ]
  return headerForgeries.filter(([, isForged]) => isForged).map(([name]) => name)
}

/** Finds out whether the client receives what the checks answer, and people are told from programs. */
function* diagnoseAnswers({ page, program }: Examination): Iterable<Finding> {
  const isHidden = page.checks.some(
    ({ headers: { accept = '', 'sec-fetch-mode': mode } }) =>
      mode === undefined && !accept.includes('text/html'),
  )
  if (isHidden) yield fault('navigation', 'The check receives neither Accept nor Sec-Fetch-Mode.')
  const { status, headers } = page.answer
  const refusals = page.checks.filter(({ status }) => [302, 303, 401].includes(status))
  const isRefusal = refusals.some(({ request }) => request)
  const isRedirected = status >= 300 && status < 400 && SIGN_IN.test(headers.location ?? '')
  if (isRefusal && !isRedirected) {
    const received = headers.location ? status : `${status} without Location`
    yield fault('redirect', `A browser receives ${received}, not the redirect to the sign-in page.`)
  }
  if (!program.checks.some(({ status }) => status === 401)) return
  if (program.answer.status !== 401)
    yield fault('status', `Programs receive ${program.answer.status}, where the check answers 401.`)
  else if (!isGatehouse(program.answer))
    yield fault('challenge', 'A program receives 401 without WWW-Authenticate.')
}

const SIGN_IN = /\/portals?\/[^/]+\/(?:signin|providers)/

function isGatehouse({ headers }: HttpAnswer): boolean {
  return /Cookie realm=/.test(headers['www-authenticate'] ?? '')
}

function codeOf({ body }: HttpAnswer): string | undefined {
  return /"code":"(FWA_\w+)"/.exec(body)?.[1]
}

function* diagnoseSizes({ page, large, long }: Examination): Iterable<Finding> {
  const isRedirect = ({ answer: { status } }: Exchange) => status === page.answer.status
  const arrived = Math.max(0, ...large.checks.map(({ cookieLength }) => cookieLength))
  const hasCookies = page.checks.some(({ cookieLength }) => cookieLength > 0)
  if (!isRedirect(large) || (hasCookies && arrived < large.cookieLength))
    yield fault('request-size', `With 12 kB of cookies, the proxy answers ${large.answer.status}.`)
  if (!isRedirect(long))
    yield fault(
      'answer-size',
      `With a header of several kB, the proxy answers ${long.answer.status}.`,
    )
}

function* diagnoseAuthHost({ host, answer, checks }: Exchange): Iterable<Finding> {
  const code = codeOf(answer)
  if (checks.length > 0 || code === 'FWA_HOST_RESERVED')
    yield fault('auth-protected', `${host} is protected itself, so that nobody can sign in.`)
  else if (code === 'FWA_HOST_UNKNOWN')
    yield fault('auth-host', `The sign-in pages at ${host} are told another host.`)
  else if (answer.status !== 401 || code !== 'FWA_NO_SESSION')
    yield fault('auth-missing', `${host} answers ${statusOf(answer)}, not the sign-in pages.`)
}

function* diagnoseSignIn({ signIn, auth: { host } }: Examination): Iterable<Finding> {
  const { first, second } = signIn ?? {}
  if (first?.status === 303 && first.headers['set-cookie'] === undefined)
    yield fault('auth-cookies', `No client receives the cookies of the sign-in pages at ${host}.`)
  if (second?.body.includes('FWA_COOKIES_BLOCKED'))
    yield fault('auth-cookies', `The sign-in pages at ${host} receive no Cookie.`)
}

function* diagnoseApp(app: AppExamination, forged: Exchange): Iterable<Finding> {
  const { signedIn, sessionCookie } = app
  if (/\bGatehouse realm=/.test(signedIn.headers['www-authenticate'] ?? ''))
    return yield fault('assertion', 'The app gets no assertion that it accepts.')
  if (signedIn.status === 0)
    return yield fault('hangs', `${app.host} does not answer a person within 10 seconds.`)
  if (signedIn.status !== 200)
    return yield fault('signed-in', `A person who is signed in receives ${statusOf(signedIn)}.`)
  const answers = [signedIn, app.reserved, app.believed, app.overridden, ...app.aliased]
  const isShown = (name: string) =>
    app.identity[name] && answers.some(({ headers }) => headers[name] === app.identity[name])
  const shown = Object.keys(app.identity).find(isShown)
  if (shown) yield fault('check-shown', `A client receives ${shown}, which is for the proxy.`)
  if (app.upgraded.status === 101)
    yield fault('upgrade', 'A client can leave every check behind: the proxy answers Upgrade: h2c.')
  if (!signedIn.body.includes(ECHO)) return
  yield* diagnosePassedOn(app, forged)
  yield* diagnoseIdentity(app)
  // A cookie of one host is worth nothing at another app.
  if (sessionCookie.startsWith('__Secure-') && signedIn.body.includes(sessionCookie))
    yield fault('session-shown', 'The app receives the session cookie of its domain.')
}

/** Checks what docs/proxies.md lists besides identity. */
function* diagnosePassedOn(app: AppExamination, forged: Exchange): Iterable<Finding> {
  const { host, signedIn, believed, overridden, upgraded } = app
  if (valuesOf('upgrade', upgraded.body).includes('h2c'))
    yield fault('upgrade', 'A client can leave every check behind: the app receives Upgrade: h2c.')
  const isForged = (name: string, { body }: HttpAnswer) => valuesOf(name, body).includes(FORGED)
  const unseen = [...HEADER_NAMES.methodOverrides, ...HEADER_NAMES.pathOverrides].filter(
    (name) =>
      isForged(name, overridden) &&
      forged.checks.some(({ headers }) => !headers[name]?.includes(FORGED)),
  )
  if (unseen.length > 0)
    yield fault('overrides', `The app receives ${unseen.join(', ')}, which the check does not.`)
  for (const name of HEADER_NAMES.believed.filter((name) => isForged(name, believed)))
    yield fault('believed', `A client can forge ${name} for the app.`)
  const hosts = valuesOf('host', signedIn.body)
  if (hosts.length > 0 && !hosts.some((name) => `${host}:`.startsWith(`${name}:`)))
    yield fault('app-host', `The app is told the host ${hosts[0]}, not ${host}.`)
}

function* diagnoseIdentity({
  signedIn,
  aliased,
  taken,
  identity,
}: AppExamination): Iterable<Finding> {
  const isTold = (name: string, { body }: HttpAnswer) =>
    valuesOf(name, body).some((text) => text !== '')
  const isTaken = (name: string) => {
    const answer = taken[name] ?? signedIn
    const isPassedOn = valuesOf('connection', answer.body).some((option) => option.includes(name))
    return answer.status === 200 && (isPassedOn || !isTold(name, answer))
  }
  for (const [name, value] of Object.entries(identity)) {
    if (valuesOf(name, signedIn.body).some((text) => text.includes(FORGED)))
      yield fault('not-stripped', `A client can forge ${name} for the app.`)
    else if (value !== '' && !isTold(name, signedIn))
      yield fault('not-copied', `The app does not receive ${name}.`)
    else if (value !== '' && isTaken(name))
      yield fault('taken', `A client can take ${name} away by Connection.`)
  }
  if (aliased.some(({ status, body }) => status === 200 && body.includes(FORGED)))
    yield fault('aliases', 'A client can forge identity by other spellings: X_Forwarded_User.')
}

function statusOf(answer: HttpAnswer): string {
  const code = codeOf(answer)
  return code === undefined ? `${answer.status}` : `${answer.status} (${code})`
}

/** The values that stand after the name of a header on its line, however an app shows headers. */
function valuesOf(name: string, body: string): string[] {
  // Not the end of another name, such as that of X-Forwarded-Host.
  const pattern = `(?:(?<![\\w-])|HTTP_)${name.replaceAll('-', '[-_]')}`
  const lines = body.matchAll(
    new RegExp(`${pattern}["']?[ \\t]*[:=][ \\t]*\\[?["']?([^\\n"'\\]]*)`, 'gi'),
  )
  return [...lines].map(([, value = '']) => value.trim())
}
