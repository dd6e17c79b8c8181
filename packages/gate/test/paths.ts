import fc from 'fast-check'

/** Texts that decoders differ about, and plain ones. */
const PARTS = [
  ...['a', 'b', 'admin', 'Admin', 'public', 'x.y', 'h', '.', '..', '...', '', ';', '..;', '~', '+'],
  ...[
    '%2f',
    '%2F',
    '%5c',
    '%2e',
    '%252e',
    '%252e%252e',
    '%c0%ae',
    '%00',
    '%3b',
    '%3f',
    '%23',
    '%61',
  ],
  ...['%EF%BC%8F', '%EF%BC%8E', '%EF%BC%8E%EF%BC%8E', '%e2%80%8b', '%ef%ac%81', '%C4%B1', '%CC%87'],
  ...[
    '%zz',
    '%25',
    '%2561',
    '%ff',
    '%u002e',
    '%20',
    '%0a',
    'admin.',
    'admin%20',
    'admin;x',
    'adm%69n',
  ],
  ...['%252f', '%25c0%25ae', 'a%5c..%5cadmin', 'x%3fy', 'pub%2flic', '\xc3\xa4', '\xef\xbc\x8e'],
]

/** Paths that proxies and apps may read in several ways. */
export const target = fc
  .array(
    fc
      .array(fc.constantFrom(...PARTS.filter((part) => /^[!-~]*$/.test(part))), { maxLength: 3 })
      .map((parts) => parts.join('')),
    { minLength: 1, maxLength: 5 },
  )
  .map((segments) => `/${segments.join('/')}`)

/** Numbers below `n`, the same ones for a seed. */
export type Random = (n: number) => number

export function createRandom(seed: number): Random {
  let state = seed >>> 0
  return (n) => {
    // xorshift32
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state % n
  }
}

export function oneOf<T>(random: Random, all: readonly T[]): T {
  return all[random(all.length)] as T
}

/** The same as {@link target}, without its cost, and with bytes that are not encoded. */
export function randomTarget(random: Random): string {
  let path = ''
  for (let i = 0; i <= random(4); i++) {
    path += '/'
    for (let j = 0; j <= random(2) * random(2); j++) path += oneOf(random, PARTS)
  }
  return path === '' ? '/' : path
}

const decode = (text: string) =>
  text.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes)
    } catch {
      return escapes
    }
  })

function resolveDots(path: string): string {
  const segments: string[] = []
  for (const segment of path.split('/').slice(1))
    if (segment === '..') segments.pop()
    else if (segment !== '.') segments.push(segment)
  return `/${segments.join('/')}`
}

/** What servers, frameworks and apps do to a path, each in the order of its own. */
const STEPS: readonly ((path: string) => string)[] = [
  decode,
  (path) =>
    path.replace(/(?:%[0-9a-f]{2})+/gi, (text) => (/%2f|%5c/i.test(text) ? text : decode(text))),
  (path) => path.replace(/%c0%ae/gi, '.').replace(/%c0%af/gi, '/'),
  (path) => path.replace(/%u([0-9a-f]{4})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16))),
  (path) => path.replace(/[\x80-\xff]+/g, (bytes) => Buffer.from(bytes, 'latin1').toString()),
  (path) => path.replace(/;[^/]*/g, ''),
  (path) => path.replace(/\/{2,}/g, '/'),
  (path) => path.replaceAll('\\', '/'),
  (path) => path.toLowerCase(),
  (path) => path.toUpperCase().toLowerCase(),
  (path) => path.normalize('NFKC'),
  (path) => path.replaceAll('+', ' '),
  (path) => path.split(/[?#\0]/, 1)[0] ?? '',
  (path) => path.replace(/^\/\/[^/]*/, ''),
  (path) => path.replace(/[\p{Cc}\u200b\ufeff]/gu, ''),
  (path) =>
    path
      .split('/')
      .map((text) => (/^\.+$/.test(text) ? text : text.trim().replace(/[. ]+$/, '')))
      .join('/'),
  resolveDots,
]

/** What some app makes of a path, as segments: all of them decode letters and digits. */
export function readingOf(random: Random, path: string): readonly string[] {
  let text = path.replace(/%(?:3\d|[46][1-9a-f]|[57][0-9a])/gi, decodeURIComponent)
  for (let i = random(7); i > 0; i--) text = oneOf(random, STEPS)(text)
  const [, ...segments] = text.split('/')
  if (segments.at(-1) === '') segments.pop()
  return segments
}

/** What lenient apps make of a path: decoded up to twice, parameters cut, and dot segments removed. */
function readingsOf(path: string): string[] {
  const decode = (text: string) =>
    text
      .replace(/%c0%ae/gi, '.')
      .replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)))
  const once = decode(path)
  return [path, once, decode(once)].flatMap((text) => {
    const slashes = text.replaceAll('\\', '/').normalize('NFKC')
    const cut = slashes.replace(/;[^/]*/g, '')
    return [slashes, cut].map((each) => new URL(`http://x${each.replace(/[?#].*$/, '')}`).pathname)
  })
}

/** Whether some app takes a path for one at or below `/admin`. */
export function isAdminToSome(path: string): boolean {
  return readingsOf(path)
    .map((text) => text.toLowerCase().replace(/\/+/g, '/'))
    .some((text) => /^\/admin(\/|$)/.test(text))
}

/** URLs that apps use daily, and that say `no` to a rule that has nothing to do with them. */
export const DAILY_URLS = [
  ['GitLab, a project', '/api/v4/projects/group%2Fproject/issues'],
  ['GitLab, a file', '/group/project/-/blob/main/a%2Fb.md'],
  ['Emby', '/emby//Users/AuthenticateByName'],
  ['Nextcloud, a percent sign', '/remote.php/dav/files/alice/100%25.pdf'],
  [
    'Nextcloud, full-width brackets',
    '/remote.php/dav/files/alice/%EF%BC%88%E5%86%99%E7%9C%9F%EF%BC%89.jpg',
  ],
  ['Nextcloud, `;` and `#`', '/remote.php/dav/files/alice/a%3Bb%23c.txt'],
  ['Nextcloud, letters as a Mac writes them', '/remote.php/dav/files/alice/fu%CC%88r.txt'],
  ['Jira, a session of a servlet', '/secure/Dashboard.jspa;jsessionid=ABC'],
  ['npm', '/@scope%2fname'],
  ['Artifactory, a matrix', '/artifactory/libs;build.name=x/a.jar'],
  ['Elasticsearch, date math', '/%3Clogs-%7Bnow%2Fd%7D%3E/_search'],
  ['S3, a key', '/bucket//a/b'],
  ['a folder with a space', '/my%20files/%C3%84rger.txt'],
  ['a hidden folder', '/.well-known/acme-challenge/x'],
  ['a version', '/v1.2.3/x'],
  ['a wiki', '/wiki/C++_(programming)'],
  ['a module', '/assets/@vite/client.js'],
  ['a range of Grafana', '/d/abc/board?from=now-1h&to=now//x'],
  ['a webhook', '/hooks/a%2Fb'],
] as const
