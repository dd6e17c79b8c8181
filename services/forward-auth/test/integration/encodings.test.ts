import t, { type Test } from 'tap'
import type { Echo } from '../helpers/echo.ts'
import { CONFIG, startGate } from '../helpers/gate.ts'
import { missingProgram, PROXIES, type ProxyName } from '../proxies/index.ts'

const NAME = 'Zoë 😀 à'

/** What reaches the app of a display name, as its server reads bytes: one character each. */
async function displayName(t: Test, proxy: ProxyName, encoding: string): Promise<string> {
  const yaml = CONFIG.replace('providers:', `headerEncoding: ${encoding}\n    providers:`)
  const { gatehouse, ask } = await startGate(t, proxy, { yaml })
  const cookie = await gatehouse.signIn('main', { name: NAME })
  const { status, body } = await ask({ headers: { cookie } })
  t.equal(status, 200)
  return (JSON.parse(body) as Echo).cgi.HTTP_X_FORWARDED_DISPLAYNAME?.join() ?? ''
}

for (const proxy of Object.keys(PROXIES) as ProxyName[]) {
  const skip = missingProgram(proxy)
  t.test(`${proxy} passes on a name in every encoding`, { skip }, async (t) => {
    const table: [encoding: string, wire: string][] = [
      ['percent', 'Zo%C3%AB %F0%9F%98%80 %C3%A0'],
      ['utf-8', Buffer.from(NAME).toString('latin1')],
      ['rfc8187', "UTF-8''Zo%C3%AB%20%F0%9F%98%80%20%C3%A0"],
    ]
    for (const [encoding, wire] of table)
      await t.test(encoding, async (t) => t.equal(await displayName(t, proxy, encoding), wire))
  })
}
