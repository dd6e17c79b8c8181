import t from 'tap'
import { RECORDED } from '../../../../packages/service-kit/test/fixtures/requests-of-engines.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'

t.test('the check answers what each engine sends as a page, or as a call', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  for (const { what, right, method, headers } of RECORDED) {
    const { statusCode, ...answer } = await app.inject({
      url: '/portals/main',
      headers: {
        ...headers,
        host: 'auth.example.com',
        'x-forwarded-method': method,
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'app.example.com',
        'x-forwarded-uri': '/reports',
      },
    })
    const { location = '', 'set-cookie': cookies } = answer.headers
    t.equal(answer.headers['cache-control'], 'no-store', what)
    if (right === 'page') {
      t.not(statusCode, 401, what)
      if (method === 'GET')
        t.match(location, /^https:\/\/auth\.example\.com\/portals\/main\/signin\?/)
    } else t.equal(statusCode, 401, what)
    if (right === 'prefetch') t.equal(cookies, undefined, what)
  }
})
