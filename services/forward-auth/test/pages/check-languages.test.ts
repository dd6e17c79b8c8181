import { LANGUAGES } from '@gatehouse/service-kit/pages'
import t from 'tap'
import { textsIn } from '../../src/pages/languages.ts'
import { portalOf, yamlOf } from '../app.ts'
import { MAIN, start } from '../portal/kit.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

const TRAEFIK = SHAPES[0]!

t.test('people get each page in their language, and programs get English', async (t) => {
  const yaml = yamlOf(portalOf('main', 'allow: { groups: [nobody] }'))
  const { visitor, signIn, check } = await start(t, { yaml })
  for (const language of LANGUAGES) {
    const headers = { 'accept-language': `${language}-XX,${language};q=0.9,en;q=0.1` }
    const sent = { 'content-language': language, vary: 'accept-language' }
    const { signedOut, errors, refused } = textsIn(language)
    const page = await visitor().open(`${MAIN}/logout`, { headers })
    t.match(page, { statusCode: 200, headers: sent, body: signedOut.title })
    t.match(page.body, `<html lang="${language}">`)

    const callback = `${MAIN}/providers/corp/callback?code=x`
    const { text, next } = errors.FWA_LOGIN_UNKNOWN
    const error = await visitor().open(callback, { headers })
    t.match(error, { statusCode: 400, headers: sent, body: text })
    t.match(error.body, next)

    const cookie = await signIn('main')
    const asked = { ...BROWSER, 'Accept-Language': language, cookie, 'X-Forwarded-Method': 'GET' }
    const refusal = await check(TRAEFIK, asked)
    t.match(refusal, { statusCode: 403, headers: sent, body: refused.title })

    const problem = await check(TRAEFIK, { ...asked, 'Sec-Fetch-Mode': 'cors' })
    t.match(problem.json(), { title: 'Access denied for this account' })
    t.equal(problem.headers['content-language'], undefined)
  }
})
