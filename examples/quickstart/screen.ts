import { styleText } from 'node:util'

interface Running {
  /** Origin of each service. */
  readonly certs: string
  readonly auth: string
  readonly idp: string
  readonly folder: string
  readonly keyFile: string
  readonly rootFile: string
}

/** What somebody has to know who has just started all of it. */
export function screen({ certs, auth, idp, folder, keyFile, rootFile }: Running): string {
  const bold = (text: string) => styleText('bold', text)
  const dim = (text: string) => styleText('dim', text)
  const portal = `${auth}/portal/main`
  return `
${bold('Gatehouse is running')}

  forward-auth    ${auth}   ${dim('API: /docs')}
  cert-service    ${certs}   ${dim('API: /docs')}
  demo provider   ${idp}   ${dim('Alice (groups admin, staff) and Bob (staff), no passwords')}
  files           ${folder}   ${dim('secrets in keys/, auth/ and tls/; root.pem')}

${bold('Get a certificate')}: paste this into another terminal.

curl -sS --cacert ${quote(rootFile)} -H "Authorization: APIKey $(cat ${quote(keyFile)})" -H 'Content-Type: application/json' -d '{"domain":"app.example.com"}' ${certs}/api/certificate

${bold('Sign in')}: open this in a browser. It does not know the CA: go on past its two warnings, or have it
trust root.pem first.

  ${portal}/signin   ${dim('then /profile, /profile.json, /logout')}

${bold('Verify a session')}: copy the cookie __Secure-gatehouse.main (developer tools, Application, Cookies).

  TOKEN=${dim('<its value>')}
  curl -sS --cacert ${quote(rootFile)} -H "Authorization: Bearer $TOKEN" ${auth}/api/portals/main/verify

${dim('Ctrl-C stops everything. What was made is kept for the next start.')}
`
}

/** For a shell, where need be. */
function quote(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}
