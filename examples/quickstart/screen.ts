import { styleText } from 'node:util'
import type { Settings } from './settings.ts'

/** The text that `npm start` prints. */
export function screen({ certs, originOf, folder, keyFile, rootFile }: Settings): string {
  const bold = (text: string) => styleText('bold', text)
  const dim = (text: string) => styleText('dim', text)
  const [app, admin, auth] = ['app', 'admin', 'auth'].map(originOf) as [string, string, string]
  return `
${bold('Gatehouse is running')}

${bold('Open')} one of the apps in a browser. The browser does not know the CA yet: accept its warning, or let it
trust root.pem first. Sign in as Alice (groups admin and staff) or Bob (group staff). There are no passwords.

  ${app.padEnd(admin.length)}   ${dim('for everybody who is signed in')}
  ${admin}   ${dim('for the group admin: Alice may pass, Bob may not')}

${bold('Behind them')}
  forward-auth    ${auth}/portal/main/signin   ${dim('also /profile, /profile.json, /logout')}
  cert-service    ${originOf('certs')}   ${dim(`Alice may revoke; API: ${certs}`)}
  provider        ${originOf('idp')}/.well-known/openid-configuration   ${dim('where Alice and Bob sign in')}
  files           ${folder}   ${dim('secrets in keys/, auth/ and tls/; root.pem')}

${bold('Get a certificate')}: paste this into another terminal.

curl -sS --cacert ${quote(rootFile)} -H "Authorization: APIKey $(cat ${quote(keyFile)})" -H 'Content-Type: application/json' -d '{"domain":"app.example.com"}' ${certs}/api/certificate

${bold('Verify a session')}: copy the cookie __Host-gatehouse.main of the sign-in host (developer tools, Application, Cookies).

  TOKEN=${dim('<its value>')}
  curl -sS --cacert ${quote(rootFile)} -H "Authorization: Bearer $TOKEN" ${auth}/api/portals/main/verify

${dim('Ctrl-C stops everything. Keys and certificates are kept for the next start.')}
`
}

/** Quotes a path for a shell if necessary. */
function quote(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}
