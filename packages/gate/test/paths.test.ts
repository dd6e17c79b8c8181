import t from 'tap'
import { compilePath, fitPath, isNormalPath, readPath, UNKNOWN_PATH } from '../src/paths.ts'
import { createRandom, DAILY_URLS, randomTarget, readingOf } from './paths.ts'

const fitOf = (pattern: string, target: string) => fitPath(compilePath(pattern), readPath(target))

t.test('a path is known up to its first odd segment', async (t) => {
  const whole: [target: string, segments: string[]][] = [
    ['/', []],
    ['/a/b', ['a', 'b']],
    ['/a/b/', ['a', 'b']],
    ['/a%20b/%C3%A4', ['a b', 'ä']],
    ['/%61', ['a']],
    ['/.well-known/x', ['.well-known', 'x']],
    ['/a.b/..c/...d', ['a.b', '..c', '...d']],
    ['/a./b', ['a.', 'b']],
    ['/a?b=//../;%2F', ['a']],
    ["/~a!$&'()*+,=:@b", ["~a!$&'()*+,=:@b"]],
    ['/"<>[]^`{|}', ['"<>[]^`{|}']],
    [`/x${'%CC%81'.repeat(30)}`, [`x${'\u0301'.repeat(30)}`.normalize('NFKC')]],
    [`/${'a'.repeat(40_000)}`, ['a'.repeat(40_000)]],
  ]
  for (const [target, segments] of whole)
    t.match(readPath(target), { segments, next: undefined }, target)
  const part: [target: string, segments: string[], next: string][] = [
    ['/a//b', ['a'], ''],
    ['/a/b//', ['a', 'b'], ''],
    ['//a', [], ''],
    ['/a/%20/b', ['a'], ''],
    ['/x/a%2Fb/c', ['x'], 'a'],
    ['/x/a%5Cb', ['x'], 'a'],
    ['/x/a%25', ['x'], 'a'],
    ['/x/a;b/c', ['x'], 'a'],
    ['/x/;b', ['x'], ''],
    ['/x/ABC%3Bb', ['x'], 'abc'],
    ['/x/a%3Fb', ['x'], 'a'],
    ['/x/a%23b', ['x'], 'a'],
    ['/x/a%0ab', ['x'], 'a'],
    ['/x/a%E2%80%8Bb', ['x'], 'a'],
    ['/x/a%EF%BC%8Fb', ['x'], ''],
    ['/x/a.%2Fb', ['x'], 'a'],
    ['/x/\xc3\xa4', ['x'], ''],
    [`/${'x/'.repeat(100)}`, Array(64).fill('x'), ''],
    [`/x/a${'%CC%A7%CC%81%E2%80%8D'.repeat(16)}`, ['x'], ''],
  ]
  for (const [target, segments, next] of part) t.match(readPath(target), { segments, next }, target)
})

t.test('nothing is known of a path that may climb, in any decoding', async (t) => {
  const classes: Readonly<Record<string, readonly string[]>> = {
    'dot segments': ['/a/../b', '/./a', '/a/..', '/%2e%2e/a', '/a/%2E', '/..../a', '/a/.%20/b'],
    'beside an encoded slash': ['/a/..%2fb', '/a%5c..%5cb', '/a%2f..'],
    'beside a parameter': ['/..;/a', '/a/..;x=1/b', '/a/.%3B/b'],
    'cut off': ['/a/..%23', '/a/..%3fx', '/a/..%00'],
    'double encodings': ['/%252e%252e/a', '/a/..%252fb', '/%25252e%25252e/a', '/%25u002e/a'],
    'encoded without end': ['/%2525252525252e', '/a%2525252561'],
    'invalid encodings': ['/%', '/%2', '/%zz', '/%u002e', '/%ff', '/%e4', '/\xff'],
    'overlong encodings': ['/%c0%ae%c0%ae/a', '/%c0%af', '/%e0%80%af', '/%25c0%25ae'],
    'hidden characters': ['/a/.%E2%80%8B./b', '/a/%EF%BB%BF../b', '/a/.%CD%8F./b', '/a/.%00./b'],
    'look-alike dots': ['/a/%EF%BC%8E%EF%BC%8E/b', '/a/%E2%80%A5/b', '/a/\xef\xbc\x8e./b'],
    'a look-alike percent sign': ['/a/%EF%BC%852e%EF%BC%852e/b'],
    'a look-alike slash': ['/a/..%EF%BC%8Fb'],
    'an escape that a mark would end': ['/a/..%252f%CC%87b'],
    'more marks than text has': [
      `/a/b${'%CC%81'.repeat(31)}/c`,
      `/a/b${'%EF%BE%9E%CC%81'.repeat(16)}`,
      `/a/b${'%25CC%2581'.repeat(31)}`,
    ],
    'more than is decoded': [`/a/${'%C3%A4'.repeat(1_400)}`, `/a/;${'a'.repeat(8_192)}`],
  }
  for (const [name, targets] of Object.entries(classes))
    for (const target of targets) t.strictSame(readPath(target), UNKNOWN_PATH, `${name}: ${target}`)
})

