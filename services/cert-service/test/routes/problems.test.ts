import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { start } from '../helpers/app.ts'
import { browse } from '../helpers/browse.ts'

const FIREFOX = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const NAVIGATION = { 'sec-fetch-mode': 'navigate', accept: FIREFOX }

t.test(
  'in a browser a problem is a page with a way back, and programs get problem+json',
  async (t) => {
    const running = await start(t)
    const paths: [what: string, url: string, status: number, said: string, body?: object][] = [
      ['an unknown path', '/nothing/here', 404, 'There is nothing at this path.'],
      ['an unknown path of the API', '/api/nothing', 404, 'There is nothing at this path.'],
      ['a path of the API', '/api/certificates', 401, 'This address is for programs'],
      ['another method', '/sign-out', 405, 'This path answers POST.'],
      ['another method of the API', '/api/certificate', 405, 'This path answers POST.'],
      ['a path that is none', '/%zz', 400, 'Percent-encode the path'],
      ['a form for nothing', '/nothing', 404, 'There is nothing at this path.', {}],
    ]
    const headers: [who: string, headers: Record<string, string>, isPage: boolean][] = [
      ['a browser', NAVIGATION, true],
      ['curl', { accept: '*/*' }, false],
      ['a program', { accept: 'application/json' }, false],
      ['fetch', { 'sec-fetch-mode': 'cors', accept: FIREFOX }, false],
      [
        'a navigation for JSON',
        { ...NAVIGATION, accept: 'application/json, text/html;q=0.5' },
        false,
      ],
    ]
    for (const [what, url, status, said, body] of paths)
      for (const [who, sent, isPage] of headers) {
        const answer = await browse(running, url, { headers: sent, ...(body && { body: {} }) })
        const why = `${what} by ${who}`
        t.equal(answer.status, status, why)
        t.match(
          answer.headers['content-type'],
          isPage ? /^text\/html/ : /^application\/problem\+json/,
          why,
        )
        if (!isPage) continue
        t.match(answer.said, said, why)
        t.match(answer.text, '<a href="/">Back to the certificates</a>', why)
      }
  },
)

t.test('a page of an error says what is wrong with each part, and what to do', async (t) => {
  expectWarnings(t, 'INTERNAL')
  const running = await start(t)
  const refused = await browse(running, '/?after=x_', { headers: NAVIGATION })
  t.match(refused, { status: 400, text: /<h1 class="toned bad">/ })
  t.match(refused.said, /after.*FST_ERR_VALIDATION/)
  running.service.store.findSignIn = async () => {
    throw new Error('the disk, in detail')
  }
  const broken = await browse(running, '/', {
    headers: NAVIGATION,
    cookie: '__Host-gatehouse-certs=x',
  })
  t.match(broken, { status: 500, text: /<h1 class="toned warn">/ })
  t.match(broken.said, /Internal error Try again\..*INTERNAL · request \S+/)
  t.notMatch(broken.text, 'in detail')
})
