import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { CLIENT } from '../../../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { freePort, startProcess } from './process.ts'
import type { Page, WebBrowser } from './web-browser.ts'

/** Of its admin, and of alice. */
const PASSWORD = 'only-in-tests'

/** The client as docs/providers/keycloak.md has people make it, and alice, who is in the group `editors`. */
const REALM = {
  realm: 'example',
  enabled: true,
  sslRequired: 'none',
  // The clock of a test goes on by more than five minutes.
  accessTokenLifespan: 3_600,
  groups: [{ name: 'editors' }],
  users: [
    {
      username: 'alice',
      enabled: true,
      email: 'alice@acme.example',
      emailVerified: true,
      firstName: 'Alice',
      lastName: 'Adams',
      groups: ['/editors'],
      // As whoever is added in its console.
      realmRoles: ['default-roles-example'],
      credentials: [{ type: 'password', value: PASSWORD }],
    },
  ],
  clients: [
    {
      clientId: CLIENT.clientId,
      secret: CLIENT.clientSecret,
      redirectUris: CLIENT.redirectUris,
      frontchannelLogout: false,
      protocolMappers: [
        {
          name: 'groups',
          protocol: 'openid-connect',
          protocolMapper: 'oidc-group-membership-mapper',
          config: { 'claim.name': 'groups', 'full.path': 'false', 'id.token.claim': 'true' },
        },
      ],
    },
  ],
}

/** Why Keycloak cannot run here; false if it can. */
export const missingKeycloak =
  !process.env.KEYCLOAK && 'KEYCLOAK does not name the folder of Keycloak'

/** Starts Keycloak with a realm, whose issuer this gives. */
export async function startKeycloak(t: Test): Promise<string> {
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  await startProcess(t, {
    command: 'bash',
    args: [
      join(process.env.KEYCLOAK ?? '', 'bin/kc.sh'),
      ...['start', '--optimized', '--http-enabled=true', '--hostname-strict=false'],
      ...['--http-host=127.0.0.1', `--http-port=${port}`],
    ],
    folder: testFolder(t),
    port,
    env: { KC_BOOTSTRAP_ADMIN_USERNAME: 'admin', KC_BOOTSTRAP_ADMIN_PASSWORD: PASSWORD },
  })
  const admin = { grant_type: 'password', client_id: 'admin-cli', username: 'admin' }
  const answer = await post(
    `${origin}/realms/master/protocol/openid-connect/token`,
    new URLSearchParams({ ...admin, password: PASSWORD }),
  )
  const { access_token: token } = (await answer.json()) as { access_token: string }
  await post(`${origin}/admin/realms`, JSON.stringify(REALM), {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
  })
  return `${origin}/realms/${REALM.realm}`
}

/** What alice does on the page where Keycloak asks who she is. */
export function signInAtKeycloak(browser: WebBrowser, page: Page): Promise<Page> {
  return browser.press(page, 'Sign In', { fields: { username: 'alice', password: PASSWORD } })
}

async function post(url: string, body: string | URLSearchParams, headers = {}): Promise<Response> {
  const answer = await fetch(url, { method: 'POST', headers, body })
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`)
  return answer
}