t.test('a pattern fits what is known, and may fit what is not', async (t) => {
  const rows: [pattern: string, target: string, fit: 'yes' | 'no' | 'maybe'][] = [
    ['/hooks/*', '/hooks/a%2Fb', 'yes'],
    ['/hooks/*', '/hooks//', 'yes'],
    ['/hooks', '/hooks/a%2Fb', 'no'],
    ['/hooks/a', '/hooks/a%2Fb', 'maybe'],
    ['/hooks/b', '/hooks/a%2Fb', 'no'],
    ['/hooks/a/*', '/hooks/a%2Fb', 'maybe'],
    ['/hooks/a', '/hooks//', 'maybe'],
    ['/hooks', '/hooks//', 'maybe'],
    ['/hooks', '/hooks/;x', 'maybe'],
    ['/*/b', '/x/b', 'yes'],
    ['/*/b', '/x%2Fb', 'maybe'],
    ['/admin', '/Admin', 'maybe'],
    ['/admin', '/admin.', 'maybe'],
    ['/admin', '/admin%20', 'maybe'],
    ['/admin', '/%20admin', 'maybe'],
    ['/admin', '/admin+', 'maybe'],
    ['/a b', '/a+b', 'maybe'],
    ['/strasse', '/Stra%C3%9Fe', 'maybe'],
    ['/admin', '/adm%C4%B1n', 'maybe'],
    ['/admin', '/adm%2Fx', 'maybe'],
    ['/admin', '/administrator%2Fx', 'no'],
    ['/admin', '/admin.json', 'no'],
    ['/*', '/a/../b', 'yes'],
    ['/a/*', '/a/../b', 'maybe'],
  ]
  for (const [pattern, target, fit] of rows)
    t.equal(fitOf(pattern, target), fit, `${pattern} ${target}`)
})

t.test('URLs that apps use daily do not fit a rule that has nothing to do with them', async (t) => {
  t.equal(DAILY_URLS.length, 19)
  for (const [app, url] of DAILY_URLS) {
    t.equal(fitOf('/payments/*', url), 'no', app)
    t.equal(fitOf('/admin', url), 'no', app)
  }
  t.equal(fitOf('/remote.php/*', DAILY_URLS[3][1]), 'yes', 'and fit the rule of their own')
})

/** `GATEHOUSE_FAULT_RUNS` draws more, `GATEHOUSE_FAULT_SEED` others. */
const RUNS = Math.max(100_000, Number(process.env.GATEHOUSE_FAULT_RUNS ?? 0))
const SEED = Number(process.env.GATEHOUSE_FAULT_SEED ?? 7)

const PATTERNS = ['/admin', '/admin/*', '/public/*', '/a/*/b', '/a/admin', '/*/admin', '/a b', '/*']

t.test('no app opens what does not fit, nor anything else than what fits', async (t) => {
  const random = createRandom(SEED)
  const patterns = PATTERNS.map((pattern) => ({ pattern, compiled: compilePath(pattern) }))
  const fits = { yes: 0, no: 0, maybe: 0 }
  const wrong: string[] = []
  for (let run = 0; run < RUNS; run++) {
    const target = randomTarget(random)
    const path = readPath(target)
    const readings = [readingOf(random, target), readingOf(random, target)]
    for (const { pattern, compiled } of patterns) {
      const fit = fitPath(compiled, path)
      fits[fit]++
      if (fit === 'maybe') continue
      for (const reading of readings)
        if (opens(compiled, reading) !== (fit === 'yes'))
          wrong.push(`${target} is /${reading.join('/')} to an app: ${pattern} ${fit}`)
    }
  }
  t.strictSame(wrong.slice(0, 5), [], `of ${RUNS} paths, seed ${SEED}`)
  t.ok(Math.min(...Object.values(fits)) > RUNS / 10, JSON.stringify(fits))
})

/** Whether a pattern is of the path that an app sees. */
function opens({ segments, isPrefix }: ReturnType<typeof compilePath>, path: readonly string[]) {
  if (isPrefix ? path.length < segments.length : path.length !== segments.length) return false
  return segments.every((segment, i) => segment === '*' || segment === path[i])
}

t.test('what may be configured is the same to every app', async (t) => {
  for (const path of ['/', '/a/b', '/a b', '/ä/*', '/a%20b', '/.x'])
    t.equal(isNormalPath(path), true, path)
  for (const path of [
    '//',
    '/a//b',
    '/../a',
    '/a;b',
    '/a#b',
    '/a./b',
    '/a.',
    '/a%2Fb',
    '/ a',
    '/ﬁ',
    '/\ud800',
  ])
    t.equal(isNormalPath(path), false, path)
  t.equal(isNormalPath('/x'.repeat(65)), false, 'more segments than are read')
})
