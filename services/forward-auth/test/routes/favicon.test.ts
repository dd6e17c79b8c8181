import t from 'tap'
import { portalOf, startApp, yamlOf } from '../app.ts'

t.test('browsers find an icon beside answers that are no page', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  const icon = await app.inject('/favicon.ico')
  t.match(icon, {
    statusCode: 200,
    headers: {
      'content-type': 'image/svg+xml',
      'content-security-policy': "default-src 'none'; sandbox",
      'x-content-type-options': 'nosniff',
    },
    body: /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg"[^<]*><path [^<]*\/><\/svg>$/,
  })
})
